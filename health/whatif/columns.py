"""The columns of a Parquet trace as NumPy arrays, read one column at a time; the door to pyarrow."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from health.whatif.optypes import BACKWARD, CODE, FORWARD, OPTYPES
from topology.errors import InvalidInput, TooLarge, TraceFormatError, did_you_mean
from topology.files import STDIN

MAX_ROWS = 200_000_000
"""Largest trace, about 10 GB in memory: a file of kilobytes can claim any number of rows."""

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

UNKNOWN = -1
"""Code of an operation type that does not exist."""

ABSENT = np.iinfo(np.int16).min
"""What stands where a whole number is missing."""

NONE = -1
"""Chunk and microbatch of an operation that has none, whether the file says -1 or nothing."""

EXACT = 2**53
"""From here on a float does not tell whole numbers apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Rows of a trace, column by column, as far as the analysis uses them.

    :param source: name of the file.
    :param whole: the columns of whole numbers; :data:`ABSENT` where one is missing.
    :param optype: places in :data:`~health.whatif.optypes.OPTYPES`; :data:`UNKNOWN` = none of them.
    :param strange: names of operation types that do not exist.
    :param start: seconds since the first operation of the step, in the precision of the file; NaN = missing.
    :param duration: seconds; NaN = missing.
    :param ranks: greatest common divisor of the global ranks: the tensor-parallel size, if all are there.
    """

    source: str
    whole: Mapping[str, NDArray[np.signedinteger[Any]]]
    optype: NDArray[np.int8]
    strange: tuple[str, ...]
    start: NDArray[np.floating[Any]]
    duration: NDArray[np.floating[Any]]
    ranks: int

    def __len__(self) -> int:
        return len(self.optype)


def read_columns(path: str | Path) -> Columns:
    """Read a trace.

    :param path: a Parquet file; ``-`` is standard input.
    :raises InvalidInput: no such file, unreadable.
    :raises TraceFormatError: not Parquet, truncated, empty, or a column is missing or of another type.
    :raises TooLarge: more than :data:`MAX_ROWS`.
    """
    import pyarrow as pa

    name = "stdin" if str(path) == STDIN else str(path)
    try:
        return _read(path, name)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InvalidInput(
            f"cannot be read: {error.strerror or error}", where=name, fix="check the path and permissions"
        ) from None
    except UnicodeEncodeError:
        raise InvalidInput(
            "has a name that is no UTF-8, as Parquet files need it", where=name, fix="rename it"
        ) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        raise TraceFormatError(
            f"is not a whole Parquet file: {str(error).splitlines()[0][:200] if str(error) else type(error).__name__}",
            where=name,
            fix="give the file that pandas or pyarrow wrote (`to_parquet`), copied to its end",
        ) from None


def _read(path: str | Path, name: str) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if name == "stdin":
        data = sys.stdin.buffer.read(MAX_STDIN + 1)
        if len(data) > MAX_STDIN:
            raise TooLarge(f"is larger than {MAX_STDIN >> 30} GB", where=name, fix="give it as a file")
        source: Any = pa.BufferReader(data)
    else:
        if not Path(path).stat().st_size:
            raise TraceFormatError("is empty", where=name, fix="give a Parquet file with rows")
        with Path(path).open("rb"):
            source = str(path)
    with pq.ParquetFile(source) as file:  # a dictionary is asked for only of columns that are there
        _check_shape(file, name)
    with pq.ParquetFile(source, read_dictionary=["optype"], metadata=file.metadata) as file:
        whole = {key: _whole_numbers(file, key, name).astype(kind, copy=False) for key, kind in WHOLE.items()}
        optype, strange = _optypes(file, name)
        passes = (optype == CODE[FORWARD]) | (optype == CODE[BACKWARD])
        for key in ("mc", "mb_id"):
            whole[key] = np.where((whole[key] == ABSENT) & ~passes, whole[key].dtype.type(NONE), whole[key])
        start, duration = (_seconds(file, key, name) for key in SECONDS)
        stride = int(np.gcd.reduce(np.unique(_whole_numbers(file, "rank", name)))) if "rank" in file.schema.names else 1
    return Columns(name, whole, optype, strange, start, duration, max(stride, 1))


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


def _column(file: Any, key: str, name: str) -> Any:
    """One column, whole."""
    column = file.read(columns=[key]).column(key)
    if len(column) != file.metadata.num_rows:
        raise _damaged(name, key)
    return column


def _whole_numbers(file: Any, key: str, name: str) -> NDArray[np.signedinteger[Any]]:
    """A column of whole numbers that fit into 32 bits (steps: 64)."""
    import pyarrow as pa

    column = _column(file, key, name)
    if pa.types.is_floating(column.type):
        column = pa.chunked_array([_of_floats(column, key, name)])
    if not pa.types.is_integer(column.type):
        raise _wrong_type(name, key, column.type, "whole numbers", "int32")
    if column.null_count:
        column = column.cast(pa.int64()).fill_null(ABSENT)
    numbers: NDArray[np.signedinteger[Any]] = _numpy(column)
    limits = np.iinfo(WHOLE.get(key, np.int64))
    if numbers.size and (int(numbers.min()) < limits.min or int(numbers.max()) > limits.max):
        row = int(np.flatnonzero((numbers < limits.min) | (numbers > limits.max))[0])
        raise TraceFormatError(
            f"{key} is {int(numbers[row])}, which no job has",
            where=f"{name}:row {row}",
            fix=f"use numbers from {limits.min} to {limits.max}",
        )
    return numbers


def _of_floats(column: Any, key: str, name: str) -> NDArray[np.int64]:
    """Whole numbers that were written as floats, as pandas does where some are missing."""
    import pyarrow as pa

    values = _numpy(column.cast(pa.float64()).fill_null(float("nan")))
    missing = np.isnan(values)
    broken = np.flatnonzero(~missing & ((values != np.rint(values)) | (np.abs(values) >= EXACT)))
    if len(broken):
        raise TraceFormatError(
            f"{key} is {values[broken[0]]}, not a whole number",
            where=f"{name}:row {broken[0]}",
            fix="write it as int32",
        )
    return np.where(missing, ABSENT, values).astype(np.int64)


def _seconds(file: Any, key: str, name: str) -> NDArray[np.floating[Any]]:
    import pyarrow as pa

    column = _column(file, key, name)
    if not pa.types.is_floating(column.type) and not pa.types.is_integer(column.type):
        raise _wrong_type(name, key, column.type, "seconds", "float64")
    if column.type not in (pa.float32(), pa.float64()):
        column = column.cast(pa.float64())
    seconds: NDArray[np.floating[Any]] = _numpy(column.fill_null(float("nan")) if column.null_count else column)
    return seconds


def _optypes(file: Any, name: str) -> tuple[NDArray[np.int8], tuple[str, ...]]:
    """Codes of the operation types, and the names that are none."""
    import pyarrow as pa

    column = _column(file, "optype", name)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if not (pa.types.is_string(column.type.value_type) or pa.types.is_large_string(column.type.value_type)):
        raise _wrong_type(name, "optype", column.type.value_type, "names", "string")
    pieces, strange = [], set()
    for chunk in column.chunks:
        names = chunk.dictionary.to_pylist()
        codes = np.array([CODE.get(word, UNKNOWN) for word in names] + [UNKNOWN], dtype=np.int8)
        indices = _numpy(chunk.indices.cast(pa.int32()).fill_null(len(names)) if chunk.null_count else chunk.indices)
        if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) <= len(names):
            raise _damaged(name, "optype")
        used = np.unique(indices[codes[indices] == UNKNOWN])
        strange |= {str(names[i])[:80] if i < len(names) else "nothing" for i in used}
        pieces.append(codes[indices])
    return np.concatenate(pieces), tuple(sorted(strange))


def _numpy(column: Any) -> NDArray[Any]:
    """A column or array without nulls, by way of DLPack: ``to_numpy`` would import pandas where that is installed."""
    chunks = [chunk for chunk in getattr(column, "chunks", [column]) if len(chunk)]
    pieces = [np.from_dlpack(chunk) for chunk in chunks]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _damaged(name: str, key: str) -> TraceFormatError:
    return TraceFormatError(f"the column {key!r} is damaged", where=name, fix="copy the file again, to its end")


def _wrong_type(name: str, key: str, found: Any, wanted: str, cast: str) -> TraceFormatError:
    known = f" ({', '.join(OPTYPES)})" if key == "optype" else ""
    return TraceFormatError(
        f"the column {key!r} holds {found}, not {wanted}{known}", where=name, fix=f"write it as {cast}"
    )
