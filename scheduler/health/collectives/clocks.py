"""Clocks that differ between hosts, put right by what all members of a group see at once: the end of a collective.

The offset of a member is the median, over all collectives, of its end less the median end of its group.  Groups of two
do not tell which clock is wrong and are left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from scheduler.health.collectives.recording import Completions, Recording, States

TOLERATED = 0.5
"""Seconds; the end of a collective is not the same instant for all, and smaller offsets do no harm."""

FEWEST = 3
"""Collectives that an offset needs, and members of a group."""


def align_clocks(recording: Recording) -> Recording:
    """The recording with the times of members whose clock is off moved, and a note that says whose and by how much."""
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


def clock_offsets(recording: Recording) -> npt.NDArray[np.float64]:
    """Seconds that each member's clock is ahead of its groups; 0 where that is not known."""
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
