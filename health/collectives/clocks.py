"""Clocks: those that differ between hosts are put right, and times that cannot be of one recording are told.

What all members of a group see at once is the end of a collective.  The offset of a member is the median, over all
collectives, of its end less the median end of its group.  Groups of two do not tell which clock is wrong and are left
out.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from health.collectives.json_fields import BadRowOfRank, TaintedRanks
from health.collectives.recording import CollectiveRecording, Completions, Long, Seconds, States
from topology.files import Source

TOLERATED = 0.5
"""Seconds; the end of a collective is not the same instant for all, and smaller offsets do no harm."""

FEWEST = 3
"""Collectives that an offset needs, and members of a group."""


LONGEST_PAUSE = 86_400.0
"""Seconds, a day: a rank that is part of a job's collectives is never silent for so long and then goes on."""

STRAY = "its time lies more than a day away from the other rows of its rank: a wrong clock, or another run"


class Place(NamedTuple):
    """Where a row stands.

    :param source: number of the file, from 0.
    :param line: number of the line, from 1.
    """

    source: int
    line: int


def strays(time: Seconds, member: Long) -> npt.NDArray[np.bool_]:
    """Return the rows whose time is more than :data:`LONGEST_PAUSE` away from most rows of their member, by its clock.

    A wrong digit, or a record of another run.  Where two parts are equally large the later one stays.
    """
    stray = np.zeros(len(time), dtype=np.bool_)
    order = np.lexsort((time, member))
    owners = np.flatnonzero(np.diff(member[order])) + 1
    for rows in np.split(order, owners) if len(order) else ():
        parts = np.split(rows, np.flatnonzero(np.diff(time[rows]) > LONGEST_PAUSE) + 1)
        largest = max(range(len(parts)), key=lambda i: (len(parts[i]), i))
        for i, part in enumerate(parts):
            stray[part] = i != largest
    return stray


class Written:
    """When rows were written, by whom, and where they stand in the files; in arrays, as there may be millions."""

    def __init__(self) -> None:
        self._time = array("d")
        self._member = array("q")
        self._source = array("q")
        self._line = array("q")

    def add(self, time: float, member: int, place: Place) -> None:
        """Append one row."""
        self._time.append(time)
        self._member.append(member)
        self._source.append(place.source)
        self._line.append(place.line)

    def refuse_strays(
        self, rows: TaintedRanks, sources: Sequence[Source], ranks: Sequence[int]
    ) -> npt.NDArray[np.bool_]:
        """Refuse the rows that are strays.

        :param ranks: of the members.
        :returns: which they are, in the order in which rows were added.
        :raises InvalidInput: (strict) there is one.
        """
        found = strays(np.array(self._time, dtype=np.float64), np.array(self._member, dtype=np.int64))
        for i in np.flatnonzero(found).tolist():
            bad = BadRowOfRank(STRAY, ranks[self._member[i]])
            rows.refuse(bad, sources[self._source[i]].at(self._line[i]))
        return found


def told_of_gaps(recording: CollectiveRecording) -> CollectiveRecording:
    """Return the recording, with a note where nothing was recorded of any rank for more than :data:`LONGEST_PAUSE`."""
    time = np.sort(np.concatenate([recording.completions.end, recording.states.time]))
    pauses = np.diff(time)
    if not len(pauses) or (longest := float(pauses.max())) <= LONGEST_PAUSE:
        return recording
    note = (
        f"nothing was recorded for {longest / LONGEST_PAUSE:,.0f} days: these may be records of two runs, or clocks "
        "that are off by as much"
    )
    return replace(recording, notes=(*recording.notes, note))


def align_clocks(recording: CollectiveRecording) -> CollectiveRecording:
    """Return the recording with the times of members whose clock is off moved, and a note that says whose and by how
    much.
    """
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
        f"clocks of {len(wrong)} ranks are off, most that of {recording.members[worst].label}, by "
        f"{offset[worst]:+.1f} s: corrected by the ends of their collectives"
    )
    return replace(
        recording, completions=_sorted(shifted), states=_sorted_states(moved), notes=(*recording.notes, note)
    )


def clock_offsets(recording: CollectiveRecording) -> npt.NDArray[np.float64]:
    """Return seconds that each member's clock is ahead of its groups; 0 where that is not known."""
    known = recording.completions
    order = np.lexsort((known.seq, known.group))
    group, seq = known.group[order], known.seq[order]
    cuts = np.flatnonzero((group[1:] != group[:-1]) | (seq[1:] != seq[:-1])) + 1
    deviations: list[list[float]] = [[] for _ in recording.members]
    for rows in np.split(order, cuts) if len(order) else ():
        if len(rows) < FEWEST:
            continue
        ends = known.end[rows]
        for member, late in zip(known.member[rows].tolist(), (ends - np.median(ends)).tolist(), strict=True):
            deviations[member].append(late)
    return np.array([np.median(late) if len(late) >= FEWEST else 0.0 for late in deviations])


def _sorted(rows: Completions) -> Completions:
    return rows.where(np.lexsort((rows.seq, rows.end)))


def _sorted_states(rows: States) -> States:
    return rows.where(np.lexsort((rows.seq, rows.time)))
