"""What `arnold place` and `arnold repair` save a placement to, and what else `arnold place` is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from arnold.exports.launcher_files import LAUNCHER_FILES, LauncherFormat, LaunchOrder
from arnold.options.shared_options import ALGORITHM_HELP, PAGE_HELP
from ground.errors import InvalidInput, did_you_mean
from ground.quantities import plural

if TYPE_CHECKING:
    from arnold.documents.place_answer import PlaceDocument, RepairDocument
    from scheduler.job import Job

PlacementFormat = Literal["json", LauncherFormat]
ENDS: dict[str, PlacementFormat] = {
    **{cast("PlacementFormat", kind): kind for kind in get_args(PlacementFormat)},
    "sbatch": "slurm",
    "sh": "slurm",
}
"""What the name of a file may end in -> format."""


@dataclass(frozen=True, slots=True)
class PlacementOutputs:
    """Files that a placement is saved to, and their formats."""

    output: tuple[str, ...] = field(default=(), metadata={"file": "result"})
    """Save the placement, as JSON for `arnold repair` or in the format of a launcher."""
    output_format: tuple[PlacementFormat, ...] = field(
        default=(), metadata={"default": "what the name of the file ends in; json without an end"}
    )
    """Format of the --output of the same number, one for each or none."""

    def formats(self) -> Mapping[str, PlacementFormat]:
        """Return file -> format, in order.

        :raises InvalidInput: there are not as many formats as files, or the end of a name says none.
        """
        if self.output_format and len(self.output_format) != len(self.output):
            given = f"{plural(len(self.output_format), 'format')} for {plural(len(self.output), 'file')}"
            fix = "give each --output FILE its own --output-format, in the same order"
            raise InvalidInput(given, where="--output-format", fix=fix)
        formats = self.output_format or tuple(_format_of(file) for file in self.output)
        return dict(zip(self.output, formats, strict=True))

    def texts(self, document: PlaceDocument | RepairDocument, job: Job, *, asked: Mapping[str, str]) -> dict[str, str]:
        """Return file -> what stands in it.

        :param document: what the JSON is, with a placement in it.
        :param asked: option of sbatch -> its value, as it was asked which nodes are free.
        :raises InvalidInput: a name cannot stand in a file of its format.
        """
        texts: dict[str, str] = {}
        for file, kind in self.formats().items():
            try:
                texts[file] = _text(kind, document, job, asked)
            except InvalidInput as error:
                error.where = file
                raise
        return texts


@dataclass(frozen=True, slots=True)
class PlaceOptions(PlacementOutputs):
    """What `arnold place` is asked beside the cluster and the jobs: by which algorithm, and what it writes."""

    algorithm: str = field(default="exact", metadata={"metavar": "NAME", "help": ALGORITHM_HELP})
    certificate: str | None = field(default=None, metadata={"file": "result"})
    """Save what proves the answer, JSON, for `arnold verify`."""
    html: str | None = field(default=None, metadata={"file": "result", "help": PAGE_HELP})


def _format_of(file: str) -> PlacementFormat:
    """Return the format that the end of a file's name says, ``job.hostfile`` or just ``hostfile``; JSON without an end.

    :raises InvalidInput: the name has an end that says none.
    """
    name = Path(file).name.lower()
    end = name.rpartition(".")[2]
    if (kind := ENDS.get(end)) is not None:
        return kind
    if "." not in name:
        return "json"
    ends = ", ".join(f".{known}" for known in ENDS)
    fix = f"{did_you_mean(end, ENDS)}end the name in one of {ends}, or say --output-format"
    raise InvalidInput(f"'.{end}' says no format of a placement", where=file, fix=fix)


def _text(kind: PlacementFormat, document: PlaceDocument | RepairDocument, job: Job, asked: Mapping[str, str]) -> str:
    from arnold.console.output import to_json

    if kind == "json":
        return to_json(document) + "\n"
    nodes = [cell.node for cell in document.assignment]
    return LAUNCHER_FILES[kind](LaunchOrder(nodes, job.gpus_per_node, job.parallelism.gpus, asked))
