"""Parquet files and CSV as Arrow reads them: rows as they stream by, columns as NumPy arrays; damage is told."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ground.errors import InvalidInput
from ground.files import ByteStream

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

FloatArray = npt.NDArray[np.float64]


CHUNK = 2**20  # Bytes that are decoded at one time
BATCH = 16_384  # Rows that are values of Python at one time
WHOLE_FILE = "give the file that pandas or pyarrow wrote (`to_parquet`), copied to its end"
EXACT = 2**53  # From here on a float does not tell whole numbers apart


def parquet_rows(
    source: ByteStream, rename: Callable[[Sequence[str]], Sequence[str]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a Parquet file, counted from 1, their keys made of the names of the columns."""
    with open_parquet(source.content(), name=source.name, error=source.error) as file:
        names = rename(file.schema_arrow.names)
        batches = ([column.to_pylist() for column in batch.columns] for batch in file.iter_batches(BATCH))
        rows = chain.from_iterable(zip(*columns, strict=True) for columns in batches)
        yield from enumerate((dict(zip(names, values, strict=True)) for values in rows), 1)


@contextmanager
def open_parquet(
    content: Any, *, name: str, error: type[InvalidInput] = InvalidInput, fix: str = WHOLE_FILE, **how: Any
) -> Iterator[ParquetFile]:
    """Open a Parquet file (a path, a file, or the bytes of one) while it is read, with arguments of pyarrow's
    ``ParquetFile``; raise ``error`` where it is truncated or damaged, when it is opened or while it is read.

    :param fix: what the error says to do.
    """
    from pyarrow import ArrowException, BufferReader
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(BufferReader(content) if isinstance(content, bytes) else content, **how) as file:
            yield file
    except UnicodeEncodeError:
        odd = "has a name that is no UTF-8, as Parquet files need it"
        raise InvalidInput(odd, where=name, fix="rename it") from None
    except (ArrowException, OSError, UnicodeDecodeError, OverflowError) as problem:
        raise error(f"is not a whole Parquet file: {first_line(problem)}", where=name, fix=fix) from None


def parquet_bytes(
    rows: Sequence[Mapping[str, Any]], columns: Mapping[str, type], metadata: Mapping[str, str] | None = None
) -> bytes:
    """Return rows as a Parquet file: same rows, same bytes.

    :param columns: names and types of values in order; ``list`` is of floats.
    """
    import pyarrow as pa
    from pyarrow.parquet import write_table

    types = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64(), list: pa.list_(pa.float64())}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()], metadata=metadata)
    arrays = [pa.array([row[field.name] for row in rows], type=field.type) for field in schema]
    buffer = BytesIO()
    write_table(pa.Table.from_arrays(arrays, schema=schema), buffer, compression="zstd")
    return buffer.getvalue()


class ParquetColumns:
    """Columns of an open file, each read whole; errors call it by its name and are of one class."""

    def __init__(self, file: ParquetFile, *, name: str, error: type[InvalidInput] = InvalidInput) -> None:
        self._file = file
        self._name = name
        self._error = error

    def whole_numbers(self, key: str, *, missing: int, limits: np.iinfo[Any]) -> npt.NDArray[np.signedinteger[Any]]:
        """Return a column of whole numbers, which pandas writes as floats where some are ``missing``, shape [rows].
        Errors name the row, counted from 0.
        """
        import pyarrow as pa

        column = self._column(key)
        if pa.types.is_floating(column.type):
            values = as_numpy(column.cast(pa.float64()).fill_null(float("nan")))
            absent = np.isnan(values)
            broken = np.flatnonzero(~absent & ((values != np.rint(values)) | (np.abs(values) >= EXACT)))
            if len(broken):
                row = int(broken[0])
                raise self._wrong_row(row, f"{key} is {values[row]}, not a whole number", "write it as int32")
            numbers: npt.NDArray[np.signedinteger[Any]] = np.where(absent, missing, values).astype(np.int64)
        elif pa.types.is_integer(column.type):
            numbers = as_numpy(column.cast(pa.int64()).fill_null(missing) if column.null_count else column)
        else:
            raise self._wrong_type(key, column.type, "whole numbers", "int32")
        if numbers.size and (int(numbers.min()) < limits.min or int(numbers.max()) > limits.max):
            row = int(np.flatnonzero((numbers < limits.min) | (numbers > limits.max))[0])
            fix = f"use numbers from {limits.min} to {limits.max}"
            raise self._wrong_row(row, f"{key} is {int(numbers[row])}, which no job has", fix)
        return numbers

    def seconds(self, key: str) -> npt.NDArray[np.floating[Any]]:
        """Return a column of numbers in the precision of the file, NaN where there is none; shape [rows]."""
        import pyarrow as pa

        column = self._column(key)
        if not pa.types.is_floating(column.type) and not pa.types.is_integer(column.type):
            raise self._wrong_type(key, column.type, "seconds", "float64")
        if column.type not in (pa.float32(), pa.float64()):
            column = column.cast(pa.float64())
        filled = column.fill_null(float("nan")) if column.null_count else column
        seconds: npt.NDArray[np.floating[Any]] = as_numpy(filled)
        return seconds

    def codes(
        self, key: str, code_of: Mapping[str, int], *, unknown: int, hint: str = ""
    ) -> tuple[npt.NDArray[np.int8], tuple[str, ...]]:
        """Return the code of each name of a column, shape [rows], and the names that have none, in order; errors say
        which names there may be by the hint.
        """
        import pyarrow as pa

        column = self._column(key)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        kind = column.type.value_type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise self._wrong_type(key, kind, f"names{hint}", "string")
        pieces, strange = [], set()
        for chunk in column.chunks:
            names = chunk.dictionary.to_pylist()
            codes = np.array([code_of.get(word, unknown) for word in names] + [unknown], dtype=np.int8)
            indices = chunk.indices
            places = as_numpy(indices.cast(pa.int32()).fill_null(len(names)) if chunk.null_count else indices)
            # A damaged file may point behind the end of its dictionary.
            if len(places) and not 0 <= int(places.min()) <= int(places.max()) <= len(names):
                raise self._damaged(key)
            used = np.unique(places[codes[places] == unknown])
            strange |= {str(names[i])[:80] if i < len(names) else "nothing" for i in used}
            pieces.append(codes[places])
        return np.concatenate(pieces), tuple(sorted(strange))

    def _wrong_row(self, row: int, message: str, fix: str) -> InvalidInput:
        return self._error(message, where=f"{self._name}:row {row}", fix=fix)

    def _wrong_type(self, key: str, found: Any, wanted: str, cast: str) -> InvalidInput:
        """Return the error of a column of another type."""
        message = f"the column {key!r} holds {found}, not {wanted}"
        return self._error(message, where=self._name, fix=f"write it as {cast}")

    def _column(self, key: str) -> pa.ChunkedArray:
        column = self._file.read(columns=[key]).column(key)
        if len(column) != self._file.metadata.num_rows:
            raise self._damaged(key)
        return column

    def _damaged(self, key: str) -> InvalidInput:
        return self._error(f"the column {key!r} is damaged", where=self._name, fix="copy the file again, to its end")


