"""Waits by load: the form between and beyond the loads that were replayed, and replays that count GPUs."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.queue.queue_policy import POLICIES
from simulator.capacity.cluster_question import background_jobs
from simulator.capacity.grow.wait_curve import WaitCurve, wait_curve
from simulator.engine.engine import Engine
from simulator.pools.gpu_pool import GpuPool
from simulator.pools.node_pool import NodePool
from simulator.pools.pool import Pool
from simulator.replay_settings import QueueSettings
from tests.case_counts import examples
from topology.generate import minipods
from topology.quantities import DAY

CURVE = WaitCurve((0.5, 0.9), (10.0, 90.0))


def test_between_and_beyond_by_hand() -> None:
    """Wait times (1 - load): 0 at 0, 5 at 0.5, 9 at 0.9; so 7 / 0.3 at 0.7, 9 / 0.05 at 0.95, no answer from 1 on."""
    found = CURVE.at([0.0, 0.25, 0.5, 0.7, 0.9, 0.95, 1.0, 1.5])
    assert found.tolist() == pytest.approx([0.0, 2.5 / 0.75, 10.0, 7 / 0.3, 90.0, 180.0, inf, inf])


@examples(30)
@given(waits=st.lists(st.floats(0.0, 1e5), min_size=3, max_size=3).map(sorted), objective=st.floats(0.1, 1e6))
def test_where_an_objective_breaks(waits: list[float], objective: float) -> None:
    """The wait never falls with the load; below the load found it keeps the objective, above it does not."""
    curve = WaitCurve((0.8, 0.9, 0.95), tuple(waits))
    loads = np.linspace(0.0, 1.0, 201)
    found = curve.at(loads)
    assert (np.diff(found[:-1]) >= -1e-9 * (1.0 + found[1:-1])).all()
    broken = curve.breaks(objective)
    assert 0.0 < broken <= 1.0
    assert (found[loads < broken - 1e-4] <= objective).all()
    # a wait that stays at the objective comes out a rounding above or below it
    assert (found[loads > broken + 1e-4] >= objective * (1.0 - 1e-12)).all()


def test_more_load_longer_waits() -> None:
    """The same jobs, closer: the wait does not fall.  Same seed, same curve; another seed, another one."""
    cluster = minipods(minipods=2, nodes=16)
    curve = wait_curve(cluster, QueueSettings("fifo"), days=6.0, seed=3)
    assert list(curve.waits) == sorted(curve.waits)
    assert curve.waits[-1] > 0.0
    assert wait_curve(cluster, QueueSettings("fifo"), days=6.0, seed=3) == curve
    assert wait_curve(cluster, QueueSettings("fifo"), days=6.0, seed=4).waits != curve.waits


@pytest.mark.parametrize("policy", ["fifo", "fifo-backfill"])
def test_counting_is_enough(policy: str) -> None:
    """Gangs of whole nodes start when so many nodes are free, wherever these are: placed or counted, the same waits."""
    cluster = minipods(minipods=3, nodes=24)
    records = background_jobs(cluster, load=1.1, seconds=0.5 * DAY, seed=0).records
    limits = Limits(workers=1)
    pools: list[Pool] = [
        GpuPool(cluster),
        NodePool(cluster, algorithm=ALGORITHMS.load("gpu-packing"), limits=limits),
    ]
    starts = []
    for pool in pools:
        engine = Engine([replace(one) for one in records], pool, POLICIES.load(policy))
        engine.run()
        starts.append([job.first_start for job in engine.jobs])
    assert starts[0] == starts[1]
    assert any(start > one.submit for start, one in zip(starts[0], records, strict=True))
