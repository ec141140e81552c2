"""Waits by load: what is told between loads that were replayed, never beside them, and how well a run knows it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.quantities import DAY, MINUTE
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.queue.policy import POLICIES
from simulator.capacity.cluster_question import background_jobs
from simulator.capacity.question import chance_of
from simulator.capacity.wait_curve import HIGHEST, ReplayedLoad, WaitCurve, wait_curve
from simulator.engine import Engine
from simulator.pools import GpuPool, NodePool, Pool
from simulator.replay_settings import QueueSettings
from tests.case_counts import every_fourth, examples
from topology.generate import minipods


def flat(load: float, seconds: float) -> ReplayedLoad:
    """A load at which every job waits as long."""
    return ReplayedLoad(load, np.full(40, seconds))


NODES, DAYS = 16, 3.0  # Of the small curves: about 400 jobs
CURVE = WaitCurve((flat(0.5, 10.0), flat(0.9, 90.0)))


def test_between_and_beyond_by_hand() -> None:
    """Straight from replay to replay, 50 s halfway; as at the first below it; no answer above the last."""
    found = CURVE.at([0.25, 0.5, 0.7, 0.9, 0.91, 1.5])
    assert found.tolist() == pytest.approx([10.0, 10.0, 50.0, 90.0, inf, inf])
    assert [CURVE.breaks(seconds) for seconds in (5.0, 50.0, 100.0)] == pytest.approx([0.5, 0.7, 0.9])
    assert [CURVE.kept(seconds) for seconds in (50.0, 100.0)] == [False, True]


@examples(30)
@given(waits=st.lists(st.floats(0.0, 1e5), min_size=3, max_size=3), objective=st.floats(0.1, 1e6))
def test_where_an_objective_breaks(waits: list[float], objective: float) -> None:
    """The wait never falls with the load; below the load found it keeps the objective, above it does not."""
    curve = WaitCurve(tuple(flat(load, wait) for load, wait in zip((0.8, 0.9, 0.95), waits, strict=True)))
    loads = np.linspace(0.8, 0.95, 201)
    found = curve.at(loads)
    assert (np.diff(found) >= -1e-9 * (1.0 + found[1:])).all()
    broken = curve.breaks(objective)
    assert 0.8 <= broken <= 0.95
    assert (found[loads < broken - 1e-9] <= objective * (1.0 + 1e-9)).all()
    if broken < 0.95:
        assert (found[loads > broken + 1e-9] >= objective * (1.0 - 1e-9)).all()


def independent_wait(seed: int, load: float) -> float:
    """Replay the same jobs without the curve: P95 of the minutes that the last three quarters of them waited."""
    cluster = minipods(minipods=2, nodes=NODES)
    made = background_jobs(cluster, load=1.0, seconds=DAYS * DAY, seed=seed)
    jobs = [replace(job, submit=job.submit * made.load / load) for job in made.records]
    engine = Engine(jobs, GpuPool(cluster), POLICIES.load("fifo-backfill"))
    engine.run()
    return float(np.percentile([job.first_start - job.submitted for job in engine.jobs[len(jobs) // 4 :]], 95)) / MINUTE


@cache
def small_curve(seed: int, objective: float) -> WaitCurve:
    """Three days on two minipods of eight nodes."""
    cluster, settings = minipods(minipods=2, nodes=NODES), QueueSettings("fifo-backfill")
    return wait_curve(cluster, settings, days=DAYS, seed=seed, objective=objective, least=0.3)


@pytest.mark.many_cases
@pytest.mark.parametrize(("minutes", "seed"), every_fourth([*product([60.0, 10.0], [1, 2, 3])]))
def test_the_load_that_breaks_the_objective_is_replayed(minutes: float, seed: int) -> None:
    """A replay at the load that is told has the wait that breaks: within 10 %, a little below and above it not."""
    curve = small_curve(seed, minutes * MINUTE)
    load, wait = curve.breaks(minutes * MINUTE), partial(independent_wait, seed)
    assert 0.02 < load < HIGHEST
    # 0.01 of load is three times the step that is left of the halvings
    assert wait(load) == pytest.approx(minutes, rel=0.1) or wait(load - 0.01) < minutes < wait(load + 0.01)
    # what was replayed is told as it was
    assert curve.replays[-1].wait() / MINUTE == pytest.approx(wait(HIGHEST))


@pytest.mark.many_cases
@pytest.mark.parametrize("seed", every_fourth([1, 2]))
def test_between_replays_the_curve_is_a_replay(seed: int) -> None:
    """At loads of .3 to .97 that were not replayed: inside what the runs beside it know, P10 to P90, or 3 minutes."""
    curve = small_curve(seed, 60.0 * MINUTE)
    for load in (0.33, 0.44, 0.51, 0.56, 0.61, 0.66, 0.71, 0.76, 0.84, 0.93):
        wait = independent_wait(seed, load)
        low, high = (float(curve.at(load, chance=chance_of(u))) / MINUTE for u in (0.1, 0.9))
        assert low - 3.0 <= wait <= high + 3.0, load


def test_an_objective_that_is_kept_to_the_end() -> None:
    """Nothing is said above the highest load: the objective is taken to break there, and it is said that it is kept."""
    curve = small_curve(1, 1e7)
    assert curve.kept(1e7)
    assert curve.breaks(1e7) == HIGHEST
    assert float(curve.at(0.98)) == inf


def test_the_least_load_is_replayed() -> None:
    """Also where the objective breaks far above it: down to where nobody waits, or to that load."""
    curve = small_curve(1, 400.0 * MINUTE)
    assert curve.replays[0].load <= 0.3 or curve.replays[0].wait() == 0.0


def test_how_well_a_run_knows_its_percentile() -> None:
    """Of jobs that wait independently the share beyond has the binomial error; of bursts, one as large as the burst."""
    steady = ReplayedLoad(0.5, np.tile(np.arange(20.0), 50))
    # sqrt(.95 * .05 / 1000), as each batch of 100 jobs has five beyond the percentile
    assert steady.error == pytest.approx(0.0068920, rel=1e-4)
    # all 50 jobs that wait long come in one of five batches of 200: shares .25 and four times 0, of mean .05
    burst = ReplayedLoad(0.5, np.concatenate([np.zeros(900), np.arange(100.0)]))
    assert burst.error == pytest.approx(np.std([0.25] + [0.0] * 4, ddof=1) / np.sqrt(5), rel=0.01)
    assert burst.wait(-1.0) < burst.wait() < burst.wait(1.0)


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
