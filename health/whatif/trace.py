"""A traced job: its sizes, as the metadata file says them, which rank does what, and its operations as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ground.documents import Document, load_document
from ground.errors import TooLarge, TraceFormatError
from ground.files import Source
from health.whatif.analysis_result import Operation

LARGEST = 1_000_000  # Largest size of anything: more GPUs than any job has
MOST_RANKS = 1 << 20

# What a set of ranks is to the job; ``tail`` spans stages and more: the groups of the end of a step
Family = Literal["self", "tp", "cp", "dp", "pp", "tail"]
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class JobSizes:
    """Sizes of a job's parallel groups."""

    dp: int  # data-parallel ranks
    pp: int  # pipeline stages
    tp: int = 1  # tensor-parallel ranks
    vpp: int = 1  # model chunks of a stage
    dsp: int = 1  # how many ranks share one sequence
    world: int = 0  # GPUs of the job
    source: str = ""  # the file that says so; empty = inferred from the rows


def read_metadata(source: Source) -> JobSizes:
    """Read ``dp_size``, ``pp_size`` and, where given, ``tp_size``, ``vpp_size``, ``dsp_size``, ``world_size``.

    :raises TraceFormatError: a size is missing or not a positive whole number, or the sizes contradict each other.
    """
    document = load_document(source)
    if not isinstance(document.data, dict):
        raise TraceFormatError("is not a mapping of sizes", where=source.name, fix="write lines such as `dp_size: 4`")
    size = {key: _size(document, f"{key}_size") for key in ("dp", "pp", "tp", "vpp", "dsp")}
    product = size["dp"] * size["pp"] * size["tp"]
    world = _size(document, "world_size", default=product * size["dsp"])
    if world not in (product, product * size["dsp"]):
        raise TraceFormatError(
            f"world_size is {world}, and dp {size['dp']} x pp {size['pp']} x tp {size['tp']} x dsp {size['dsp']} "
            f"makes {product * size['dsp']}",
            where=document.where("world_size"),
            fix="correct the size that is wrong",
        )
    return JobSizes(**size, world=world, source=source.name)


def metadata_file(sizes: JobSizes) -> str:
    """Return the metadata file, in YAML."""
    names = ("dp", "dsp", "pp", "tp", "vpp")
    world = sizes.world or sizes.dp * sizes.dsp * sizes.pp * sizes.tp
    return "".join(f"{name}_size: {getattr(sizes, name)}\n" for name in names) + f"world_size: {world}\n"


def _size(document: Document, key: str, *, default: int = 1) -> int:
    value = document.data.get(key)
    if value is None and key not in ("dp_size", "pp_size"):
        return default
    if value is None:
        raise TraceFormatError(f"{key} is missing", where=document.source.name, fix=f"add a line such as `{key}: 4`")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise TraceFormatError(
            f"{key} is {str(value)[:40]!r}, not a whole number from 1 to {LARGEST:,}",
            where=document.where(key),
            fix=f"write a number, such as `{key}: 4`",
        )
    return value


@dataclass(frozen=True, slots=True)
class RankLayout:
    """The grid of a job, in Megatron's order tp-cp-dp-pp: tensor-parallel ranks vary fastest, stages slowest.

    The op trace keeps one rank of each worker, the one with tensor- and sequence-parallel rank 0; what the others do
    inside a compute operation is part of its duration.
    """

    dp: int  # data-parallel ranks
    dsp: int  # ranks that share one sequence: context parallelism
    pp: int  # pipeline stages
    tp: int  # tensor-parallel ranks
    vpp: int  # model chunks of a stage

    @property
    def world_size(self) -> int:
        """Ranks of the job."""
        return self.dp * self.dsp * self.pp * self.tp

    def worker(self, rank: int) -> tuple[int, int]:
        """Return data-parallel rank and stage of a global rank."""
        inside = rank // (self.tp * self.dsp)
        return inside % self.dp, inside // self.dp

    def is_representative(self, rank: int) -> bool:
        """Return whether a rank stands for its worker."""
        return rank % (self.tp * self.dsp) == 0

    def representative(self, dp: int, stage: int) -> int:
        """Return the global rank that stands for a worker."""
        return (stage * self.dp + dp) * self.dsp * self.tp

    def representatives(self) -> list[int]:
        """Return one global rank a worker, ascending."""
        return list(range(0, self.world_size, self.dsp * self.tp))

    def family(self, ranks: Sequence[int]) -> Family:
        """Return what a process group is, from its members."""
        if len(ranks) < 2:
            return "self"
        workers = {self.worker(rank) for rank in ranks}
        replicas, stages = (len(set(part)) for part in zip(*workers, strict=True))
        if len(workers) == 1:
            return "tp" if len({rank // self.tp for rank in ranks}) == 1 else "cp"
        if stages == 1:
            return "dp"
        return "pp" if replicas == 1 and len(ranks) == len(workers) else "tail"


def layout_of(sizes: JobSizes) -> RankLayout:
    """Return the grid that metadata describe; a world of dp x pp x tp has the ranks of sequences among those of dp."""
    if sizes.dp * sizes.dsp * sizes.pp * sizes.tp > MOST_RANKS:
        raise TooLarge(
            f"describes more than {MOST_RANKS:,} ranks", where=sizes.source, fix="give the sizes of a job that exists"
        )
    dsp = 1 if sizes.world == sizes.dp * sizes.pp * sizes.tp else sizes.dsp
    return RankLayout(dp=sizes.dp, dsp=dsp, pp=sizes.pp, tp=sizes.tp, vpp=sizes.vpp)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Operations of a traced job: the same for every data-parallel rank and step, as dense arrays."""

    source: str  # name of the file
    sizes: JobSizes  # sizes of the job
    dp_ranks: tuple[int, ...]  # numbers of the data-parallel ranks, as in the trace
    steps: tuple[int, ...]  # numbers of the steps, as in the trace
    operations: tuple[Operation, ...]  # those of every rank and step, by stage, type and number within both
    sequence: NDArray[np.int64]  # int [operations], number within stage and type: the trace's seq_id
    row: NDArray[np.int32]  # int [operations, dp, steps], number of the row in the file, from 0
    start: Floats  # [operations, dp, steps], seconds since the first operation of the step, precision of the file
    duration: Floats  # [operations, dp, steps], seconds, precision of the file
    dropped: Mapping[str, int] = field(default_factory=dict)  # with lenient: reason -> rows left out

    def at(self, operation: int, rank: int = 0, step: int = 0) -> str:
        """Return where an operation stands in the file."""
        return f"{self.source}:row {self.row[operation, rank, step]}"

    def without_steps(self, bad: NDArray[np.bool_], reason: str) -> Trace:
        """Return the trace without the steps where ``bad`` holds, and with their rows counted as dropped."""
        keep = np.flatnonzero(~bad)
        return replace(
            self,
            steps=tuple(self.steps[i] for i in keep),
            row=self.row[:, :, keep],
            start=self.start[:, :, keep],
            duration=self.duration[:, :, keep],
            dropped={**self.dropped, reason: int(self.row[:, :, bad].size)},
        )
