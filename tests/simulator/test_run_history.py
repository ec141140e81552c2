"""The history of a run says what its jobs and nodes did, and nothing else."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.history import ENDED, RunHistory, Spans
from simulator.hooks import Incident
from simulator.job_record import JobRecord
from simulator.sim_job import UNITS, JobState
from tests.case_counts import examples
from tests.simulator.clusters import racks
from tests.simulator.disturbed import NODES, disturbed
from tests.simulator.replays import replayed

SEEDS = st.integers(0, 10_000)
TINY = 1e-6
"""Seconds by which times may differ after they were moved to the origin of the run."""


def spans_of(spans: Spans, number: int) -> list[tuple[float, float]]:
    """Intervals of one job or node, in order."""
    chosen = spans.number == number
    return sorted(zip(spans.begin[chosen].tolist(), spans.end[chosen].tolist(), strict=True))


def attempts_of(history: RunHistory, job: int) -> list[tuple[float, float]]:
    """Intervals in which a job held nodes, in order."""
    chosen = history.attempts.job == job
    return sorted(zip(history.attempts.begin[chosen].tolist(), history.attempts.end[chosen].tolist(), strict=True))


@examples(10)
@given(seed=SEEDS)
def test_waits_and_attempts_tile_the_life_of_a_job(seed: int) -> None:
    """From its submission to its end a job waits or holds nodes, never both and never neither."""
    made, history = disturbed(seed)
    for job in made.engine.jobs:
        pieces = sorted(spans_of(history.waits, job.key) + attempts_of(history, job.key))
        assert pieces[0][0] == pytest.approx(job.submitted - history.origin, abs=TINY)
        assert pieces[-1][1] == pytest.approx(job.end - history.origin, abs=TINY)
        assert all(before[1] == pytest.approx(after[0], abs=TINY) for before, after in pairwise(pieces))


@examples(10)
@given(seed=SEEDS)
def test_attempts_are_those_of_the_jobs(seed: int) -> None:
    """As many as starts, of the job's GPUs; the last ends by itself; presence is from the first start to the end."""
    made, history = disturbed(seed)
    attempts = history.attempts
    assert len(attempts) == sum(len(job.runs) + 1 for job in made.engine.jobs)
    for job in made.engine.jobs:
        mine = np.flatnonzero(attempts.job == job.key)
        assert attempts.gpus[mine].tolist() == [job.units / UNITS] * len(mine)
        last = mine[np.argmax(attempts.end[mine])]
        assert attempts.why[last] == ENDED
        assert (attempts.why[mine] == ENDED).sum() == 1
        (present,) = spans_of(history.present, job.key)
        assert present == pytest.approx((job.first_start - history.origin, job.end - history.origin), abs=TINY)


@examples(10)
@given(seed=SEEDS)
def test_an_attempt_works_after_its_delay_and_counts_no_longer_than_it_works(seed: int) -> None:
    """Begin, work, work that counts and end come in this order, and a second of work takes at least one."""
    _, history = disturbed(seed)
    attempts = history.attempts
    assert (attempts.begin <= attempts.works).all()
    assert (attempts.works <= attempts.counts + TINY).all()
    assert (attempts.counts <= attempts.end + TINY).all()
    assert (attempts.end <= history.length + TINY).all()
    # There is no model of communication in these runs: work is as fast as in the trace.
    assert attempts.pace[np.isfinite(attempts.pace)] == pytest.approx(1.0)


@examples(10)
@given(seed=SEEDS)
def test_no_node_holds_more_than_it_has_and_none_works_while_it_is_away(seed: int) -> None:
    """Looked at in the middle between any two changes."""
    _, history = disturbed(seed)
    attempts = history.attempts
    places = [attempts.places[a:b] for a, b in pairwise(attempts.first.tolist())]
    edges = np.unique(np.concatenate([attempts.begin, attempts.end, history.away.begin, history.away.end]))
    # Moments closer than this are one instant, moved to the origin by another rounding.
    middles = [(a + b) / 2 for a, b in pairwise(edges.tolist()) if b - a > TINY]
    for middle in middles:
        held = np.zeros(NODES)
        for i in np.flatnonzero((attempts.begin <= middle) & (middle < attempts.end)):
            held[places[i]] += attempts.each[i]
        assert (held <= history.usable + TINY).all()
        away = history.away.number[(history.away.begin <= middle) & (middle < history.away.end)]
        assert not held[away].any()


@examples(5)
@given(seed=SEEDS, shift=st.sampled_from([3600.0, 86_400.0]))
def test_a_history_counts_from_the_first_submission(seed: int, shift: float) -> None:
    """A run that begins hours later has the same history, at another origin."""
    _, early = disturbed(seed)
    _, late = disturbed(seed, shift=shift)
    assert late.origin - early.origin == pytest.approx(shift)
    assert late.length == pytest.approx(early.length)
    for name in ("job", "begin", "works", "counts", "end", "gpus", "why", "places"):
        assert getattr(late.attempts, name) == pytest.approx(getattr(early.attempts, name), abs=1e-4), name


def test_gpus_that_are_only_counted_have_no_places() -> None:
    """Without placement there are attempts and waits, and neither nodes nor spread."""
    records = [JobRecord("a", 0.0, 10.0, 16), JobRecord("b", 0.0, 10.0, 16)]
    made, history = replayed(records, racks(2), policy="fifo", algorithm="none")
    assert history.cluster is None
    assert history.usable.size == history.attempts.places.size == 0
    assert history.attempts.first.tolist() == [0, 0, 0]
    assert history.attempts.dp.tolist() == [0, 0]
    assert spans_of(history.waits, 1) == [(0.0, 10.0)]
    assert all(job.state is JobState.DONE for job in made.engine.jobs)


def test_a_node_that_never_comes_back_is_away_to_the_end() -> None:
    """Two failures of one node, the second without a repair; what happens after the last end is no part of the run."""
    incidents = [
        Incident(10.0, "down", 1),
        Incident(30.0, "up", 1),
        Incident(50.0, "down", 1),
        Incident(500.0, "down", 0),
    ]
    _, history = replayed([JobRecord("a", 0.0, 100.0, 8)], racks(2), policy="fifo", incidents=incidents)
    assert spans_of(history.away, 1) == [(10.0, 30.0), (50.0, history.length)]
    assert spans_of(history.away, 0) == []
