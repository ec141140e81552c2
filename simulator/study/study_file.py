"""The rows of a study: a Parquet file of all of them, and a journal while the study goes on."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.study.compared import Comparison, compare
from simulator.study.study_run import COLUMNS, Row, StudyPoint
from topology.errors import InvalidInput
from topology.files import write_file

INPUTS = "arnold.inputs"
TITLE = "arnold.title"  # Keys of the metadata of a file
LARGEST = 1e18  # No run makes a larger number, in seconds or jobs; the sum of squares of what is smaller is a float too


def point_of(row: Mapping[str, Any]) -> StudyPoint:
    """Return which run a row is of."""
    return StudyPoint(*(row[name] for name in StudyPoint._fields))


def read_rows(path: str) -> tuple[dict[StudyPoint, Row], Mapping[str, str]]:
    """Return rows of a file, and its metadata.

    :raises InvalidInput: it is no file of rows.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except UnicodeEncodeError:
        raise InvalidInput(
            "has a name that is no UTF-8, as Parquet files need it", where=path, fix="rename it"
        ) from None
    except FileNotFoundError:
        raise InvalidInput("there is no such file", where=path, fix="check the path") from None
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput(
            "is no Parquet file that can be read", where=path, fix="give what --out of a study wrote"
        ) from error
    if missing := [name for name in COLUMNS if name not in table.column_names]:
        raise InvalidInput(
            f"is no file of a study: column {missing[0]!r} is missing", where=path, fix="give what --out wrote"
        )
    for name in COLUMNS:
        column = table.column(name)
        numbers = pc.list_flatten(column) if pa.types.is_list(column.type) else column
        largest = pc.max(pc.abs(numbers)).as_py() if pa.types.is_floating(numbers.type) else None
        if largest is not None and largest > LARGEST:
            raise InvalidInput(
                f"is no file of a study: column {name!r} holds {largest:g}", where=path, fix="give what --out wrote"
            )
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    return {point_of(row): row for row in table.select(list(COLUMNS)).to_pylist()}, metadata


def write_rows(path: str, rows: Iterable[Row], *, inputs: str, title: str) -> None:
    """Write all rows, in order of their points: the same rows make the same bytes.

    :raises InvalidInput: the place cannot be written to.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {str: pa.string(), float: pa.float64(), int: pa.int64(), list: pa.list_(pa.float64())}
    ordered = sorted(rows, key=point_of)
    fields = [(name, types[kind]) for name, kind in COLUMNS.items()]
    schema = pa.schema(fields, metadata={INPUTS: inputs, TITLE: title})
    arrays = [pa.array([row[field.name] for row in ordered], type=field.type) for field in schema]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), buffer, compression="zstd")
    write_file(path, buffer.getvalue())


def read_comparison(path: str) -> Comparison:
    """Return what a study found, from its file.

    :raises InvalidInput: it is no file of rows, or has none.
    """
    rows, metadata = read_rows(path)
    if not rows:
        raise InvalidInput("has no rows", where=path, fix="run the study first")
    return compare(list(rows.values()), title=metadata.get(TITLE, Path(path).stem))


@dataclass(frozen=True, slots=True)
class Journal:
    """Rows that are done while a study goes on: a line of JSON each, on disk before the next run ends."""

    out: str  # the Parquet file beside which it lies
    inputs: str  # fingerprint; rows of others are not taken

    @property
    def path(self) -> Path:
        """The file of the journal."""
        return Path(f"{self.out}.unfinished")

    def read(self) -> dict[StudyPoint, Row]:
        """Return rows of a broken study; a line that was cut off is left out."""
        rows: dict[StudyPoint, Row] = {}
        text = self.path.read_text(encoding="utf-8", errors="replace") if self.path.is_file() else ""
        for line in text.splitlines():
            try:
                document = json.loads(line)
            except ValueError:
                continue
            if isinstance(document, dict) and document.get("inputs") == self.inputs:
                rows[point_of(document["row"])] = document["row"]
        return rows

    def add(self, row: Row) -> None:
        """Add the row of a run that is done.

        :raises InvalidInput: the place cannot be written to.
        """
        line = json.dumps({"inputs": self.inputs, "row": row}, allow_nan=False)
        try:
            with self.path.open("a", encoding="utf-8") as file:
                # the line before may have been cut off; an empty one is passed over
                file.write(f"\n{line}\n")
        except OSError as error:
            raise InvalidInput(
                f"cannot be written: {error.strerror}",
                where=str(self.path),
                fix="choose a folder that may be written to",
            ) from error
