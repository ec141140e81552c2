"""What was recorded of a job's collectives, in any format: members, groups, completions, states of running ones.

Times are Unix seconds.  The clocks of two hosts may differ: whatever compares times compares those of one member, or
tolerates seconds.  Clocks that are off by more are put right: the offset of a member is the median, over all its
collectives, of its end less the median end of its group, as all see the end at once.  Groups of two do not tell which
clock is wrong and are left out.  Times that cannot be of one recording are refused.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from ground.files import Source
from ground.quantities import plural
from ground.rows import json_objects
from health.collectives.json_fields import BadRowOfRank, Row, TaintedRanks
from topology.cluster import IntArray

Long = npt.NDArray[np.int64]
Seconds = npt.NDArray[np.float64]

WAYS = ("ring", "up", "down", "p2p", "receive")
"""What the data of a flow depend on: ring, tree towards the root, tree away from it, nothing (a send).  ``receive`` is
no flow of its own: it shows that a member that only receives has launched.
"""


@dataclass(frozen=True, slots=True)
class Member:
    """A process that takes part in collectives."""

    label: str  # how reports call it: "rank 3"
    rank: int | None = None  # global rank; None = the records do not tell
    host: str | None = None  # the machine it runs on, as the records call it


@dataclass(frozen=True, slots=True)
class RankGroup:
    """A communicator."""

    name: str
    kind: str  # dp, tp, pp, ... where the records say so, else empty
    members: tuple[int, ...]  # indices of Member, in the order of their ranks in the communicator


class CompletionRow(NamedTuple):
    """A member has completed its part of a collective."""

    end: float
    start: float  # when it launched; NaN = unknown
    group: int
    member: int
    seq: int
    op: int
    bytes: int


class StateRow(NamedTuple):
    """How far one flow of a running collective has come, in chunks; a flow leads from a member to a peer."""

    time: float
    group: int
    member: int
    seq: int
    op: int
    channel: int
    peer: int
    way: int  # index into WAYS
    total: int
    ready: int  # GPU_ready, chunks that the GPU has handed over
    transmitted: int  # RDMA_transmitted, chunks given to the network
    done: int  # RDMA_done, chunks delivered


_TYPES: Mapping[str, type[np.generic]] = dict.fromkeys(("time", "end", "start"), np.float64) | dict.fromkeys(
    ("seq", "bytes", "total", "ready", "transmitted", "done"), np.int64
)
"""Types of the columns of rows; all others number a few things, in 32 bits."""


class _Columns:
    """Rows as columns, by time, which is the first of them."""

    __slots__ = ()
    names: ClassVar[tuple[str, ...]]
    seq: Long

    @classmethod
    def of(cls, rows: Iterable[tuple[float, ...]]) -> Self:
        """Return rows as columns, sorted."""
        columns = list(zip(*rows, strict=True)) or [()] * len(cls.names)
        types = (_TYPES.get(name, np.int32) for name in cls.names)
        return cls(*map(np.array, columns, types)).sorted()

    def __len__(self) -> int:
        return len(self._times)

    @property
    def _times(self) -> Seconds:
        times: Seconds = getattr(self, self.names[0])
        return times

    def until(self, time: float) -> Self:
        """Return those known at an instant; views."""
        return self.between(-np.inf, time)

    def between(self, start: float, end: float) -> Self:
        """Return those after ``start``, up to ``end``; views."""
        first, last = np.searchsorted(self._times, (start, end), side="right")
        return self.where(slice(int(first), int(last)))

    def where(self, rows: slice | npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> Self:
        """Return some of the rows."""
        return type(self)(*(getattr(self, name)[rows] for name in self.names))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows, in numbers of Python."""
        return zip(*(getattr(self, name).tolist() for name in self.names), strict=True)

    def sorted(self) -> Self:
        """Return the rows by time, of one time by the number of their collective."""
        return self.where(np.lexsort((self.seq, self._times)))


