"""A study from beginning to end: what is done already is not done again, and what is done is never lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from scheduler.study.executors import Executor
from simulator.run_lock import held_alone
from simulator.study.study_file import INPUTS, Journal, point_of, read_rows, write_rows
from simulator.study.study_run import Inputs, Row, StudyPoint, run_point, study_fingerprint
from topology.errors import InvalidInput


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
    """Make all runs that are not there yet.

    :param out: Parquet file of rows; with it a broken study goes on where it was.  Rows of other runs on the same
        inputs stay in it.
    :param version: of the program, part of the inputs.
    :param step: called after each run with a short sentence.
    :raises InvalidInput: the file has rows of other inputs, or another study is writing it.
    :raises ArnoldError: a run cannot begin, or a worker died; rows that are done are kept in the journal.
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
