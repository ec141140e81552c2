"""Flows of all groups, chunk by chunk in discrete time, as arrays.

A flow leads from a member to a peer over one channel.  Four counters: chunks its GPU made ready, chunks transmitted,
chunks delivered, chunks the receiving GPU consumed.  Each may run ahead of the next by the depth of the buffer only.
What a GPU can make ready depends on what it has consumed: in a ring on the flow that comes in, plus a lead; up a tree
on the children's flows; down a tree on the parent's, at the root on the children's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.simulated_collectives.traced_job import Algorithm
from health.collectives.recording import RankGroup
from health.collectives.stalls import DOWN, P2P, RING, UP

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

DEPTH = 8  # Chunks in flight on a flow (NCCL_STEPS)

LEAD = 4  # Chunks that a ring member sends before it has received any

CHUNK_BYTES = 1 << 20

TINY = 1e-6  # What sums of fractions may be off by


class Slot(NamedTuple):
    """A flow of a group.

    :param op: the operation that uses it; empty = all of the group.
    :param needs: slots whose chunks it needs.
    """

    group: int
    source: int
    target: int
    channel: int
    way: int
    op: str
    total: int
    needs: tuple[int, ...]


def slots_of(groups: Sequence[RankGroup], *, algorithm: Algorithm, rings: int) -> list[Slot]:
    """All flows of all groups; tensor-parallel groups are always rings."""
    slots: list[Slot] = []
    for number, group in enumerate(groups):
        if group.kind == "pp":
            lower, upper = group.members
            slots.append(Slot(number, lower, upper, 0, P2P, "forward", 2 * DEPTH, ()))
            slots.append(Slot(number, upper, lower, 0, P2P, "backward", 2 * DEPTH, ()))
        elif algorithm == "tree" and group.kind == "dp":
            for channel in range(rings):
                slots += _tree(number, _order(group, channel), channel, first=len(slots))
        else:
            for channel in range(rings):
                slots += _ring(number, _order(group, channel), channel, first=len(slots))
    return slots


def _order(group: RankGroup, channel: int) -> tuple[int, ...]:
    return group.members if channel % 2 == 0 else group.members[::-1]


def _ring(group: int, order: Sequence[int], channel: int, *, first: int) -> list[Slot]:
    n = len(order)
    total = 2 * (n - 1) * LEAD
    return [
        Slot(group, order[i], order[(i + 1) % n], channel, RING, "", total, (first + (i - 1) % n,)) for i in range(n)
    ]


def _tree(group: int, order: Sequence[int], channel: int, *, first: int) -> list[Slot]:
    """A binary tree in heap order: ``n - 1`` flows up, then as many down."""
    n = len(order)
    total = 8 * LEAD
    up = {child: first + child - 1 for child in range(1, n)}
    children = {node: tuple(up[c] for c in (2 * node + 1, 2 * node + 2) if c < n) for node in range(n)}
    slots = [
        Slot(group, order[child], order[(child - 1) // 2], channel, UP, "", total, children[child])
        for child in range(1, n)
    ]
    for child in range(1, n):
        parent = (child - 1) // 2
        needs = (up[parent] + n - 1,) if parent else children[0]
        slots.append(Slot(group, order[parent], order[child], channel, DOWN, "", total, needs))
    return slots


@dataclass
class Fabric:
    """The state of all flows."""

    slots: Sequence[Slot]
    crossing: Bools  # Flows that leave a node; only they use the network
    source: npt.NDArray[np.intp] = field(init=False)
    target: npt.NDArray[np.intp] = field(init=False)
    group: npt.NDArray[np.intp] = field(init=False)
    way: npt.NDArray[np.intp] = field(init=False)
    total: Floats = field(init=False)
    on: Bools = field(init=False)
    ready: Floats = field(init=False)
    transmitted: Floats = field(init=False)
    done: Floats = field(init=False)
    consumed: Floats = field(init=False)
    _needs: npt.NDArray[np.intp] = field(init=False)
    _lead: npt.NDArray[np.intp] = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.slots)
        self.source, self.target, self.group, self.way = (
            np.array([getattr(slot, name) for slot in self.slots], dtype=np.intp)
            for name in ("source", "target", "group", "way")
        )
        self.total = np.array([slot.total for slot in self.slots], dtype=np.float64)
        self.on = np.zeros(n, dtype=np.bool_)
        self.ready, self.transmitted, self.done, self.consumed = (np.zeros(n) for _ in range(4))
        widest = max([1, *(len(slot.needs) for slot in self.slots)])
        self._lead = np.where(self.way == RING, LEAD, 0)
        self._needs = np.full((n, widest), n, dtype=np.intp)
        for i, slot in enumerate(self.slots):
            self._needs[i, : len(slot.needs)] = slot.needs

    def begin(self, flows: npt.NDArray[np.intp]) -> None:
        """A collective starts on these flows."""
        self.on[flows] = True
        for counter in (self.ready, self.transmitted, self.done, self.consumed):
            counter[flows] = 0.0

    def tick(self, *, launched: Bools, gpu: Floats, outward: Floats, inward: Floats, posting: Bools) -> None:
        """Let one step of time pass.

        :param launched: flow -> whether source and target have launched, shape [2, flows].
        :param gpu: rank -> chunks its GPU handles in this step.
        :param outward: flow -> chunks it can transmit in this step.
        :param inward: flow -> chunks it can deliver in this step.
        :param posting: flow -> whether its target makes room for what comes.
        """
        here, there = launched & self.on
        arrived = np.minimum(self.done - self.consumed, gpu[self.target]) * there
        delivered = np.minimum(self.transmitted - self.done, inward)
        room = np.where(posting, self.consumed + DEPTH - self.transmitted, 0.0)
        sent = np.minimum(np.minimum(self.ready - self.transmitted, outward), room) * (here & there)
        whole = np.full(len(self.slots) + 1, np.inf)
        np.floor(self.consumed + TINY, out=whole[:-1])
        have = whole[self._needs].min(axis=1) + self._lead
        limit = np.minimum(np.minimum(have, self.total), self.transmitted + DEPTH) - self.ready
        made = np.maximum(np.minimum(limit, gpu[self.source]), 0.0) * here
        self.consumed += arrived
        self.done += np.where(self.on, delivered, 0.0)
        self.transmitted += np.maximum(sent, 0.0)
        self.ready += made