@dataclass(frozen=True, slots=True)
class Completions(_Columns):
    """Completion rows as columns, by end."""

    names: ClassVar = CompletionRow._fields

    end: Seconds
    start: Seconds
    group: IntArray
    member: IntArray
    seq: Long
    op: IntArray
    bytes: Long

    def by_collective(self) -> Iterator[npt.NDArray[np.intp]]:
        """Yield the numbers of the rows of each collective, by group and number."""
        order = np.lexsort((self.seq, self.group))
        return runs(order, self.group[order], self.seq[order])


@dataclass(frozen=True, slots=True)
class States(_Columns):
    """State rows as columns, by time."""

    names: ClassVar = StateRow._fields

    time: Seconds
    group: IntArray
    member: IntArray
    seq: Long
    op: IntArray
    channel: IntArray
    peer: IntArray
    way: IntArray
    total: Long
    ready: Long
    transmitted: Long
    done: Long


@dataclass(frozen=True, slots=True)
class CollectiveRecording:
    """Everything that was read."""

    members: tuple[Member, ...]
    groups: tuple[RankGroup, ...]
    ops: tuple[str, ...]  # names of operations, as completions and states number them
    completions: Completions
    states: States
    notes: tuple[str, ...] = ()  # what the reader had to decide or leave out
    # members with incomplete evidence, as rows were dropped: nothing is certain of them
    tainted: frozenset[int] = frozenset()

    @property
    def start(self) -> float:
        """The first instant anything is known of."""
        return min((times[0] for times in self._times if len(times)), default=0.0)

    @property
    def end(self) -> float:
        """The last instant anything is known of."""
        return max((times[-1] for times in self._times if len(times)), default=0.0)

    @property
    def _times(self) -> tuple[Seconds, Seconds]:
        return self.completions.end, self.states.time


def runs(rows: npt.NDArray[np.intp], *keys: npt.NDArray[np.integer]) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the rows (numbers, in an order in which equal keys are neighbours) of each run of equal keys."""
    changes = np.zeros(max(len(rows) - 1, 0), dtype=np.bool_)
    for key in keys:
        changes |= key[1:] != key[:-1]
    yield from np.split(rows, np.flatnonzero(changes) + 1) if len(rows) else ()


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
    is_stray = strays(times, np.array([row.member for row in rows], dtype=np.int64))
    rank_of = ranks()
    for i in np.flatnonzero(is_stray).tolist():
        bad_rows.refuse(BadRowOfRank(STRAY, rank_of[rows[i].member]), sources[files[i]].at(lines[i]))
    return [row for row, stray in zip(rows, is_stray.tolist(), strict=True) if not stray]


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
    off = np.flatnonzero(np.abs(offset) > TOLERATED)
    if not len(off):
        return recording
    offset[np.abs(offset) <= TOLERATED] = 0.0
    ends, rows = recording.completions, recording.states
    shifted = replace(ends, end=ends.end - offset[ends.member], start=ends.start - offset[ends.member])
    moved = replace(rows, time=rows.time - offset[rows.member])
    worst = int(off[np.argmax(np.abs(offset[off]))])
    note = (
        f"{plural(len(off), 'clock')} of ranks off, most that of {recording.members[worst].label}, by "
        f"{offset[worst]:+.1f} s: corrected by the ends of their collectives"
    )
    return replace(recording, completions=shifted.sorted(), states=moved.sorted(), notes=(*recording.notes, note))


def clock_offsets(recording: CollectiveRecording) -> npt.NDArray[np.float64]:
    """Return seconds that each member's clock is ahead of its groups; 0 where that is not known."""
    completions = recording.completions
    deviations: list[list[float]] = [[] for _ in recording.members]
    for rows in completions.by_collective():
        if len(rows) >= FEWEST:
            ends = completions.end[rows]
            for member, late in zip(completions.member[rows].tolist(), (ends - np.median(ends)).tolist(), strict=True):
                deviations[member].append(late)
    return np.array([np.median(late) if len(late) >= FEWEST else 0.0 for late in deviations])
