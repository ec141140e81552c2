"""Work that counted over time since first starts: against sums by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator.job_record import JobRecord
from simulator.results import ratio, run_ettr, run_summary, sliding_ettr, time_series, work, worst_ettr
from tests.case_counts import examples
from tests.simulator.clusters import racks
from tests.simulator.disturbed import disturbed
from tests.simulator.replays import random_records, replayed
from tests.simulator.runs import log_attempts

SEEDS = st.integers(0, 10_000)


@examples(10)
@given(seed=SEEDS, buckets=st.integers(1, 30))
@example(seed=2957, buckets=1)  # an attempt of this run is cut short within the rounding of its first instant
@example(seed=486, buckets=2)  # and of this one at that very instant, after work that is rounding
def test_work_and_presence_are_sums_over_attempts(seed: int, buckets: int) -> None:
    """Over the whole run: what each attempt worked at its pace, and what each job was present, times its GPUs."""
    made, history = disturbed(seed)
    counted, present = work(history, np.linspace(0.0, history.length, buckets + 1))
    attempts = history.attempts
    by_hand = sum(
        gpus * (counts - works) / pace
        for gpus, works, counts, pace in zip(attempts.gpus, attempts.works, attempts.counts, attempts.pace, strict=True)
        if counts > works  # cut short as it began to work: nothing counts, and by rounding its pace is 0
    )
    assert counted.sum() == pytest.approx(by_hand, rel=1e-9)
    wall = sum(job.units / 100 * (job.end - job.first_start) for job in made.engine.jobs)
    assert present.sum() == pytest.approx(wall, rel=1e-9)
    assert (counted <= present + 1e-6).all()


@examples(10)
@given(seed=SEEDS)
def test_where_nothing_is_lost_all_formulas_agree(seed: int) -> None:
    """Without interruptions a job that runs works: every ETTR is 1, in each bucket, each hour and the whole."""
    made, history = replayed(random_records(seed, 30), policy="fifo-backfill")
    assert run_ettr(made.engine.jobs) == pytest.approx(1.0)
    assert worst_ettr(history) == pytest.approx(1.0)
    found = time_series(history, step=50.0)
    for ettr in (found.ettr, found.ettr_hour, found.ettr_so_far):
        assert ettr[np.isfinite(ettr)] == pytest.approx(1.0)


@examples(10)
@given(seed=SEEDS)
def test_a_window_of_the_whole_run_is_the_whole_run(seed: int) -> None:
    """Sliding over everything, cumulative to the end and the single bucket are one number."""
    _, history = disturbed(seed, policy="fifo")
    whole = sliding_ettr(history, np.array([history.length]), window=10 * history.length)[0]
    assert whole == pytest.approx(time_series(history, step=77.0).ettr_so_far[-1])
    assert whole == pytest.approx(time_series(history, edges=np.array([0.0, history.length])).ettr[0])
    assert worst_ettr(history, window=10 * history.length) == pytest.approx(whole)


def test_no_job_no_ettr() -> None:
    """A run that has not begun has nothing of which to take a ratio."""
    made, _ = replayed([JobRecord("a", 0.0, 10.0, 8)], racks(1), policy="fifo")
    assert run_ettr([]) is None
    assert run_ettr(made.engine.jobs) == 1.0


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=10))
@example(rows=[(1.0, 2.225073858507203e-309)])
def test_a_ratio_has_no_value_where_the_whole_is_rounding(rows: list[tuple[float, float]]) -> None:
    """Part over whole where the whole is more than a billionth of the largest; NaN elsewhere, and never an error."""
    part, whole = (np.array([row[i] for row in rows]) for i in range(2))
    found = ratio(part, whole)
    sound = whole > max(1e-9 * whole.max(), 1e-150)
    assert found[sound].tolist() == (part[sound] / whole[sound]).tolist()
    assert np.isnan(found[~sound]).all()


@examples(6)
@given(seed=SEEDS)
def test_a_summary_agrees_with_its_jobs(seed: int) -> None:
    """Numbers of jobs, of attempts that were cut short and of waits are those that the engine's jobs tell."""
    made, history = disturbed(seed)
    summary = run_summary(history)
    jobs = made.engine.jobs
    assert summary.completed == summary.jobs == len(jobs)
    assert summary.failures + summary.preemptions == sum(len(job.runs) for job in jobs)
    assert summary.makespan_seconds == pytest.approx(max(job.end for job in jobs) - jobs[0].submitted)
    assert summary.wait_seconds is not None
    assert summary.wait_seconds.mean == pytest.approx(sum(job.first_start - job.submitted for job in jobs) / len(jobs))
    assert summary.goodput is not None
    assert summary.utilization is not None
    # What of the cluster was held is more than what of it was work: the rest was lost or spent on restarts.
    assert summary.goodput <= summary.utilization + 1e-12
    assert summary.allocation is not None
    assert summary.utilization <= summary.allocation + 1e-12 <= 1.0 + 1e-9


def test_a_log_passes_on_what_the_recovery_says() -> None:
    """The log stands before the recovery: the run is the same with and without, and it keeps what was cut short."""
    made, history = disturbed(7)
    log = made.engine.cluster.recovery
    cut = sum(len(job.runs) for job in made.engine.jobs)
    assert cut > 0
    assert len(log.cut_short) == cut
    for one in log.cut_short:
        job = made.engine.jobs[one.key]
        assert (one.begin, one.end) in job.runs
        # Half of the work that was done is safe: see KeepsHalf.
        assert one.kept == pytest.approx(min(one.done / 2, job.record.duration))
    again = log_attempts(made.engine)
    again.restore(log.state())
    assert again.cut_short == log.cut_short
    assert {one.key: again.kept(one.key) for one in log.cut_short} == {
        one.key: log.kept(one.key) for one in log.cut_short
    }
    assert history.attempts.why.tolist().count(0) == len(made.engine.jobs)
