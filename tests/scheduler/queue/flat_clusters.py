"""A cluster and jobs for policies, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import numpy as np

from scheduler.queue.policy import CapacityReservation, Running, Waiting
from topology.cluster import BoolArray, IntArray


@dataclass(frozen=True)
class Wants:
    """A job in the queue."""

    key: int = 0
    nodes: int = 1
    gpus: int = 8
    predicted: float | None = None
    predicted_high: float | None = None
    priority: int = 0
    submitted: float = 0.0
    preemptible: bool = False
    reservation: str = ""
    gpu_types: tuple[str, ...] | None = None
    mix_types: bool = False
    namespace: str = ""


@dataclass(frozen=True)
class Runs:
    """A job that has nodes."""

    key: int
    places: Sequence[int]
    gpus: int = 8
    ends: float = inf
    started: float = 0.0
    priority: int = 0
    preemptible: bool = False
    leaving: bool = False


@dataclass(frozen=True)
class Flat:
    """Equal nodes of 8 GPUs with jobs on them."""

    nodes: int
    running: Sequence[Runs] = ()
    reservations: Sequence[CapacityReservation] = ()
    now: float = 0.0
    version: int = 0
    out: frozenset[int] = field(default_factory=frozenset)
    trunks: Sequence[int] = ()
    closed: Mapping[int, Sequence[int]] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    racks: Sequence[int] = ()
    saved: Mapping[int, float] = field(default_factory=dict)

    @property
    def total(self) -> IntArray:
        """8, or 0 for nodes that are out."""
        return np.array([0 if i in self.out else 8 for i in range(self.nodes)], dtype=np.int32)

    @cached_property
    def free(self) -> IntArray:
        """What the running jobs leave."""
        free = self.total
        for one in self.running:
            free[list(one.places)] -= one.gpus
        free.setflags(write=False)
        return free

    def compartments(self, *, mix_types: bool) -> IntArray | None:
        """Those given; none where all nodes are joined."""
        return np.array(self.trunks, dtype=np.int32) if self.trunks else None

    @property
    def domains(self) -> Sequence[IntArray]:
        """One level of those racks, if there are any."""
        return (np.array(self.racks, dtype=np.int32),) if self.racks else ()

    def unsaved(self, running: Running) -> float:
        """Since its last checkpoint, or its start; nothing of one that leaves."""
        assert isinstance(running.key, int)
        return 0.0 if running.leaving else self.now - self.saved.get(running.key, running.started)

    def may_fit(self, job: Waiting) -> bool:
        """Whether enough nodes have enough free."""
        return int(np.count_nonzero(self.usable(job) & (self.free >= job.gpus))) >= job.nodes

    def share(self, namespace: str) -> float:
        """As given, else none."""
        return self.shares.get(namespace, 0.0)

    def usable(self, job: Waiting) -> BoolArray:
        """Nodes with so many GPUs, without those that are closed to the job of that key."""
        usable = np.asarray(self.total >= job.gpus)
        if isinstance(job.key, int):
            usable[list(self.closed.get(job.key, ()))] = False
        return usable
