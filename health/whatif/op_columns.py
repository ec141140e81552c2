"""The columns of a Parquet trace as NumPy arrays, read one column at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from health.whatif.optypes import BACKWARD, CODE, FORWARD, OPTYPES
from topology.errors import TooLarge, TraceFormatError, did_you_mean
from topology.files import STDIN, opened
from topology.tables.arrow_columns import ParquetColumns, open_parquet

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

UNKNOWN = -1  # Code of an operation type that does not exist
ABSENT = np.iinfo(np.int16).min  # What stands where a whole number is missing
NONE = -1  # Chunk and microbatch of an operation that has none, whether the file says -1 or nothing


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
        """Return the columns without some rows, all of known types.

        :param bad: [rows].
        """
        return replace(
            self,
            whole={key: values[~bad] for key, values in self.whole.items()},
            optype=self.optype[~bad],
            strange=(),
            start=self.start[~bad],
            duration=self.duration[~bad],
        )


def read_columns(path: str | Path) -> OpColumns:
    """Read a trace.

    :param path: a Parquet file; ``-`` is standard input.
    :raises InvalidInput: no such file, unreadable.
    :raises TraceFormatError: not Parquet, truncated, empty, or a column is missing or of another type.
    :raises TooLarge: more than :data:`MAX_ROWS`.
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
    with open_parquet(content, name=name, error=TraceFormatError) as file:
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
