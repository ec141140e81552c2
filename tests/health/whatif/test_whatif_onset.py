"""A worker that breaks inside the trace and stays slow: found with the step, and with the time where one is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from health.whatif import analyse, flags_of, prepare, slow_workers
from health.whatif.analysis import ON_END, factors
from health.whatif.synthetic import make_trace
from tests.health.whatif.recipes import Recipe

ENDED = datetime(2026, 11, 17, 14, tzinfo=UTC)


@pytest.mark.parametrize("first", [1, 6, 9])
def test_a_worker_that_breaks_and_stays_slow_is_flagged_with_the_step(first: int) -> None:
    """The factor is that since the onset, not one diluted by the steps before; the flag names step and time."""
    replayed = prepare(make_trace(Recipe(dp=8, steps=12, slow={(3, 2): 1.5}, slow_from=first)))
    analysis = analyse(replayed)
    assert analysis.cause == "worker"
    (worker,) = slow_workers(replayed, analysis, {(3, 2): "n"})
    assert (worker.dp, worker.stage, worker.since_step) == (3, 2, first)
    assert worker.factor == pytest.approx(1.5, rel=0.02)
    assert worker.steps == pytest.approx((12 - first) / 12)
    (flag,) = flags_of([worker], analysis, ended=ENDED)
    assert f"since step {first} of 0 to 11" in flag.evidence
    # all steps were traced, so that the onset is the sum of the slow ones before the end
    lasted = timedelta(seconds=float(analysis.per_step.traced_seconds[first:].sum()))
    assert flag.since is not None
    assert abs(flag.since - (ENDED - lasted)) <= timedelta(seconds=1)
    assert flags_of([worker], analysis)[0].since is None


def test_slow_from_the_first_step_has_no_onset() -> None:
    """What was slow all along began before the trace: nobody knows when."""
    replayed = prepare(make_trace(Recipe(slow={(1, 1): 1.5})))
    analysis = analyse(replayed)
    (worker,) = slow_workers(replayed, analysis, {(1, 1): "n"})
    assert worker.since_step is None
    assert flags_of([worker], analysis, ended=ENDED)[0].since is None


def test_fewer_last_steps_are_no_onset() -> None:
    """Slow in the last two steps may be gone in the next: no flag."""
    replayed = prepare(make_trace(Recipe(dp=8, steps=12, slow={(3, 2): 1.5}, slow_from=12 - ON_END + 1)))
    analysis = analyse(replayed)
    assert analysis.cause == "worker"
    assert slow_workers(replayed, analysis) == ()


def test_the_factor_is_measured_against_the_other_ranks_and_the_other_stages() -> None:
    """Compared with the median of the others; a rank that is slow in every stage has more work, and no slow worker."""
    seconds = np.ones((3, 4, 1))
    seconds[1, 2] = 2.0  # one worker
    seconds[:, 3] = 1.5  # one rank, in all stages
    ratio = factors(seconds)[:, :, 0]
    # the others of rank 2 in stage 1 are 1, 1, 1.5: median 1
    assert ratio[1, 2] == pytest.approx(2.0)
    assert ratio[:, 3] == pytest.approx(1.0)
    assert (factors(np.full((2, 1, 5), 3.0)) == 1.0).all()  # without peers there is nothing to compare
