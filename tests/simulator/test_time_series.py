"""A run over time adds up to the run: series are exact means, not samples."""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from arnold.pages.replay_page import AWAY, frames
from simulator.history import FAILURE, PREEMPTION
from simulator.hooks import Incident
from simulator.job_record import JobRecord
from simulator.results import bucket_length, edges_of, integrals, run_summary, sliding_ettr, time_series, worst_ettr
from tests.case_counts import examples
from tests.simulator.clusters import racks
from tests.simulator.disturbed import disturbed
from tests.simulator.replays import KeepsHalf, Twice, random_records, replayed
from tests.simulator.runs import log_attempts

INTERVAL = st.tuples(st.floats(0, 90), st.floats(0, 20), st.integers(1, 9))


@examples(40)
@given(rows=st.lists(INTERVAL, max_size=8), step=st.floats(3, 50))
def test_integrals_are_those_of_a_sum_by_hand(rows: list[tuple[float, float, int]], step: float) -> None:
    """Each bucket has the overlap of each interval, times its weight."""
    edges = edges_of(100.0, step)
    begin, length, weight = (np.array([row[i] for row in rows], dtype=np.float64) for i in range(3))
    by_hand = [
        sum(w * max(0.0, min(b + n, high) - max(b, low)) for b, n, w in rows) for low, high in pairwise(edges.tolist())
    ]
    assert integrals(edges, begin, begin + length, weight) == pytest.approx(by_hand, abs=1e-6)


@examples(12)
@given(seed=st.integers(0, 10_000), policy=st.sampled_from(["fifo", "fifo-backfill", "priority-preempt"]))
def test_the_series_add_up_to_the_summary(seed: int, policy: str) -> None:
    """Utilization, fragmentation and ETTR of all buckets together are those that the run itself reports."""
    _, history = replayed(random_records(seed), policy=policy)
    found = time_series(history, step=70.0)
    width = np.diff(found.edges)
    summary = run_summary(history)
    assert (found.utilization * width).sum() / width.sum() == pytest.approx(summary.utilization, rel=1e-9)
    assert found.ettr_so_far[-1] == pytest.approx(summary.ettr, rel=1e-9)
    free = (history.capacity - found.gpus_held - found.gpus_away) * width
    broken = np.nansum(found.fragmentation * free)
    assert broken / free.sum() == pytest.approx(summary.fragmentation, rel=1e-6)
    assert found.utilization.max() <= 1.0
    assert found.jobs_submitted.sum() == found.jobs_ended.sum() == summary.jobs


@examples(8)
@given(seed=st.integers(0, 10_000))
def test_waiting_adds_up_to_the_waits(seed: int) -> None:
    """Without interruptions the area below the queue is the sum of all waits."""
    made, history = replayed(random_records(seed), policy="fifo", algorithm="none")
    found = time_series(history, step=50.0)
    waits = sum(job.first_start - job.submitted for job in made.engine.jobs)
    assert (found.jobs_waiting * np.diff(found.edges)).sum() == pytest.approx(waits, abs=1e-3)
    assert np.isnan(found.fragmentation).all()
    assert not found.gpus_away.any()


def test_a_failure_is_seen_where_it_happened() -> None:
    """One job of two nodes is hit after 100 of 400 seconds, keeps 50, waits until 300 and works again from 330 on.

    350 seconds of work are left, so it ends at 680.  Work that counts: 50 and 350 seconds in 680, so ETTR is 400/680.
    """
    records = [JobRecord("hit", 0.0, 400.0, 16)]
    events = [Incident(100.0, "down", 0), Incident(300.0, "up", 0)]
    made, history = replayed(records, racks(2), incidents=events, recovery=KeepsHalf(30.0))
    found = time_series(history, edges=np.array([0.0, 100.0, 300.0, 330.0, 680.0]))
    assert made.engine.jobs[0].end == 680.0
    assert history.attempts.why.tolist() == [FAILURE, 0]
    assert found.gpus_away.tolist() == [0.0, 8.0, 0.0, 0.0]
    assert found.gpus_held.tolist() == [16.0, 0.0, 16.0, 16.0]
    assert found.allocation.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert found.jobs_waiting.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert found.ettr == pytest.approx([0.5, 0.0, 0.0, 1.0])
    assert found.ettr_so_far[-1] == pytest.approx(400 / 680) == run_summary(history).ettr
    assert found.failures.sum() == 1
    # From 50 to 330 nothing counts: a window of 300 s around that has 20 s that do.
    assert worst_ettr(history, window=300.0) == pytest.approx(20 / 300)
    assert sliding_ettr(history, np.array([350.0, 600.0]), window=300.0) == pytest.approx([20 / 300, 270 / 300])
    assert worst_ettr(history) == pytest.approx(400 / 680)  # the run is shorter than an hour
    assert run_summary(history).goodput == pytest.approx(16 * 400 / (16 * 680))
    view = frames(history, 68)
    assert view.share[15].tolist() == [AWAY, 0]
    assert view.owner[5].tolist() == [1, 1]


@examples(12)
@given(seed=st.integers(0, 10_000), window=st.floats(100, 400))
def test_no_window_is_worse_than_the_worst(seed: int, window: float) -> None:
    """Of a run with failures, the least over a fine grid of windows is never below the worst, and comes near it."""
    rng = Random(seed)
    times = sorted(rng.uniform(0, 900) for _ in range(8))
    incidents = [Incident(time, "up" if i % 2 else "down", 0) for i, time in enumerate(times)]
    _, history = replayed(random_records(seed, 30), racks(4), incidents=incidents, recovery=KeepsHalf(5.0))
    worst = worst_ettr(history, window=window)
    at = np.linspace(min(window, history.length), history.length, 4001)
    found = sliding_ettr(history, at, window=window)
    assert worst is not None
    assert worst <= np.nanmin(found) + 1e-9
    assert worst == pytest.approx(np.nanmin(found), abs=0.02)


