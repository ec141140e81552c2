"""Shares of types of GPU: what Gavel's public figures give, closed forms, and what holds for all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.type_shares import ShareProblem, finish_time_shares, max_min_shares, total_shares
from simulator.throughputs import GAVEL_SPEEDS, GAVEL_TYPES
from tests.case_counts import examples
from topology.cluster import FloatArray

FOUR = ("ResNet-50 (batch size 64)", "Transformer (batch size 64)", "A3C", "LM (batch size 80)")
SPEEDS = tuple(tuple(GAVEL_SPEEDS[name, 1][gpu_type][0] for gpu_type in reversed(GAVEL_TYPES)) for name in FOUR)


def test_one_gpu_of_each_type() -> None:
    """The golden state: four of Gavel's jobs on a V100, a P100 and a K80; all end up with the least share, .8240.

    The figures come from its public table by an independent solution of the program of its public code.
    """
    least, shares = max_min_shares(ShareProblem(SPEEDS, (1.0,) * 4, (1.0, 1.0, 1.0)))
    assert least == pytest.approx(0.8240, abs=5e-5)
    reached = (np.array(SPEEDS) * shares).sum(axis=1)
    assert reached == pytest.approx([2.097, 4.247, 4.476, 15.23], rel=5e-4)


def test_a_second_v100() -> None:
    """The golden state with two V100: 1.0247."""
    least, _ = max_min_shares(ShareProblem(SPEEDS, (1.0,) * 4, (2.0, 1.0, 1.0)))
    assert least == pytest.approx(1.0247, abs=5e-5)


def test_a_large_job_and_a_small_one() -> None:
    """One type of 4 GPUs: a job of 4 for x of its time and one of 1 for y have rates 4x and y; 4x + y <= 4, y <= 1. The
    least is at most 1, with y = 1; what is left over goes to the large one, x = 3/4.
    """
    least, shares = max_min_shares(ShareProblem(((1.0,), (1.0,)), (4.0, 1.0), (4.0,)))
    assert least == pytest.approx(1.0)
    assert shares[:, 0] == pytest.approx([0.75, 1.0])


def test_most_work() -> None:
    """Two jobs, one GPU of each of two types: each goes where it is relatively faster, though both are faster on A."""
    shares = total_shares(ShareProblem(((4.0, 1.0), (2.0, 1.0)), (1.0, 1.0), (1.0, 1.0)))
    assert shares == pytest.approx(np.eye(2))


def test_finish_times_of_equal_jobs() -> None:
    """Two equal jobs on one GPU that came together: half of it each, as on their own half: ratio 1 from the start.  One
    that has waited for as long as it works is owed more: with rates a + b = 1 and works of 1 h, ideal times are 4 h and
    2 h, finish times 1 + 1/a and 1/b; their ratios are equal at a = .4514.
    """
    problem = ShareProblem(((1.0,), (1.0,)), (1.0, 1.0), (1.0,))
    work = np.array([3600.0, 3600.0])
    ratio, shares = finish_time_shares(problem, np.zeros(2), work)
    assert ratio == pytest.approx(1.0, rel=2e-3)
    assert shares[:, 0] == pytest.approx([0.5, 0.5], rel=2e-3)
    ratio, shares = finish_time_shares(problem, np.array([3600.0, 0.0]), work)
    a = float(shares[0, 0])
    assert ratio == pytest.approx((1 + 1 / a) / 4, rel=2e-3)
    assert ratio == pytest.approx(1 / (1 - a) / 2, rel=2e-3)


def test_a_job_larger_than_each_type() -> None:
    """Of one GPU of each of two types a job of two has half of the time on each: the program counts GPUs alone."""
    least, shares = max_min_shares(ShareProblem(((1.0, 1.0),), (2.0,), (1.0, 1.0)))
    assert least == pytest.approx(2.0)
    assert shares == pytest.approx(np.array([[0.5, 0.5]]))


@st.composite
def problems(draw: st.DrawFn) -> ShareProblem:
    """A few jobs on one to three types, each running somewhere."""
    types = draw(st.integers(1, 3))
    speed = st.sampled_from([0.0, 0.5, 1.0, 3.0])
    row = st.lists(speed, min_size=types, max_size=types).map(tuple).filter(any)
    speeds = draw(st.lists(row, min_size=1, max_size=5).map(tuple))
    gpus = tuple(draw(st.sampled_from([1.0, 2.0, 4.0])) for _ in speeds)
    return ShareProblem(speeds, gpus, tuple(draw(st.sampled_from([4.0, 8.0])) for _ in range(types)))


def fits(problem: ShareProblem, shares: FloatArray) -> bool:
    """Whether no job has more than all of its time and no type serves more than its GPUs."""
    in_all = np.array(problem.gpus) @ shares
    return bool((shares.sum(axis=1) <= 1 + 1e-6).all() and (in_all <= np.array(problem.counts) + 1e-6).all())


@given(problem=problems(), passed=st.floats(0, 1e5), left=st.floats(1, 1e5))
@examples(60)
def test_shares_fit_and_are_no_worse_than_equal_parts(problem: ShareProblem, passed: float, left: float) -> None:
    """All three programs keep to what there is.  The least rate is at least that of equal parts of the cluster; the sum
    of rates is largest under the program that maximises it; no finish-time ratio is above that of equal parts.
    """
    least, shares = max_min_shares(problem)
    most = total_shares(problem)
    rates, counts = problem.rates, np.array(problem.counts)
    equal = counts[None, :] / len(problem.gpus) / np.array(problem.gpus)[:, None]
    equal /= np.maximum(equal.sum(axis=1, keepdims=True), 1.0)
    assert fits(problem, equal)
    assert least >= (rates * equal).sum(axis=1).min() - 1e-6
    assert (rates * shares).sum(axis=1).min() == pytest.approx(least, rel=1e-5, abs=1e-9)
    assert (rates * most).sum() >= (rates * shares).sum() - 1e-6
    jobs = len(problem.gpus)
    ratio, fair = finish_time_shares(problem, np.full(jobs, passed), np.full(jobs, left))
    assert fits(problem, shares)
    assert fits(problem, most)
    assert fits(problem, fair)
    assert 0 < ratio <= 1 + 1e-6 or passed > 0
