"""Clocks: those that differ between hosts are put right, and times that cannot be of one recording are told.

The offset of a member is the median, over all its collectives, of its end less the median end of its group, as all see
the end at once.  Groups of two do not tell which clock is wrong and are left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ground.files import Source
from ground.quantities import plural
from ground.rows import json_objects
from health.collectives.json_fields import BadRowOfRank, Row, TaintedRanks
from health.collectives.recording import CollectiveRecording, CompletionRow, Long, Seconds, StateRow, runs

TimedRow = TypeVar("TimedRow", bound=CompletionRow | StateRow)

TOLERATED = 0.5  # Seconds; the end of a collective is not the same instant for all, and smaller offsets do no harm
FEWEST = 3  # Collectives that an offset needs, and members of a group
LONGEST_PAUSE = 86_400.0
"""Seconds, a day: a rank that is part of a job's collectives is never silent for so long and then goes on."""

STRAY = "its time lies more than a day away from the other rows of its rank: a wrong clock, or another run"


def read_timed(
    sources: Sequence[Source],
    bad_rows: TaintedRanks,
    reader_of_file: Callable[[], Callable[[Row], TimedRow | None]],
    ranks: Callable[[], Sequence[int]],
) -> list[TimedRow]:
    """Return what is made of the JSON lines of files, without the rows that are strays.

    :param reader_of_file: returns, for a new file, what makes a row of an object; ``None`` = the object is none.
    :param ranks: of the members, when all is read.
    :raises InvalidInput: (strict) an object cannot be used, or is a stray.
    """
    rows: list[TimedRow] = []
    files, lines = array("q"), array("q")  # where each row stands: there may be millions
    for number, source in enumerate(sources):
        for line, row in bad_rows.keep(json_objects(source, bad_rows), reader_of_file(), source):
            if row is not None:
                rows.append(row)
                files.append(number)
                lines.append(line)
    times = np.array([row[0] for row in rows], dtype=np.float64)
    found = strays(times, np.array([row.member for row in rows], dtype=np.int64))
    rank_of = ranks()
    for i in np.flatnonzero(found).tolist():
        bad_rows.refuse(BadRowOfRank(STRAY, rank_of[rows[i].member]), sources[files[i]].at(lines[i]))
    return [row for row, stray in zip(rows, found.tolist(), strict=True) if not stray]


def strays(time: Seconds, member: Long) -> npt.NDArray[np.bool_]:
    """Return the rows whose time is more than :data:`LONGEST_PAUSE` away from most rows of their member, by its clock:
    wrong digits, or records of another run.  Where two parts are equally large the later one stays.
    """
    stray = np.zeros(len(time), dtype=np.bool_)
    order = np.lexsort((time, member))
    for rows in runs(order, member[order]):
        parts = np.split(rows, np.flatnonzero(np.diff(time[rows]) > LONGEST_PAUSE) + 1)
        largest = max(range(len(parts)), key=lambda i: (len(parts[i]), i))
        for i, part in enumerate(parts):
            stray[part] = i != largest
    return stray


def note_gaps(recording: CollectiveRecording) -> CollectiveRecording:
    """Return the recording, with a note where nothing was recorded of any rank for more than :data:`LONGEST_PAUSE`."""
    time = np.sort(np.concatenate([recording.completions.end, recording.states.time]))
    longest = float(np.diff(time).max(initial=0.0))
    if longest <= LONGEST_PAUSE:
        return recording
    note = (
        f"nothing was recorded for {longest / LONGEST_PAUSE:,.0f} days: these may be records of two runs, or clocks "
        "that are off by as much"
    )
    return replace(recording, notes=(*recording.notes, note))


def align_clocks(recording: CollectiveRecording) -> CollectiveRecording:
    """Return the recording with the times of wrong clocks moved, and a note that names them."""
    offset = clock_offsets(recording)
    wrong = np.flatnonzero(np.abs(offset) > TOLERATED)
    if not len(wrong):
        return recording
    offset[np.abs(offset) <= TOLERATED] = 0.0
    ends, rows = recording.completions, recording.states
    shifted = replace(ends, end=ends.end - offset[ends.member], start=ends.start - offset[ends.member])
    moved = replace(rows, time=rows.time - offset[rows.member])
    worst = int(wrong[np.argmax(np.abs(offset[wrong]))])
    note = (
        f"{plural(len(wrong), 'clock')} of ranks off, most that of {recording.members[worst].label}, by "
        f"{offset[worst]:+.1f} s: corrected by the ends of their collectives"
    )
    return replace(recording, completions=shifted.sorted(), states=moved.sorted(), notes=(*recording.notes, note))


def clock_offsets(recording: CollectiveRecording) -> npt.NDArray[np.float64]:
    """Return seconds that each member's clock is ahead of its groups; 0 where that is not known."""
    known = recording.completions
    deviations: list[list[float]] = [[] for _ in recording.members]
    for rows in known.by_collective():
        if len(rows) >= FEWEST:
            ends = known.end[rows]
            for member, late in zip(known.member[rows].tolist(), (ends - np.median(ends)).tolist(), strict=True):
                deviations[member].append(late)
    return np.array([np.median(late) if len(late) >= FEWEST else 0.0 for late in deviations])