def test_spread_and_what_it_costs_are_exact() -> None:
    """A gang on two pods takes twice as long: half of its throughput is lost while it runs, nothing else is."""
    records = [JobRecord("small", 0.0, 100.0, 8), JobRecord("wide", 0.0, 50.0, 24 * 8)]
    made, history = replayed(records, racks(32, racks_per_pod=4), pace=Twice())
    wide = made.engine.jobs[1]
    assert wide.spread is not None
    assert wide.spread[0] == 2
    found = time_series(history, edges=np.array([0.0, 100.0]))
    # 192 GPUs for 100 s at half pace, 8 GPUs for 100 s at full pace.
    assert found.throughput_lost[0] == pytest.approx(96 * 2 / (192 + 8) / 2)
    assert found.dp_spread[0] == 2.0


def test_preemptions_are_told_from_failures() -> None:
    """A job that makes room for a more important one counts as preempted, with the places it had."""
    records = [JobRecord("low", 0.0, 300.0, 8, preemptible=True), JobRecord("high", 50.0, 100.0, 8, priority=9)]
    _, history = replayed(records, racks(1), policy="priority-preempt")
    cut = history.attempts.why == PREEMPTION
    assert history.attempts.job[cut].tolist() == [0]
    assert history.attempts.end[cut].tolist() == [50.0]
    assert np.diff(history.attempts.first).tolist() == [1, 1, 1]


def test_a_log_of_attempts_survives_a_checkpoint() -> None:
    """What it noted is JSON, and the same after it was read again."""
    records = [JobRecord("hit", 0.0, 400.0, 16)]
    events = [Incident(100.0, "down", 0), Incident(300.0, "up", 0)]
    made, _ = replayed(records, racks(2), incidents=events, recovery=KeepsHalf(30.0))
    states = [part.state() for part in made.engine.kept]
    fresh, _ = replayed(records, racks(2))
    log = log_attempts(fresh.engine)
    log.restore(json.loads(json.dumps(states[-1])))
    assert log.state() == states[-1]
    assert made.engine.seen == events
    assert log.kept(0) == 50.0


@pytest.mark.parametrize(
    ("length", "most", "step"), [(86_400.0, 480, 300.0), (3600.0, 60, 60.0), (9.0, 480, 0.1), (1e9, 10, 41 * 2_419_200)]
)
def test_buckets_have_round_lengths(length: float, most: int, step: float) -> None:
    """A day in 5-minute buckets, an hour in minutes; what is long beyond reason in multiples of 28 days."""
    found = bucket_length(length, most)
    assert found == pytest.approx(step, rel=0.05)
    assert length / found <= most


@examples(8)
@given(seed=st.integers(0, 10_000), fine=st.floats(15, 60), join=st.integers(2, 6))
def test_joined_buckets_are_the_mean_of_their_parts(seed: int, fine: float, join: int) -> None:
    """A bucket of several has the mean of means and the sum of counts of its parts, by width; whatever is summed."""
    _, history = disturbed(seed)
    parts = time_series(history, step=fine)
    coarse_edges = np.append(parts.edges[:-1:join], parts.edges[-1])
    coarse = time_series(history, edges=coarse_edges)
    starts = np.arange(0, len(parts.edges) - 1, join)
    width = np.diff(parts.edges)
    for name in ("gpus_held", "gpus_away", "jobs_running", "jobs_waiting", "gpus_waiting", "utilization"):
        summed = np.add.reduceat(getattr(parts, name) * width, starts)
        assert summed == pytest.approx(getattr(coarse, name) * np.diff(coarse_edges), abs=1e-3), name
    for name in ("jobs_submitted", "jobs_ended", "failures", "preemptions"):
        assert np.add.reduceat(getattr(parts, name), starts).tolist() == getattr(coarse, name).tolist(), name


@examples(8)
@given(seed=st.integers(0, 10_000), at=st.floats(0.02, 0.98))
def test_a_narrow_bucket_is_the_cluster_at_that_moment(seed: int, at: float) -> None:
    """Jobs that run and wait, GPUs held and away, counted one by one; where nothing changes inside the bucket."""
    _, history = disturbed(seed)
    attempts, waits, away = history.attempts, history.waits, history.away
    low = at * history.length
    edges = np.array([low, low + 1e-3])
    changes = np.concatenate([attempts.begin, attempts.end, waits.begin, waits.end, away.begin, away.end])
    assume(not ((changes > edges[0] - 1e-6) & (changes < edges[1] + 1e-6)).any())
    found = time_series(history, edges=edges)
    live = [i for i in range(len(attempts)) if attempts.begin[i] <= low < attempts.end[i]]
    assert found.jobs_running[0] == pytest.approx(len(live), abs=1e-6)
    assert found.gpus_held[0] == pytest.approx(sum(attempts.gpus[i] for i in live), abs=1e-4)
    waiting = [i for i in range(len(waits.number)) if waits.begin[i] <= low < waits.end[i]]
    assert found.jobs_waiting[0] == pytest.approx(len(waiting), abs=1e-6)
    gone = [int(n) for n, b, e in zip(away.number, away.begin, away.end, strict=True) if b <= low < e]
    assert found.gpus_away[0] == pytest.approx(sum(history.usable[n] for n in gone), abs=1e-4)
