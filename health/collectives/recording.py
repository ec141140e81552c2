"""What was seen of a job's collectives, whoever wrote it down: members, groups, completions, states of running ones.

Times are Unix seconds.  The clocks of two hosts may differ: whatever compares times compares those of one member, or
tolerates seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topology.cluster import IntArray

Long = npt.NDArray[np.int64]
Seconds = npt.NDArray[np.float64]

WAYS = ("ring", "up", "down", "p2p", "receive")
"""What the data of a flow depend on: ring, tree towards the root, tree away from it, nothing (a send).

``receive`` is no flow of its own: a member that only receives says with it that it has launched.
"""

Way = int
"""Index into :data:`WAYS`."""


@dataclass(frozen=True, slots=True)
class Member:
    """A process that takes part in collectives.

    :param label: how reports call it: ``"rank 3"``.
    :param rank: global rank; ``None`` = the records do not tell.
    :param host: the machine it runs on, as the records call it.
    """

    label: str
    rank: int | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class RankGroup:
    """A communicator.

    :param kind: ``dp``, ``tp``, ``pp``, ... where the records say so, else empty.
    :param members: indices of :class:`Member`, in the order of their ranks in the communicator.
    """

    name: str
    kind: str
    members: tuple[int, ...]


class CompletionRow(NamedTuple):
    """A member has completed its part of a collective.

    :param start: when it launched; NaN = unknown.
    """

    end: float
    start: float
    group: int
    member: int
    seq: int
    op: int
    bytes: int


class StateRow(NamedTuple):
    """How far one flow of a running collective has come, in chunks; a flow leads from a member to a peer.

    :param ready: GPU_ready, chunks that the GPU has handed over.
    :param transmitted: RDMA_transmitted, chunks given to the network.
    :param done: RDMA_done, chunks delivered.
    """

    time: float
    group: int
    member: int
    seq: int
    op: int
    channel: int
    peer: int
    way: Way
    total: int
    ready: int
    transmitted: int
    done: int


@dataclass(frozen=True, slots=True)
class Completions:
    """Completion rows as columns, by end."""

    end: Seconds
    start: Seconds
    group: IntArray
    member: IntArray
    seq: Long
    op: IntArray
    bytes: Long

    def __len__(self) -> int:
        return len(self.end)

    def until(self, time: float) -> Completions:
        """Return those known at an instant; views."""
        return self.where(slice(0, int(np.searchsorted(self.end, time, side="right"))))

    def where(self, rows: slice | npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> Completions:
        """Return some of the rows."""
        return Completions(*(getattr(self, name)[rows] for name in CompletionRow._fields))


@dataclass(frozen=True, slots=True)
class States:
    """State rows as columns, by time."""

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

    def __len__(self) -> int:
        return len(self.time)

    def between(self, start: float, end: float) -> States:
        """Return those after ``start``, up to ``end``; views."""
        first, last = np.searchsorted(self.time, (start, end), side="right")
        return self.where(slice(int(first), int(last)))

    def where(self, rows: slice | npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> States:
        """Return some of the rows."""
        return States(*(getattr(self, name)[rows] for name in StateRow._fields))


@dataclass(frozen=True, slots=True)
class CollectiveRecording:
    """Everything that was read.

    :param ops: names of operations, as completions and states number them.
    :param notes: what the reader had to decide or leave out.
    :param tainted: members whose evidence is incomplete as rows were dropped: nothing is certain of them.
    """

    members: tuple[Member, ...]
    groups: tuple[RankGroup, ...]
    ops: tuple[str, ...]
    completions: Completions
    states: States
    notes: tuple[str, ...] = ()
    tainted: frozenset[int] = field(default=frozenset())

    @property
    def start(self) -> float:
        """The first instant anything is known of."""
        return min((column[0] for column in (self.completions.end, self.states.time) if len(column)), default=0.0)

    @property
    def end(self) -> float:
        """The last instant anything is known of."""
        return max((column[-1] for column in (self.completions.end, self.states.time) if len(column)), default=0.0)


def completions(rows: Iterable[CompletionRow]) -> Completions:
    """Return rows as columns, sorted."""
    end, start, group, member, seq, op, size = _columns(list(rows), CompletionRow._fields)
    unsorted = Completions(
        _floats(end), _floats(start), _ints(group), _ints(member), _longs(seq), _ints(op), _longs(size)
    )
    return unsorted.where(np.lexsort((unsorted.seq, unsorted.end)))


def states(rows: Iterable[StateRow]) -> States:
    """Return rows as columns, sorted."""
    time, group, member, seq, op, channel, peer, way, total, ready, transmitted, done = _columns(
        list(rows), StateRow._fields
    )
    unsorted = States(
        _floats(time),
        _ints(group),
        _ints(member),
        _longs(seq),
        _ints(op),
        _ints(channel),
        _ints(peer),
        _ints(way),
        _longs(total),
        _longs(ready),
        _longs(transmitted),
        _longs(done),
    )
    return unsorted.where(np.lexsort((unsorted.seq, unsorted.time)))


Column = Sequence[float]


def _columns(rows: Sequence[tuple[float, ...]], names: Sequence[str]) -> list[Column]:
    return list(zip(*rows, strict=True)) if rows else [()] * len(names)


def _floats(column: Column) -> Seconds:
    return np.array(column, dtype=np.float64)


def _ints(column: Column) -> IntArray:
    return np.array(column, dtype=np.int32)


def _longs(column: Column) -> Long:
    return np.array(column, dtype=np.int64)
