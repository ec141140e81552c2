"""A study from beginning to end: its Parquet file of rows, and a journal, so that no run is made twice or lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ground.errors import InvalidInput
from ground.files import write_file
from scheduler.study.executors import Executor
from simulator.run_lock import held_alone
from simulator.study.compared import Comparison, compare
from simulator.study.study_run import COLUMNS, Inputs, Row, StudyPoint, run_point, study_fingerprint

# Keys of the metadata of a file
INPUTS = "arnold.inputs"
TITLE = "arnold.title"
LARGEST = 1e18  # No run makes a larger number, in seconds or jobs; the sum of squares of what is smaller is a float too
_FIX = "give what --runs-out of a study wrote"


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
        raise InvalidInput("is no Parquet file that can be read", where=path, fix=_FIX) from error
    if missing := [name for name in COLUMNS if name not in table.column_names]:
        raise InvalidInput(f"is no file of a study: column {missing[0]!r} is missing", where=path, fix=_FIX)
    for name in COLUMNS:
        column = table.column(name)
        numbers = pc.list_flatten(column) if pa.types.is_list(column.type) else column
        largest = pc.max(pc.abs(numbers)).as_py() if pa.types.is_floating(numbers.type) else None
        if largest is not None and largest > LARGEST:
            raise InvalidInput(
                f"is no file of a study: column {name!r} holds {largest:g}",
                where=path,
                fix=_FIX,
            )
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    return {point_of(row): row for row in table.select(list(COLUMNS)).to_pylist()}, metadata


def write_rows(path: str, rows: Iterable[Row], *, inputs: str, title: str) -> None:
    """Write all rows, in order of their points: the same rows make the same bytes.

    :raises InvalidInput: the place cannot be written to.
    """
    from ground.columns import parquet_bytes

    write_file(path, parquet_bytes(sorted(rows, key=point_of), COLUMNS, {INPUTS: inputs, TITLE: title}))


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


@dataclass(frozen=True, slots=True)
class Swept:
    """A study that is over."""

    rows: Sequence[Row]  # of the runs that were asked for, in their order
    made: int  # runs that were made now; the others were there


def sweep(
    inputs: Inputs,
    points: Sequence[StudyPoint],
    executor: Executor,
    *,
    title: str,
    version: str,
    out: str | None = None,
    step: Callable[[str], None] = lambda _: None,
) -> Swept:
    """Make all runs that are not there yet, and call ``step`` with a short sentence after each.

    :param out: Parquet file of rows; with it a broken study goes on where it was.  Rows of other runs on the same
        inputs stay in it.
    :raises ArnoldError: the file has other inputs or another writer, a run cannot begin, or a worker died; rows that
        are done are kept in the journal.
    """
    mark = study_fingerprint(inputs, version=version)
    with nullcontext() if out is None else held_alone(out):
        journal = None if out is None else Journal(out, mark)
        done = {} if journal is None else _rows_there(journal) | journal.read()
        todo = [point for point in points if point not in done]
        for row in executor.run(run_point, inputs, todo) if todo else ():
            done[point_of(row)] = row
            if journal is not None:
                journal.add(row)
            step("{policy}, {algorithm}, {cluster}, load {load:g}, seed {seed}".format_map(row))
        if journal is not None:
            write_rows(journal.out, done.values(), inputs=mark, title=title)
            journal.path.unlink(missing_ok=True)
    return Swept([done[point] for point in points], len(todo))


def _rows_there(journal: Journal) -> dict[StudyPoint, Row]:
    """Return rows of earlier studies on the same inputs."""
    if not Path(journal.out).exists():
        return {}
    rows, metadata = read_rows(journal.out)
    if metadata.get(INPUTS) != journal.inputs:
        raise InvalidInput(
            "has rows of another trace, cluster or setting, or of another version of this program",
            where=journal.out,
            fix="name another file, or remove this one",
        )
    return rows
