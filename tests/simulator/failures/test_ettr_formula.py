"""ETTR: the published table, the exact formula against sums, Monte Carlo within 5 % of both."""

from __future__ import annotations

from itertools import pairwise
from math import ceil, exp, inf, isinf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from ground.quantities import DAY
from simulator.failures.ettr import (
    Losses,
    best_interval,
    erlang_b,
    exact_ettr,
    exponential,
    first_order_ettr,
    simulate_ettr,
)
from simulator.failures.rates import RATES
from tests.case_counts import examples

TABLE = {128: 0.983, 512: 0.961, 1024: 0.939, 2048: 0.901}
"""r = 6.5e-3 per node-day, u0 = 5 min, w = 10 s, the best interval."""


def waiting_share(spares: int, load: float) -> float:
    """Erlang's loss formula."""
    return float([*erlang_b(spares, np.array([load]))][spares][0])


def job(nodes: int, *, restart: float = 300.0, write: float = 10.0) -> Losses:
    """A job at the rate of RSC-1 with its best interval."""
    failures = RATES["rsc-1"].per_second(nodes)
    return Losses(failures, restart, write, best_interval(failures, write))


@pytest.mark.parametrize("nodes", TABLE)
def test_the_table(nodes: int) -> None:
    """The four values of the table, to their three digits."""
    assert first_order_ettr(job(nodes)) == pytest.approx(TABLE[nodes], abs=5e-4)


@pytest.mark.parametrize("nodes", TABLE)
def test_monte_carlo_agrees(nodes: int) -> None:
    """90 days, 10 runs: within 5 % of the formula; and the exact formula inside three times the 95 % interval."""
    found = simulate_ettr(job(nodes), span=90 * DAY, runs=10, seed=4)
    assert found.mean == pytest.approx(first_order_ettr(job(nodes)), rel=0.05)
    assert abs(found.mean - exact_ettr(job(nodes))) < 3 * found.half_width
    # N r times the span: every restart lies in the span, and failures do not stop for it.
    assert found.failures == pytest.approx(job(nodes).failures * 90 * DAY, rel=0.1)


def test_the_best_interval_by_hand() -> None:
    """2,048 nodes fail 1.5407e-4 times a second: sqrt(20 / 1.5407e-4) = 360.3 s."""
    assert best_interval(RATES["rsc-1"].per_second(2048), 10.0) == pytest.approx(360.3, abs=0.05)
    assert isinf(best_interval(0.0, 10.0))
    with pytest.raises(InvalidInput):
        best_interval(1e-4, 0.0)


@examples(40)
@given(st.floats(1e-7, 1e-3), st.floats(0.1, 600.0), st.floats(0.0, 0.2))
def test_no_interval_beats_the_best_by_much(failures: float, write: float, off: float) -> None:
    """Young's interval is the best of the first order up to a term of second order, w N r."""
    best = Losses(failures, 0.0, write, best_interval(failures, write))
    for interval in (best.interval * (1 + off), best.interval / (1 + off)):
        other = Losses(failures, 0.0, write, interval)
        assert first_order_ettr(other) <= first_order_ettr(best) + failures * write


@examples(40)
@given(st.floats(1e-7, 1e-2), st.floats(0.0, 600.0), st.floats(0.0, 60.0), st.floats(1.0, 5000.0))
def test_the_exact_formula_is_a_sum(failures: float, restart: float, write: float, interval: float) -> None:
    """Cycles survived before a failure, summed one by one, over the mean time of an attempt with its restarts."""
    survives = exp(-failures * (interval + write))
    if survives > 0.999:
        return
    cycles = sum(k * survives**k * (1 - survives) for k in range(60_000 if survives > 0.9 else 2_000))
    attempt = exp(failures * restart) / failures
    exact = exact_ettr(Losses(failures, restart, write, interval))
    assert exact == pytest.approx(cycles * interval / attempt, rel=1e-6, abs=1e-12)


