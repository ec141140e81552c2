"""Parts of the replay of a reservation: samples of a zone, and two placement algorithms as one."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ground.quantities import HOUR
from scheduler.job import Job
from scheduler.placement.types import Limits, Proposal
from simulator.capacity.cluster_question import JobShape
from simulator.capacity.reserve import CheckpointEvery, LargeAndSmall, still_running, zone_sampler
from tests.simulator.capacity.clusters_in_use import with_free
from topology.cluster import Cluster


def moment(*holders: tuple[str, tuple[int, ...]], waiting: int = 0) -> Any:
    """An engine on four nodes of 8 GPUs, with jobs that hold nodes."""
    free = np.full(4, 8.0)
    for _, places in holders:
        free[list(places)] = 0.0
    active = {
        i: SimpleNamespace(record=SimpleNamespace(job_id=name), places=places)
        for i, (name, places) in enumerate(holders)
    }
    pool = SimpleNamespace(total=np.full(4, 8.0), free=free, capacity=32.0)
    return SimpleNamespace(pool=pool, active=active, backlog=[None] * waiting)


def test_samples_every_five_minutes() -> None:
    """From two hours before the announcement, of what was until then; nothing after the end."""
    sampler = zone_sampler((0, 1), owner="large", announced=3 * HOUR, end=3.5 * HOUR)
    sampler.elapsed(moment(), HOUR - 1.0)
    assert sampler.samples == []
    sampler.elapsed(moment(("a", (0,)), ("b", (3,)), waiting=2), HOUR)
    sampler.elapsed(moment(("a", (0, 1))), HOUR + 601.0)
    sampler.elapsed(moment(), 9 * HOUR)
    # two and a half hours of twelve samples each, and that at the end
    assert len(sampler.samples) == 31
    # a holds one node of the zone, b one beside it: half of the cluster, and two jobs wait
    assert sampler.samples[:4] == [(0.5, 1, 2), (0.5, 2, 0), (0.5, 2, 0), (0.0, 0, 0)]


def test_the_owner_does_not_hold_its_own_zone() -> None:
    """Its nodes are allocated, and not held by others."""
    sampler = zone_sampler((0, 1), owner="large", announced=2 * HOUR, end=4 * HOUR)
    sampler.elapsed(moment(("large", (0, 1)), ("x", (2,))), 0.0)
    assert sampler.samples == [(0.75, 0, 0)]


@dataclass
class Remembers:
    """An algorithm that remembers the jobs it was asked about."""

    name: str = "remembers"
    summary: str = "for a test"
    asked: list[str] = field(default_factory=list)

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Place nothing."""
        self.asked.append(job.name)
        return Proposal(None, complete=False)


@pytest.mark.parametrize(("rows", "large"), [(1, False), (2, False), (3, True), (4, True)])
def test_by_size(rows: int, large: bool) -> None:
    """From six nodes on, that is three rows of two, a job is large."""
    exact, rule = Remembers(), Remembers()
    LargeAndSmall(6, exact, rule).place(with_free(8), JobShape(8, 2).job(rows), Limits(workers=1))
    assert (len(exact.asked), len(rule.asked)) == ((1, 0) if large else (0, 1))


def test_the_two_of_production() -> None:
    """Both find a place, in one minipod where there is room in one."""
    algorithm = LargeAndSmall(4)
    assert (algorithm.large.name, algorithm.small.name) == ("exact", "gpu-packing")
    for rows in (1, 2):
        nodes = algorithm.place(with_free(5, 1), JobShape(8, 2).job(rows), Limits(workers=1)).nodes
        assert nodes is not None
        assert int(nodes.max()) < 8


def test_a_stopped_job_goes_back_to_its_checkpoint() -> None:
    """One an hour: of 2.5 h of work 2 h are safe; half an hour on each of three nodes is done again."""
    keeps = CheckpointEvery(HOUR)
    job: Any = SimpleNamespace(nodes=3)
    assert keeps.saved(job, done=2.5 * HOUR) == 2 * HOUR
    assert keeps.interrupted(job, done=2.5 * HOUR, why="preemption") == (2 * HOUR, 0.0)
    assert keeps.lost == 1.5 * HOUR


def test_what_still_runs_in_a_zone() -> None:
    """By nodes of the zone: 19 of 20 end after an hour, the last after nine; others do not count."""

    def job(places: range, end: float, *, start: float = 0.0, stopped: bool = False) -> Any:
        runs = [(0.0, 1.0)] if stopped else []
        return SimpleNamespace(places=places, end=end * HOUR, first_start=start * HOUR, runs=runs)

    others = [
        job(range(19), 3.0),
        job(range(19, 22), 11.0),
        job(range(30, 40), 50.0),
        job(range(5), 60.0, stopped=True),
        job(range(5), 70.0, start=4.0),
    ]
    assert still_running(others, range(20), 2.0 * HOUR) == (1.0, 9.0)
    assert still_running([], range(20), 0.0) == (0.0, 0.0)
