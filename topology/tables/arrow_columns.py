"""Columns of CSV and Parquet tables as NumPy arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from topology.cluster import FloatArray
from topology.errors import InvalidInput
from topology.tables.parquet_file import first_line

if TYPE_CHECKING:
    import pyarrow as pa

NOTHING = ("", "null", "NULL", "NaN", "nan", "NA")  # Texts that stand for no number


def csv_texts(name: str, data: bytes, columns: Sequence[str], *, lenient: bool) -> tuple[pa.Table, int]:
    """Return columns that a CSV text has, all of them text, and how many rows were left out, as is lenient."""
    import pyarrow as pa
    from pyarrow import csv

    left_out = 0

    def skip(_: object) -> str:
        nonlocal left_out
        left_out += 1
        return "skip"

    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            # One thread: only then an error knows its row.
            read_options=csv.ReadOptions(use_threads=False),
            parse_options=csv.ParseOptions(invalid_row_handler=skip if lenient else None),
            convert_options=csv.ConvertOptions(
                include_columns=columns, column_types=dict.fromkeys(columns, pa.string())
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeDecodeError) as error:
        row = re.search(r"Row #(\d+)", str(error))
        where, fix = f"{name}:{row[1]}" if row else name, "correct that row, or leave such rows out with --lenient"
        raise InvalidInput(f"is not CSV: {first_line(error)}", where=where, fix=fix) from None
    return table, left_out


def timestamps(column: pa.ChunkedArray) -> FloatArray | None:
    """Return seconds since 1970 of a column of timestamps, NaN where there is none; ``None`` = of something else."""
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type):
        return None
    ticks = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
    seconds: FloatArray = ticks.cast(pa.float64(), safe=False).to_numpy() / 1e6
    return seconds


def numbers(column: pa.ChunkedArray, value_of: Callable[[str], float]) -> tuple[FloatArray, str | None, int]:
    """Return the numbers of a column, NaN where there is none, and the first text that is no number, with its row.

    :param value_of: from a text to a number where it is not written as one; NaN = it is none.
    :returns: shape [rows]; the text is ``None`` where all are numbers.
    :raises TypeError: a column of something else; its message is the type.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        try:
            found: FloatArray = column.cast(pa.float64(), safe=False).to_numpy()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise TypeError(str(column.type)) from None
        return found, None, 0
    given = pc.if_else(pc.is_in(column, value_set=pa.array(NOTHING, type=column.type)), None, column)
    try:
        return given.cast(pa.float64()).to_numpy(), None, 0
    except pa.ArrowInvalid:
        codes, texts = encoded(given)
        values = np.array([*map(value_of, texts), np.nan])
        found = values[codes]
        odd = np.flatnonzero(np.isnan(found) & (codes < len(texts)))
        return (found, texts[codes[odd[0]]], int(odd[0])) if odd.size else (found, None, 0)


def encoded(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return for each row its place in a list of distinct texts, behind the end where nothing is, and that list."""
    import pyarrow as pa

    found = column.cast(pa.string()).combine_chunks().dictionary_encode()
    texts: list[str] = found.dictionary.to_pylist()
    return found.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64), texts