def test_nothing_fails() -> None:
    """Only the checkpoints cost: 1 / (1 + w/d); and without them nothing."""
    quiet = Losses(0.0, 300.0, 10.0, 90.0)
    assert first_order_ettr(quiet) == exact_ettr(quiet) == pytest.approx(0.9)
    assert simulate_ettr(quiet, span=100_000.0, runs=2, seed=0).mean == pytest.approx(0.9)
    assert exact_ettr(Losses(0.0, 300.0, 10.0, inf)) == 1.0


def test_hopeless() -> None:
    """A job that fails faster than it restarts makes nothing, and no formula goes below 0 or overflows."""
    doomed = Losses(1.0, 3600.0, 10.0, 3600.0)
    assert first_order_ettr(doomed) == 0.0
    assert exact_ettr(doomed) == 0.0


@pytest.mark.parametrize("spares", [0, 2, 5, 8])
def test_spares_by_formula_and_monte_carlo(spares: int) -> None:
    """512 nodes with repairs of a day: within 5 % of each other, with no spare as with enough."""
    found = simulate_ettr(job(512), span=360 * DAY, runs=20, seed=1, spares=spares, repair=exponential(DAY))
    waits = waiting_share(spares, job(512).failures * DAY)
    assert found.mean == pytest.approx(exact_ettr(job(512)) * (1.0 - waits), rel=0.05)
    assert found.waiting == pytest.approx(waits, abs=0.02)


def test_repair_times_of_any_kind_wait_alike() -> None:
    """The loss formula is insensitive to the distribution: repairs of exactly a day wait as long as random ones."""
    fixed = simulate_ettr(job(512), span=360 * DAY, runs=20, seed=1, spares=3, repair=lambda _: DAY)
    assert fixed.waiting == pytest.approx(waiting_share(3, job(512).failures * DAY), abs=0.02)


def test_same_seed_same_estimate() -> None:
    """Seeds, not chance, decide."""
    one, other, third = (simulate_ettr(job(512), span=30 * DAY, runs=3, seed=seed) for seed in (7, 7, 8))
    assert one == other
    assert one != third


@pytest.mark.parametrize("wrong", [(-1.0, 0.0, 0.0, 1.0), (1.0, np.nan, 0.0, 1.0), (1.0, 0.0, inf, 1.0), (1, 0, 0, 0)])
def test_impossible_losses(wrong: tuple[float, float, float, float]) -> None:
    """Negative, infinite and missing numbers are refused."""
    with pytest.raises(InvalidInput):
        Losses(*wrong)


@examples(60)
@given(st.floats(0.0, 1e6), st.floats(1.0, 1e4), st.floats(0.0, 100.0))
def test_checkpoints_lose_no_time(productive: float, interval: float, write: float) -> None:
    """What a run takes holds exactly its productive seconds, and no checkpoint holds more than was trained."""
    checkpoints = Losses(0.0, 0.0, write, interval)
    written = max(0, ceil(productive / interval - 1e-9) - 1)  # none after the last part
    wall = productive + written * write
    assert checkpoints.trained(wall) == pytest.approx(productive, abs=1e-6 * (1.0 + productive))
    assert checkpoints.saved(wall) <= checkpoints.trained(wall) + 1e-6


def test_checkpoints_by_hand() -> None:
    """Every 100 s, 10 s long: 250 s of work take 270; a failure after 219 leaves 100, after 220 leaves 200."""
    checkpoints = Losses(0.0, 0.0, 10.0, 100.0)
    assert checkpoints.trained(270.0) == 250.0
    assert checkpoints.trained(210.0) == 200.0
    assert [checkpoints.saved(wall) for wall in (109.0, 110.0, 219.0, 220.0)] == [0.0, 100.0, 100.0, 200.0]
    assert [checkpoints.trained(wall) for wall in (105.0, 120.0)] == [100.0, 110.0]
    assert Losses(0.0, 0.0, 0.0, inf).saved(1e9) == 0.0
    walls = np.linspace(0.0, 1000.0, 101)
    assert all(a <= b for a, b in pairwise(checkpoints.trained(float(wall)) for wall in walls))
