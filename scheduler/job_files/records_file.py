"""Characterisation files (docs: job.md): measurements beside the built-in table, every mistake named with its line."""

from typing import Annotated, Any

from annotated_types import Len

from ground.documents import load_document
from ground.errors import InvalidInput, InvalidJob
from ground.files import Source
from ground.records import AsWritten, FiniteFloat, record_of
from scheduler.affinity import Gains, Model, Record
from scheduler.job_files.job_file import Factor, FiniteRecord, ParallelismFile

MEASURED = ("dp_gain", "pp_gain", "dp_band", "pp_band", "published")  # What all measurements say, beside their name

Percent = Annotated[FiniteFloat, AsWritten()]


class RecordFile(FiniteRecord, kw_only=True):
    """One measurement of a characterisation file."""

    name: str
    """Name of the measurement."""
    gpu: str = ""
    """Type of GPU that it was measured on; empty = not known."""
    model: Model | None = None
    """What was trained; null = the measurement is of all jobs."""
    parallelism: ParallelismFile | None = None
    """Degrees of the job; null = the measurement is of all jobs."""
    dp_gain: Factor
    """What aligning DP groups brings, percent of throughput; a loss counts as 0."""
    pp_gain: Factor
    """What aligning PP groups brings, percent of throughput; a loss counts as 0."""
    dp_band: tuple[Percent, Percent] | None = None
    """95 % interval of `dp_gain`, percent; null = not known."""
    pp_band: tuple[Percent, Percent] | None = None
    """95 % interval of `pp_gain`, percent; null = not known."""
    published: str = ""
    """What the source says, and which source; empty = nothing is published."""

    def __post_init__(self) -> None:
        if self.dp_gain == self.pp_gain == 0.0:
            raise ValueError("one of dp_gain and pp_gain must be above 0; such a job tells nothing about alpha")
        for name, band in (("dp_band", self.dp_band), ("pp_band", self.pp_band)):
            if band is not None and band[0] > band[1]:
                raise ValueError(f"{name} goes up, from its lower to its upper end")
        if (self.model is None) != (self.parallelism is None):
            raise ValueError("give model and parallelism, or neither; without them the measurement is of all jobs")


class RecordsDocument(FiniteRecord, kw_only=True):
    """A characterisation file."""

    records: Annotated[tuple[RecordFile, ...], Len(1)]
    """Measurements; one without a model stands alone."""

    def __post_init__(self) -> None:
        if len(self.records) > 1 and (of_all := [record.name for record in self.records if record.model is None]):
            raise ValueError(f"{of_all[0]!r} has no model and so is of all jobs: give it one, or keep it alone")


def load_records(source: Source) -> tuple[Gains, ...]:
    """Read a characterisation file: kinds of jobs that extend the built-in table, or one measurement for all jobs.

    :raises InvalidInput: not YAML or JSON, unknown keys, impossible values; says the line.
    """
    document = load_document(source)
    records: list[Gains] = []
    for i, row in enumerate(document.parse(RecordsDocument).records):
        measured = {name: getattr(row, name) for name in MEASURED}
        if row.model is None or row.parallelism is None:
            records.append(Gains(row.name, **measured))
            continue
        try:
            parallelism = row.parallelism.in_order(row.parallelism.order)
        except InvalidJob as error:
            where = document.where("records", i, *error.where.split("."))
            raise InvalidInput(error.message, where=where, fix=error.fix) from None
        records.append(Record(row.name, row.gpu, row.model, parallelism, **measured))
    return tuple(records)


def records_document(record: Gains) -> RecordsDocument:
    """Return the file that says one measurement."""
    kind: dict[str, Any] = {}
    if isinstance(record, Record):
        degrees = record_of(ParallelismFile, record.parallelism)
        kind = {"gpu": record.gpu, "model": record.model, "parallelism": degrees}
    measured: dict[str, Any] = {name: getattr(record, name) for name in MEASURED}
    return RecordsDocument(records=(RecordFile(name=record.name, **measured, **kind),))