def as_numpy(column: Any) -> npt.NDArray[Any]:
    """Return a column or array without nulls, by way of DLPack: ``to_numpy`` would import pandas if it is installed."""
    chunks = [chunk for chunk in getattr(column, "chunks", [column]) if len(chunk)]
    pieces = [np.from_dlpack(chunk) for chunk in chunks]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def first_line(problem: BaseException) -> str:
    """Return the first line of what a library says, or the kind of its exception if it says nothing."""
    return (str(problem).splitlines() or [type(problem).__name__])[0][:200]


NOTHING = ("", "null", "NULL", "NaN", "nan", "NA")  # Texts that stand for no number


def csv_texts(name: str, data: bytes, columns: Sequence[str], *, lenient: bool) -> tuple[pa.Table, int]:
    """Return columns of a CSV text, all text, and how many rows of another number of cells ``lenient`` left out."""
    import pyarrow as pa
    from pyarrow import csv

    left_out = 0
    # Of a row that is left out, Arrow decodes the text, and what it then raises reaches nothing but the terminal.
    decoder = getincrementaldecoder("utf-8")()
    for begin in range(0, len(data) if lenient else 0, CHUNK):
        try:
            decoder.decode(data[begin : begin + CHUNK], final=begin + CHUNK >= len(data))
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, begin + error.start) + 1
            reason = f"is not UTF-8 text: {error.reason}"
            raise InvalidInput(reason, where=f"{name}:{line}", fix="save the file as UTF-8 text") from None

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


def numbers(
    column: pa.ChunkedArray, value_of: Callable[[str], float], *, nothing: Sequence[str] = NOTHING
) -> tuple[FloatArray, str | None, int]:
    """Return the numbers of a column, NaN where there is none, and the first text that is no number, with its row.

    :param value_of: from a text to a number where it is not written as one; NaN = it is none.
    :param nothing: texts that stand for no number.
    :returns: shape [rows]; the text is ``None`` where all are numbers.
    :raises TypeError: a column of something else; its message is the type.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        try:
            values: FloatArray = column.cast(pa.float64(), safe=False).to_numpy()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise TypeError(str(column.type)) from None
        return values, None, 0
    given = pc.if_else(pc.is_in(column, value_set=pa.array(nothing, type=column.type)), None, column)
    try:
        return given.cast(pa.float64()).to_numpy(), None, 0
    except pa.ArrowInvalid:
        codes, texts = encoded(given)
        values = np.array([*map(value_of, texts), np.nan])[codes]
        odd = np.flatnonzero(np.isnan(values) & (codes < len(texts)))
        return (values, texts[codes[odd[0]]], int(odd[0])) if odd.size else (values, None, 0)


def encoded(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return for each row its place in a list of distinct texts, behind the end where nothing is, and that list."""
    import pyarrow as pa

    distinct = column.cast(pa.string()).combine_chunks().dictionary_encode()
    texts: list[str] = distinct.dictionary.to_pylist()
    return distinct.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64), texts
