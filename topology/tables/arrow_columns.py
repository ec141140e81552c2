"""CSV and Parquet a column at a time: the door through which pyarrow reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from topology.errors import InvalidInput
from topology.tables.byte_stream import ByteStream

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

BATCH = 16_384
"""Rows that are values of Python at one time."""


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
    except (ArrowException, OSError, UnicodeDecodeError, OverflowError) as problem:
        raise error(
            f"is not a whole Parquet file: {first_line(problem)}", where=name, fix="write or copy the file again"
        ) from None


def first_line(problem: BaseException) -> str:
    """Return the first line of what a library says, or the kind of its exception if it says nothing."""
    return (str(problem).splitlines() or [type(problem).__name__])[0][:200]
