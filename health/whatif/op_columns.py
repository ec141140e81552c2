"""The columns of a Parquet trace as NumPy arrays, and what its rows may say, each rule with its words."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ground.columns import ParquetColumns, open_parquet
from ground.errors import TooLarge, TraceFormatError, did_you_mean
from ground.files import STDIN, opened
from ground.formats import FileFormat
from health.whatif.optypes import BACKWARD, CODE, FORWARD, OPTYPES
from health.whatif.trace import JobSizes

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
        found: NDArray[np.bool_] = (self.optype == CODE[FORWARD]) | (self.optype == CODE[BACKWARD])
        return found

    def without(self, bad: NDArray[np.bool_]) -> OpColumns:
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
        _check_shape(file, name)
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


def _check_shape(file: Any, name: str) -> None:
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
        raise TooLarge(
            f"has {file.metadata.num_rows:,} rows, and at most {MAX_ROWS:,} are read",
            where=name,
            fix="sample fewer steps: one in ten is enough",
        )


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
            raise TraceFormatError(
                f"{key} is {int(values[row])}, and {name} is {limit}{named}",
                where=f"{columns.source}:row {row}",
                fix="give the metadata of this trace",
            )
    there = np.bincount(columns.whole["stage"][columns.whole["stage"] >= 0], minlength=sizes.pp) > 0
    if not there.all():
        raise TraceFormatError(
            f"stage {int(np.argmin(there))} does not occur, and pp_size is {sizes.pp}{named}",
            where=columns.source,
            fix="trace one rank of every stage, or give the metadata of this trace",
        )
    chunks = int(columns.whole["mc"].max()) + 1
    if chunks not in (0, sizes.vpp):
        raise TraceFormatError(
            f"model chunk {chunks} does not occur, and vpp_size is {sizes.vpp}{named}",
            where=columns.source,
            fix="trace every chunk, or give the metadata of this trace",
        )
    return ranks


def infer_sizes(columns: OpColumns) -> JobSizes:
    """Return the sizes that the rows show, where no metadata say them."""
    dp, pp, vpp = (max(int(columns.whole[key].max()) + 1, 1) for key in ("dp_rank", "stage", "mc"))
    tp = columns.ranks if dp * pp > 1 else 1
    return JobSizes(dp=dp, pp=pp, vpp=vpp, tp=tp, world=dp * pp * tp)


def _at(values: NDArray[Any], rows: Rows) -> str:
    return str(values[rows[0]]) if len(rows) else ""
