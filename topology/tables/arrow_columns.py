"""CSV and Parquet a column at a time: the door through which pyarrow reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from topology.cluster import FloatArray
from topology.errors import InvalidInput
from topology.tables.byte_stream import ByteStream

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

BATCH = 16_384
"""Rows that are values of Python at one time."""

NOTHING = ("", "null", "NULL", "NaN", "nan", "NA")
"""Texts that stand for no number."""


def parquet_rows(
    source: ByteStream, rename: Callable[[Sequence[str]], Sequence[str]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a Parquet file, counted from 1.

    :param rename: from the names of the columns to the keys of a row.
    :raises InvalidInput: of the class of the source: damaged.
    """
    row = 0
    with open_parquet(source.content(), name=source.name, error=source.error) as file:
        names = rename(file.schema_arrow.names)
        for batch in file.iter_batches(BATCH):
            columns = [column.to_pylist() for column in batch.columns]
            for values in zip(*columns, strict=True):
                row += 1
                yield row, dict(zip(names, values, strict=True))


@contextmanager
def open_parquet(
    content: Any, *, name: str, error: type[InvalidInput] = InvalidInput, **how: Any
) -> Iterator[ParquetFile]:
    """Open a Parquet file for as long as it is read.

    :param content: what pyarrow opens: a path, a file, a buffer.
    :param name: how errors call it.
    :param error: class of the error that is raised.
    :param how: further arguments of pyarrow's ``ParquetFile``.
    :raises InvalidInput: truncated or damaged, when it is opened or while it is read.
    """
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(content, **how) as file:
            yield file
    except UnicodeEncodeError:
        raise InvalidInput(
            "has a name that is no UTF-8, as Parquet files need it", where=name, fix="rename it"
        ) from None
    except (ArrowException, OSError, UnicodeDecodeError, OverflowError) as problem:
        raise error(
            f"is not a whole Parquet file: {_first_line(problem)}",
            where=name,
            fix="write the file again, or copy it to its end",
        ) from None


def csv_texts(name: str, data: bytes, columns: Sequence[str], *, lenient: bool) -> tuple[pa.Table, int]:
    """Return columns of a CSV text with a header, all of them text, and how many rows were left out.

    :param columns: names, which the header has.
    :param lenient: leave out rows with another number of cells than the header.
    :raises InvalidInput: not CSV, with the line.
    """
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
        raise InvalidInput(
            f"is not CSV: {_first_line(error)}",
            where=f"{name}:{row.group(1)}" if row else name,
            fix="correct that row, or leave such rows out with --lenient",
        ) from None
    return table, left_out


def is_text(column: pa.ChunkedArray) -> bool:
    """Return whether a column holds text."""
    import pyarrow as pa

    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def numbers(column: pa.ChunkedArray, value_of: Callable[[str], float]) -> tuple[FloatArray, str | None, int]:
    """Return the numbers of a column, NaN where there is none, and the first text that is no number, with its row.

    :param column: of text or numbers.
    :param value_of: from a text to a number where it is not written as one; NaN = it is none.
    :returns: shape [rows]; the text is ``None`` where all are numbers.
    :raises TypeError: a column of something else; its message is the type.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not is_text(column):
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
    """Return the place of each row in a list of distinct texts, and that list; behind its end = nothing is there.

    :returns: shape [rows].
    """
    import pyarrow as pa

    found = column.cast(pa.string()).combine_chunks().dictionary_encode()
    texts: list[str] = found.dictionary.to_pylist()
    return found.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64), texts


def as_numpy(column: Any) -> npt.NDArray[Any]:
    """Return a column or array without nulls, by way of DLPack: ``to_numpy`` would import pandas if it is installed."""
    chunks = [chunk for chunk in getattr(column, "chunks", [column]) if len(chunk)]
    pieces = [np.from_dlpack(chunk) for chunk in chunks]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _first_line(problem: BaseException) -> str:
    """Return the first line of what a library says, or the kind of its exception if it says nothing."""
    return (str(problem).splitlines() or [type(problem).__name__])[0][:200]
