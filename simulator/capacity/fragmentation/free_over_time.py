"""How much of the free nodes whole PP groups can use, over states of a cluster: hours of a replay, or other seeds.

A PP group inside one domain takes pp of its free nodes: the largest job with whole groups has the sum of
pp * floor(free / pp) over the domains, which needs no search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ground.quantities import HOUR
from simulator.capacity.answer_range import AnswerRange, InputPoints, percentiles
from simulator.capacity.job_shape import JobShape
from simulator.capacity.uncertain_input import seed_input

if TYPE_CHECKING:
    from simulator.engine.simulated_cluster import SimulatedCluster
    from topology.cluster import Cluster, IntArray, Level

SAMPLES = 1_000  # Samples of a replay, at most
DRAWS = 100  # States of a made cluster


@dataclass(frozen=True, eq=False)
class ShareKept:
    """The share of the free nodes that jobs with whole PP groups can use, by shape and state."""

    shapes: tuple[JobShape, ...]
    """Shapes with pipeline stages."""
    shares: tuple[tuple[float | None, ...], ...]
    """By shape and state; ``None`` = no node is free."""
    states: int
    source: str
    """What the states are, in words."""
    how: str = ""
    """How jobs were replayed and which were left out, in words; empty = there is no replay."""
    hours: tuple[float, ...] = ()
    """When the states were, hours since the first job; empty = they are of no replay."""
    where: InputPoints | None = None
    """The points of the states, where they are drawn."""

    @cached_property
    def ranges(self) -> tuple[AnswerRange, ...]:
        """By shape, the one that loses most first; of the states in which nodes are free."""
        known = [[share for share in shares if share is not None] for shares in self.shares]
        found = [self._range(shape, shares) for shape, shares in zip(self.shapes, known, strict=True) if shares]
        return tuple(sorted(found, key=lambda one: one.p50))

    def _range(self, shape: JobShape, shares: Sequence[float]) -> AnswerRange:
        quantity = f"free nodes that whole PP groups of {shape.name} use"
        if self.where is not None:
            return self.where.range_of(quantity, shares, kind="share")
        p10, p50, p90 = percentiles(shares)
        return AnswerRange(quantity, "share", p10, p50, p90, p50, len(shares), ())


def share_kept(free: IntArray, stages: int) -> float | None:
    """Return the share of free nodes, shape [domains], that whole groups of so many use; ``None`` = none is free."""
    total = int(free.sum())
    return float((free // stages * stages).sum()) / total if total else None


def kept_by_seed(cluster: Cluster, busy_share: float, level: str | None, shapes: Sequence[JobShape]) -> ShareKept:
    """Return the shares over states of a cluster, emptied and filled again as other seeds have it."""
    from topology.cluster import count_nodes
    from topology.generate import fragment

    where, empty = InputPoints((seed_input(),), DRAWS, 0), cluster.emptied()
    counted = cluster.levels[cluster.level_index(level, where="--level")]
    made = [fragment(empty, busy_share, int(point["seed"])) for point in where.points]
    free = [count_nodes(counted, one.idle) for one in made]
    return _by_shape(free, shapes, states=DRAWS, source=f"{DRAWS} states made by other seeds", where=where)


def kept_over_replay(trace: str, cluster: Cluster, level: Level, shapes: Sequence[JobShape]) -> ShareKept:
    """Return the shares hour by hour in a replay of a trace, from the first job to the last submission.

    :param cluster: without jobs.
    :raises ArnoldError: the trace cannot be read, or none of its jobs fits the cluster.
    """
    from simulator.replay import prepare
    from simulator.replay_settings import ReplaySettings
    from simulator.traces import read_trace

    settings = ReplaySettings("fifo-backfill", algorithm="gpu-packing", level=level.name)
    replay = prepare(read_trace(trace, lenient=True), cluster, settings, lenient=True)
    records = replay.trace.records
    first, last = records[0].submit, records[-1].submit
    recorder = FreeRecorder(level, first, last, step=max(HOUR, (last - first) / SAMPLES))
    replay.engine.observers = (*replay.engine.observers, recorder)
    replay.engine.run()
    source = f"{len(recorder.free):,} samples of a replay of {len(records):,} jobs"
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in replay.trace.dropped.items() if count)
    how = f" under {settings.policy}, placed by {settings.algorithm}, --cost-model {settings.cost_model}" + (
        f", without {dropped}" if dropped else ""
    )
    hours = tuple(recorder.step / HOUR * i for i in range(len(recorder.free)))
    return _by_shape(recorder.free, shapes, states=len(hours), source=source, hours=hours, how=how)


def _by_shape(free: Sequence[IntArray], shapes: Sequence[JobShape], **known: Any) -> ShareKept:
    piped = tuple(shape for shape in shapes if shape.pp > 1)
    return ShareKept(piped, tuple(tuple(share_kept(one, shape.pp) for one in free) for shape in piped), **known)


@dataclass(slots=True)
class FreeRecorder:
    """Observer of an engine that samples the free nodes of each domain."""

    level: Level
    begin: float
    """Time of the first sample, seconds."""
    end: float
    """Time of the last sample, at most."""
    step: float
    """Seconds from one sample to the next."""
    free: list[IntArray] = field(default_factory=list)
    """By sample, shape [domains]."""

    def elapsed(self, cluster: SimulatedCluster, until: float) -> None:
        """Take the samples of a stretch of time in which nothing changes."""
        from topology.cluster import count_nodes

        now = self.begin + self.step * len(self.free)
        if now > min(until, self.end):
            return
        pool = cluster.pool
        counted = count_nodes(self.level, (pool.free == pool.total) & (pool.total > 0))
        while now <= min(until, self.end):
            self.free.append(counted)
            now += self.step

    def state(self) -> Any:
        """Return nothing: a study is not resumed in the middle of a replay."""

    def restore(self, state: Any) -> None:
        """Do nothing, as :meth:`state` keeps nothing."""
