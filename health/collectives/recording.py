"""What was recorded of a job's collectives, in any format: members, groups, completions, states of running ones.

Times are Unix seconds.  The clocks of two hosts may differ: whatever compares times compares those of one member, or
tolerates seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

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
