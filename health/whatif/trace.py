"""A traced job: its sizes, which rank does what, and its operations, from the rows of a file to dense arrays.

A metadata file says the sizes, or the rows show them.  The columns of a Parquet trace are checked row by row, each rule
with its words.  Every data-parallel rank runs the same operations in every step, or the graph could not be built once.
A row belongs to a cell: an operation (stage, type, number), a rank and a step.  A whole trace fills every cell once.
With ``lenient`` what does not fit is left out: rows that are wrong in themselves, then ranks without one of the stages,
then ranks of which most steps are incomplete, then steps that are still incomplete.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ground.columns import ParquetColumns, open_parquet
from ground.documents import Document, load_document
from ground.errors import TooLarge, TraceFormatError, did_you_mean
from ground.files import STDIN, Source, opened
from ground.formats import FileFormat
from health.whatif.analysis_result import Operation
from health.whatif.optypes import BACKWARD, CODE, FORWARD, OPTYPES, Parts, stream_of

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
    ep: int = 1  # ranks of an expert-parallel group
    world: int = 0  # GPUs of the job
    v_schedule: bool = False  # whether every second chunk runs back along the pipeline
    source: str = ""  # the file that says so; empty = inferred from the rows

    @property
    def parts(self) -> Parts:
        """The parts of the model."""
        return Parts(self.pp, self.vpp, self.v_schedule)


def read_metadata(source: Source) -> JobSizes:
    """Read ``dp_size``, ``pp_size`` and, where given, ``tp_size``, ``vpp_size``, ``dsp_size``, ``ep_size``,
    ``world_size`` and ``v_schedule``.

    :raises TraceFormatError: a size is missing or not a positive whole number, or the sizes contradict each other.
    """
    document = load_document(source)
    if not isinstance(document.data, dict):
        raise TraceFormatError("is not a mapping of sizes", where=source.name, fix="write lines such as `dp_size: 4`")
    size = {key: _size(document, f"{key}_size") for key in ("dp", "pp", "tp", "vpp", "dsp", "ep")}
    product = size["dp"] * size["pp"] * size["tp"]
    world = _size(document, "world_size", default=product * size["dsp"])
    if world not in (product, product * size["dsp"]):
        raise TraceFormatError(
            f"world_size is {world}, and dp {size['dp']} x pp {size['pp']} x tp {size['tp']} x dsp {size['dsp']} "
            f"makes {product * size['dsp']}",
            where=document.where("world_size"),
            fix="correct the size that is wrong",
        )
    turns = document.data.get("v_schedule", False)
    if not isinstance(turns, bool):
        problem = f"v_schedule is {str(turns)[:40]!r}, neither true nor false"
        raise TraceFormatError(problem, where=document.where("v_schedule"), fix="write `v_schedule: true`, or nothing")
    return JobSizes(**size, world=world, v_schedule=turns, source=source.name)


def metadata_file(sizes: JobSizes) -> str:
    """Return the metadata file, in YAML."""
    names = ("dp", "dsp", "pp", "tp", "vpp")
    world = sizes.world or sizes.dp * sizes.dsp * sizes.pp * sizes.tp
    lines = [*(f"{name}_size: {getattr(sizes, name)}" for name in names), f"world_size: {world}"]
    lines += [f"ep_size: {sizes.ep}"] if sizes.ep > 1 else []
    return "\n".join([*lines, *(["v_schedule: true"] if sizes.v_schedule else []), ""])


def _size(document: Document, key: str, *, default: int = 1) -> int:
    value = document.data.get(key)
    if value is None and key not in ("dp_size", "pp_size"):
        return default
    if value is None:
        raise TraceFormatError(f"{key} is missing", where=document.source.name, fix=f"add a line such as `{key}: 4`")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        problem = f"{key} is {str(value)[:40]!r}, not a whole number from 1 to {LARGEST:,}"
        raise TraceFormatError(problem, where=document.where(key), fix=f"write a number, such as `{key}: 4`")
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
        fix = "give the sizes of a job that exists"
        raise TooLarge(f"describes more than {MOST_RANKS:,} ranks", where=sizes.source, fix=fix)
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
    # with lenient: bool [operations, dp, steps], rows that were missing, and have the usual times of their operation
    filled: NDArray[np.bool_] | None = None

    def at(self, operation: int, rank: int = 0, step: int = 0) -> str:
        """Return where an operation stands in the file."""
        return f"{self.source}:row {self.row[operation, rank, step]}"

    def without_steps(self, bad: NDArray[np.bool_], reason: str) -> Self:
        """Return the trace without the steps where ``bad`` holds, and with their rows counted as dropped."""
        keep = np.flatnonzero(~bad)
        return replace(
            self,
            steps=tuple(self.steps[i] for i in keep),
            row=self.row[:, :, keep],
            start=self.start[:, :, keep],
            duration=self.duration[:, :, keep],
            filled=None if self.filled is None else self.filled[:, :, keep],
            dropped={**self.dropped, reason: int(self.row[:, :, bad].size)},
        )


MAX_ROWS = 200_000_000  # Largest trace, about 10 GB in memory: a file of kilobytes can claim any number of rows
MAX_STDIN = 2 * 1024**3

WHOLE: Mapping[str, type[np.signedinteger[Any]]] = {
    "dp_rank": np.int32,
    "stage": np.int16,
    "step": np.int64,
    "seq_id": np.int32,
    "mc": np.int16,
    "mb_id": np.int32,
}
SECONDS = ("start_ts", "duration")
UNUSED = ("rank", "gmc")
COLUMNS = (*WHOLE, "optype", *SECONDS, *UNUSED)

FORMAT = FileFormat(
    name="op-trace",
    source="op trace in Parquet, a row an operation, as published with arXiv 2505.05713 and as conversions write it",
    export="arnold health op-trace FILES --save FOLDER",
    read="all columns that the analysis uses, and the statement of a conversion",
    left_out="gmc; rank but for the tensor-parallel size",
)
_NO_OP_TRACE = (
    "give an op trace, whole; `arnold health op-trace FILES --save DIR` makes one of profiles and logs of timers"
)
UNKNOWN = -1  # Code of an operation type that does not exist
ABSENT = np.iinfo(np.int16).min  # What stands where a whole number is missing
NONE = -1  # Chunk and microbatch of an operation that has none, whether the file says -1 or nothing
Rows = NDArray[np.int64]
NO_ROWS: Rows = np.array([], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class OpColumns:
    """Rows of a trace, column by column, as far as the analysis uses them."""

    source: str  # name of the file
    whole: Mapping[str, NDArray[np.signedinteger[Any]]]  # the columns of whole numbers; ABSENT where one is missing
    optype: NDArray[np.int8]  # places in health.whatif.optypes.OPTYPES; UNKNOWN = none of them
    strange: tuple[str, ...]  # names of operation types that do not exist
    # seconds since the first operation of the step, in the precision of the file; NaN = missing
    start: NDArray[np.floating[Any]]
    duration: NDArray[np.floating[Any]]  # seconds; NaN = missing
    ranks: int  # greatest common divisor of the global ranks: the tensor-parallel size, if all are there

    def __len__(self) -> int:
        return len(self.optype)

    @property
    def passes(self) -> NDArray[np.bool_]:
        """[rows]: whether a row is a forward or backward pass."""
        is_pass: NDArray[np.bool_] = (self.optype == CODE[FORWARD]) | (self.optype == CODE[BACKWARD])
        return is_pass

    def without(self, bad: NDArray[np.bool_]) -> Self:
        """Return the columns without the rows where ``bad`` holds; the others are of known types."""
        return replace(
            self,
            whole={key: values[~bad] for key, values in self.whole.items()},
            optype=self.optype[~bad],
            strange=(),
            start=self.start[~bad],
            duration=self.duration[~bad],
        )


def read_columns(path: str | Path) -> OpColumns:
    """Read a Parquet file; ``-`` is standard input.

    :raises TraceFormatError: not Parquet, truncated, empty, or a column is missing or of another type.
    """
    with opened(path) as (name, file):
        if str(path) != STDIN:
            return _read(str(path), name, size=os.fstat(file.fileno()).st_size)
        data = file.read(MAX_STDIN + 1)
    if len(data) > MAX_STDIN:
        raise TooLarge(f"is larger than {MAX_STDIN >> 30} GB", where=name, fix="give it as a file")
    return _read(data, name, size=len(data))


def _read(content: str | bytes, name: str, *, size: int) -> OpColumns:
    if not size:
        raise TraceFormatError("is empty", where=name, fix="give a Parquet file with rows")
    with open_parquet(content, name=name, error=TraceFormatError, fix=_NO_OP_TRACE) as file:
        # A dictionary is asked for below, and only of a column that is there.
        there = file.schema_arrow.names
        missing = [key for key in COLUMNS if key not in there and key not in UNUSED]
        if missing:
            raise TraceFormatError(
                f"the column {missing[0]!r} is missing" + (f", and {', '.join(missing[1:])}" if missing[1:] else ""),
                where=name,
                fix=f"{did_you_mean(missing[0], there)}a trace has the columns {', '.join(COLUMNS)}",
            )
        if not file.metadata.num_rows:
            raise TraceFormatError("has no rows", where=name, fix="give a trace of at least one whole step")
        if file.metadata.num_rows > MAX_ROWS:
            problem = f"has {file.metadata.num_rows:,} rows, and at most {MAX_ROWS:,} are read"
            raise TooLarge(problem, where=name, fix="sample fewer steps: one in ten is enough")
    how = {"read_dictionary": ["optype"], "metadata": file.metadata}
    with open_parquet(content, name=name, error=TraceFormatError, **how) as file:
        columns = ParquetColumns(file, name=name, error=TraceFormatError)
        whole = {key: _whole_numbers(columns, key).astype(kind, copy=False) for key, kind in WHOLE.items()}
        optype, strange = columns.codes("optype", CODE, unknown=UNKNOWN, hint=f" ({', '.join(OPTYPES)})")
        passes = (optype == CODE[FORWARD]) | (optype == CODE[BACKWARD])
        for key in ("mc", "mb_id"):
            whole[key] = np.where((whole[key] == ABSENT) & ~passes, whole[key].dtype.type(NONE), whole[key])
        start, duration = (columns.seconds(key) for key in SECONDS)
        stride = int(np.gcd.reduce(np.unique(_whole_numbers(columns, "rank")))) if "rank" in file.schema.names else 1
    return OpColumns(name, whole, optype, strange, start, duration, max(stride, 1))


def _whole_numbers(columns: ParquetColumns, key: str) -> NDArray[np.signedinteger[Any]]:
    return columns.whole_numbers(key, missing=ABSENT, limits=np.iinfo(WHOLE.get(key, np.int64)))


class Fault(NamedTuple):
    """Rows that break a rule."""

    reason: str  # the rule in a few words, for the count of what was dropped
    rows: Rows  # numbers of the rows, ascending
    message: str  # about the first of them
    fix: str


def faults_of_rows(columns: OpColumns) -> Iterator[Fault]:
    """Yield rows that are wrong in themselves."""
    if columns.strange:
        names = ", ".join(repr(name) for name in columns.strange[:3])
        fix = f"{did_you_mean(columns.strange[0], OPTYPES)}use {', '.join(OPTYPES)}"
        rows = np.flatnonzero(columns.optype == UNKNOWN)
        yield Fault("unknown operation type", rows, f"unknown operation type: {names}", fix)
    for key, values in columns.whole.items():
        rows = np.flatnonzero(values == ABSENT) if int(values.min()) <= ABSENT else NO_ROWS
        yield Fault(f"{key} missing", rows, f"{key} is missing", "write a number in every row; -1 where there is none")
    for key in ("dp_rank", "stage", "seq_id"):
        values = columns.whole[key]
        rows = np.flatnonzero(values < 0) if int(values.min()) < 0 else NO_ROWS
        yield Fault(f"{key} below 0", rows, f"{key} is {_at(values, rows)}", "count from 0")
    for key, seconds in (("start_ts", columns.start), ("duration", columns.duration)):
        rows = np.flatnonzero(~np.isfinite(seconds))
        yield Fault(f"{key} not finite", rows, f"{key} is {_at(seconds, rows)}", "leave the whole step out")
    rows = np.flatnonzero(columns.duration < 0)
    message = f"duration is {_at(columns.duration, rows)} s: an operation ends before it begins"
    yield Fault("negative duration", rows, message, "take both times from one clock, or leave the whole step out")
    rows = np.flatnonzero(columns.passes & (columns.whole["mb_id"] < 0))
    yield Fault("compute without microbatch", rows, "a forward or backward pass has no microbatch", "write its mb_id")


def check_sizes(columns: OpColumns, sizes: JobSizes) -> int:
    """Return how many data-parallel ranks the job has by the metadata.

    :raises TraceFormatError: a rank, stage or chunk lies outside the sizes, or a stage or chunk does not occur.
    """
    ranks = sizes.dp
    highest = int(columns.whole["dp_rank"].max())
    if highest >= ranks and sizes.dsp > 1 and highest < ranks * sizes.dsp:
        ranks *= sizes.dsp
    named = f" in {sizes.source}" if sizes.source else ""
    limits = {"dp_rank": (ranks, "dp_size"), "stage": (sizes.pp, "pp_size"), "mc": (sizes.vpp, "vpp_size")}
    for key, (limit, name) in limits.items():
        values = columns.whole[key]
        if int(values.max()) >= limit:
            row = int(np.argmax(values >= limit))
            problem = f"{key} is {int(values[row])}, and {name} is {limit}{named}"
            raise TraceFormatError(problem, where=f"{columns.source}:row {row}", fix="give the metadata of this trace")
    there = np.bincount(columns.whole["stage"][columns.whole["stage"] >= 0], minlength=sizes.pp) > 0
    if not there.all():
        problem = f"stage {int(np.argmin(there))} does not occur, and pp_size is {sizes.pp}{named}"
        fix = "trace one rank of every stage, or give the metadata of this trace"
        raise TraceFormatError(problem, where=columns.source, fix=fix)
    chunks = int(columns.whole["mc"].max()) + 1
    if chunks not in (0, sizes.vpp):
        problem = f"model chunk {chunks} does not occur, and vpp_size is {sizes.vpp}{named}"
        fix = "trace every chunk, or give the metadata of this trace"
        raise TraceFormatError(problem, where=columns.source, fix=fix)
    return ranks


def infer_sizes(columns: OpColumns) -> JobSizes:
    """Return the sizes that the rows show, where no metadata say them."""
    dp, pp, vpp = (max(int(columns.whole[key].max()) + 1, 1) for key in ("dp_rank", "stage", "mc"))
    tp = columns.ranks if dp * pp > 1 else 1
    return JobSizes(dp=dp, pp=pp, vpp=vpp, tp=tp, world=dp * pp * tp)


def _at(values: NDArray[Any], rows: Rows) -> str:
    return str(values[rows[0]]) if len(rows) else ""


Ints = NDArray[np.int64]

# Most possible (stage, type, number): numbers far beyond those of the rows are a fault of the file
MAX_KEYS = 50_000_000
HALF = 0.5  # Ranks and operations that are there in at most this share of the steps are out of place
FILLED = 0.05  # Most of a step of a rank that may be missing, and is filled leniently


def read_trace(
    path: str | Path, *, sizes: JobSizes | None = None, lenient: bool = False, partial: bool = False
) -> Trace:
    """Read a trace from a Parquet file; ``-`` is standard input.

    :param sizes: of the metadata; ``None`` = those that the rows show.
    :param lenient: leave out what does not fit, and count it.
    :param partial: data-parallel ranks may be absent: the trace says so itself.
    :raises TraceFormatError: the trace breaks a rule; if lenient, nothing is left or the metadata are of another job.
    """
    columns = read_columns(path)
    dropped: Counter[str] = Counter()
    for fault in faults_of_rows(columns) if not lenient else ():
        if len(fault.rows):
            raise TraceFormatError(fault.message, where=f"{columns.source}:row {fault.rows[0]}", fix=fault.fix)
    if lenient:
        bad = np.zeros(len(columns), dtype=np.bool_)
        for fault in faults_of_rows(columns):
            rows = fault.rows[~bad[fault.rows]]
            dropped[fault.reason] += len(rows)
            bad[rows] = True
        if bad.all():
            fix = "read it without --lenient to see why"
            raise TraceFormatError("has no usable row", where=columns.source, fix=fix)
        columns = columns.without(bad) if bad.any() else columns
    sizes = sizes or infer_sizes(columns)
    ranks = check_sizes(columns, sizes)
    places, place = _places(columns.whole["dp_rank"])
    traced = np.zeros((len(places), sizes.pp), dtype=np.bool_)
    traced[place, columns.whole["stage"]] = True
    whole: NDArray[np.bool_] = np.all(traced, axis=1)  # of each rank, whether every stage was traced
    if not whole.all():
        if not lenient or not whole.any():
            absent = np.argwhere(~traced)[0]
            raise TraceFormatError(
                f"worker dp {int(places[absent[0]])} / stage {int(absent[1])} is absent: it has no row",
                where=columns.source,
                fix="trace every stage of every rank"
                + (", or use --lenient to judge the ranks that are whole" if whole.any() else ""),
            )
        out = ~whole[place]
        dropped["rank without a stage"] += int(out.sum())
        columns = columns.without(out)
    return _Assembly(columns, sizes, 0 if partial else ranks, dropped, lenient=lenient).trace()


class _Assembly:
    """Rows on their way into cells: of each row the places in ``keys``, ``ranks`` and ``steps``."""

    def __init__(
        self, columns: OpColumns, sizes: JobSizes, ranks: int, dropped: Counter[str], *, lenient: bool
    ) -> None:
        self.columns, self.sizes, self.dropped, self.lenient = columns, sizes, dropped, lenient
        whole = columns.whole
        self.numbers = int(whole["seq_id"].max()) + 1
        possible = sizes.pp * len(OPTYPES) * self.numbers
        if possible > max(MAX_KEYS, 4 * len(columns)):
            row = int(np.argmax(whole["seq_id"]))
            problem = f"seq_id is {self.numbers - 1:,}: more operations than can be"
            raise TooLarge(problem, where=f"{columns.source}:row {row}", fix="count operations from 0 in every step")
        key = (whole["stage"].astype(np.int64) * len(OPTYPES) + columns.optype) * self.numbers + whole["seq_id"]
        self.keys, self.operation = _places(key)
        self.steps, self.step = _places(whole["step"])
        self.ranks, self.rank = _places(whole["dp_rank"])
        self.expected_ranks = ranks

    def trace(self) -> Trace:
        """Return the dense trace."""
        if self.lenient:
            # Leave out what keeps the rest from being whole
            pairs = (len(self.ranks), len(self.steps))
            cell = (self.operation * pairs[0] + self.rank) * pairs[1] + self.step
            order = np.argsort(cell, kind="stable")
            twice = order[1:][np.diff(cell[order]) == 0]
            pair = self.rank * pairs[1] + self.step
            busy = np.bincount(pair, minlength=pairs[0] * pairs[1]) > 0
            usual = np.bincount(self.operation, minlength=len(self.keys)) > HALF * int(busy.sum())
            there = np.bincount(pair[usual[self.operation]], minlength=pairs[0] * pairs[1])
            seen = np.zeros((len(self.keys), *pairs), dtype=np.bool_)
            seen.reshape(-1)[cell] = True
            # steps that are whole, where most are; else also those of which little is missing
            for least in (1.0, 1.0 - FILLED):
                incomplete = (there > usual.sum()) | (there < least * usual.sum())
                incomplete[pair[twice]] = True
                incomplete[pair[~usual[self.operation]]] = True
                table = incomplete.reshape(pairs)
                hopeless = table.mean(axis=1) > HALF
                if least < 1.0:  # of a rank that lacks an operation in most steps nothing is known of it
                    hopeless |= (seen[usual].mean(axis=2) <= HALF).any(axis=0)
                good = ~table[~hopeless].any(axis=0)
                if not hopeless.any() and good.mean() > HALF:
                    break
            for none_left, problem in ((hopeless, "no rank has enough whole steps"), (~good, "no step is whole")):
                if none_left.all():
                    fix = "read it without --lenient to see what is wrong first"
                    raise TraceFormatError(problem, where=self.columns.source, fix=fix)
            out_of_rank, out_of_step = hopeless[self.rank], ~good[self.step]
            self.dropped["rank incomplete in most steps"] += int(out_of_rank.sum())
            self.dropped["step incomplete"] += int((out_of_step & ~out_of_rank).sum())
            keep = ~(out_of_rank | out_of_step)
            self.columns = self.columns.without(~keep)
            self.keys, self.operation = _places(self.keys[self.operation[keep]])
            self.steps, self.step = _places(self.steps[self.step[keep]])
            self.ranks, self.rank = _places(self.ranks[self.rank[keep]])
        elif len(self.ranks) < self.expected_ranks:
            absent = int(np.setdiff1d(np.arange(self.expected_ranks), self.ranks)[0])
            problem = f"data-parallel rank {absent} is absent, and the job has {self.expected_ranks}"
            fix = "trace every rank, or use --lenient to judge those that are there"
            raise TraceFormatError(problem, where=self.columns.source, fix=fix)
        shape = (len(self.keys), len(self.ranks), len(self.steps))
        cell = (self.operation * shape[1] + self.rank) * shape[2] + self.step
        count = np.bincount(cell, minlength=int(np.prod(shape)))
        if (count > 1).any() or (not self.lenient and not count.all()):
            raise self._not_whole(cell, shape)
        missing = count.reshape(shape) == 0

        def dense(values: NDArray[Any]) -> NDArray[Any]:
            filled = np.zeros(shape, dtype=values.dtype)
            filled.reshape(-1)[cell] = values
            for place in np.flatnonzero(missing.any(axis=(1, 2))):
                filled[place][missing[place]] = np.median(filled[place][~missing[place]])
            return filled

        start, row = dense(self.columns.start), dense(np.arange(len(cell), dtype=np.int32))
        row[missing] = row.max(axis=(1, 2))[np.nonzero(missing)[0]]
        if (began := start.min(axis=(0, 1))).any():
            start -= began
        return Trace(
            source=self.columns.source,
            sizes=self.sizes,
            dp_ranks=tuple(int(rank) for rank in self.ranks),
            steps=tuple(int(step) for step in self.steps),
            operations=self._operations(row),
            sequence=self.keys % self.numbers,
            row=row,
            start=start,
            duration=dense(self.columns.duration),
            filled=missing if missing.any() else None,
            dropped={reason: count for reason, count in self.dropped.items() if count},
        )

    def _operations(self, row: NDArray[np.int32]) -> tuple[Operation, ...]:
        """Return what each operation is, which must not differ from rank to rank or step to step."""
        columns = self.columns
        for key in ("mc", "mb_id"):
            values = columns.whole[key]
            first = values[row[:, 0, 0]]
            differs = columns.passes & (values != first[self.operation])
            if differs.any():
                at = int(np.argmax(differs))
                raise TraceFormatError(
                    f"{key} is {int(values[at])}, and {int(first[self.operation[at]])} in the first rank and step: "
                    "the operations stand in another order",
                    where=f"{columns.source}:row {at}",
                    fix="analyse steps of one schedule only",
                )
        made = []
        for key, at in zip(self.keys, row[:, 0, 0], strict=True):
            stage, optype, _ = self._parts(key)
            chunk = int(columns.whole["mc"][at])
            if optype in (FORWARD, BACKWARD) and self.sizes.vpp == 1:
                chunk = max(chunk, 0)
            made.append(Operation(optype, stage, chunk, int(columns.whole["mb_id"][at]), stream_of(optype)))
        return tuple(made)

    def _not_whole(self, cell: Ints, shape: tuple[int, int, int]) -> TraceFormatError:
        """Return the error for cells that are empty or filled twice."""
        order = np.argsort(cell, kind="stable")
        twice = np.flatnonzero(np.diff(cell[order]) == 0)
        rare = ~(np.bincount(self.operation, minlength=shape[0]) > HALF * shape[1] * shape[2])[self.operation]
        if len(twice):
            row = int(order[twice[0] + 1])
            problem = f"{self._cell(cell[row], shape)} is there twice (first in row {int(order[twice[0]])})"
            fix = "keep one row for each operation, or use --lenient to leave the step out"
        elif rare.any():
            row = int(np.argmax(rare))
            problem = f"{self._cell(cell[row], shape)}: most other ranks or steps have no such operation"
            fix = "analyse steps of one schedule only, or use --lenient to leave this one out"
        else:
            ordered = cell[order]
            gap = int(np.argmax(ordered != np.arange(len(ordered))))
            missing = gap if ordered[gap] != gap else len(ordered)
            row = int(order[min(max(gap - 1, 0), len(order) - 1)])
            problem = f"{self._cell(missing, shape)} is missing: the step is cut off or a rank was not traced"
            fix = "leave the step out, or use --lenient to have it left out"
        return TraceFormatError(problem, where=f"{self.columns.source}:row {row}", fix=fix)

    def _cell(self, cell: int, shape: tuple[int, int, int]) -> str:
        place, rank, step = np.unravel_index(cell, shape)
        stage, optype, number = self._parts(self.keys[place])
        return f"{optype} {number} of step {self.steps[step]}, dp rank {self.ranks[rank]}, stage {stage}"

    def _parts(self, key: Any) -> tuple[int, str, int]:
        """Return stage, type and number of an operation, which :attr:`keys` hold as one number."""
        stage, optype = divmod(int(key) // self.numbers, len(OPTYPES))
        return stage, OPTYPES[optype], int(key) % self.numbers


def _places(values: NDArray[np.signedinteger]) -> tuple[Ints, Ints]:
    """Return the distinct values, ascending, and the place of each value among them."""
    low, high = int(values.min()), int(values.max())
    if high - low > max(MAX_KEYS, 4 * len(values)):
        distinct, inverse = np.unique(values, return_inverse=True)
        return distinct.astype(np.int64), inverse.astype(np.int64)
    there = np.zeros(high - low + 1, dtype=np.bool_)
    there[values - low] = True
    place = np.cumsum(there, dtype=np.int64) - 1
    return np.flatnonzero(there) + low, place[values - low]
