"""Metrics on traces made from a seed: known factors come out, and shortcuts change no number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from health.whatif import analyse, prepare, timelines_of
from health.whatif.analysis_result import TracedWorker
from health.whatif.graph import build_graph
from health.whatif.optypes import BACKWARD, FORWARD
from health.whatif.replay import step_seconds
from health.whatif.synthetic import make_trace
from tests.case_counts import examples
from tests.health.whatif.recipes import Recipe

recipes = st.builds(
    Recipe,
    dp=st.integers(1, 4),
    pp=st.integers(1, 3),
    vpp=st.just(1),
    microbatches=st.integers(1, 5),
    steps=st.integers(1, 3),
    seed=st.integers(0, 99),
    noise=st.sampled_from([0.0, 0.02, 0.3]),
    last_stage=st.sampled_from([1.0, 1.6]),
    uneven=st.sampled_from([0.0, 0.5]),
    overlap=st.booleans(),
)


def test_same_seed_same_trace() -> None:
    """A recipe is a trace: equal seeds give equal times, other seeds others."""
    one, same, other = (make_trace(Recipe(seed=seed)) for seed in (1, 1, 2))
    assert (one.start == same.start).all()
    assert not (one.start == other.start).all()


def test_analyses_of_equal_sizes_differ() -> None:
    """Jobs of the same sizes have other numbers: an analysis equals itself alone, in sets too; its arrays decide no
    equality.
    """
    one, other = (analyse(prepare(make_trace(Recipe(seed=seed)))) for seed in (1, 2))
    assert one != other
    assert len({one, other, one}) == 2


@examples(20)
@given(recipe=recipes)
def test_replay_gives_the_trace_back(recipe: Recipe) -> None:
    """A trace that obeys the graph is replayed to its own times: waiting is told from working without loss."""
    trace = make_trace(recipe)
    lines = timelines_of(prepare(trace))
    np.testing.assert_allclose(lines.simulated.end, lines.traced.end, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(lines.simulated.start, lines.traced.start, rtol=1e-9, atol=1e-9)


@examples(20)
@given(recipe=recipes)
def test_one_rank_standing_for_all_others_changes_nothing(recipe: Recipe) -> None:
    """S_w from arrays [rank, (itself, any other), step] equals S_w replayed worker by worker over all ranks."""
    replayed = prepare(make_trace(recipe))
    analysis, durations = analyse(replayed), replayed.durations
    stage = np.array([operation.stage for operation in replayed.trace.operations])
    for rank in range(recipe.dp):
        for s in range(recipe.pp):
            mixed = np.broadcast_to(durations.ideal[:, None, None], durations.traced.shape).copy()
            mixed[stage == s, rank] = durations.traced[stage == s, rank]
            seconds = np.broadcast_to(step_seconds(replayed.graph, mixed.__getitem__), (recipe.steps,))
            expected = seconds.mean() / analysis.ideal_step_seconds
            assert analysis.worker_slowdown[rank, s] == pytest.approx(expected, rel=1e-12)


@examples(20)
@given(
    factor=st.sampled_from([1.1, 1.25, 1.5]),
    microbatches=st.integers(4, 12),
    stage=st.integers(0, 3),
    dp=st.integers(1, 3),
)
def test_what_one_slow_worker_costs(factor: float, microbatches: int, stage: int, dp: int) -> None:
    """A factor f on the last stage costs the job (f-1) m/(m+p-1), whatever the DP width: the rule of thumb, exactly.

    A worker k stages before the last costs k microbatches less, which it makes up for while the pipeline fills.
    """
    trace = make_trace(Recipe(dp=dp, pp=4, microbatches=microbatches, steps=1))

    def duration(i: int) -> NDArray[np.float64]:
        operation = trace.operations[i]
        seconds = np.full((dp, 1), {FORWARD: 1.0, BACKWARD: 2.0}.get(operation.optype, 0.0))
        seconds[0] *= factor if operation.stage == stage else 1.0
        return seconds

    slowdown = float(step_seconds(build_graph(trace), duration)[0]) / (3 * (microbatches + 3))
    assert slowdown == pytest.approx(1 + (factor - 1) * (microbatches - (3 - stage)) / (microbatches + 3))


def test_ideal_is_the_mean_of_compute_and_the_median_of_transfers() -> None:
    """One slow worker of 16 raises ideal compute by its share and leaves ideal transfers alone."""
    trace = make_trace(Recipe(dp=4, pp=4, noise=0.0, slow={(0, 0): 3.0}))
    durations = prepare(trace).durations
    ideal = {operation.optype: durations.ideal[place] for place, operation in enumerate(trace.operations)}
    # 15 workers at 1 and one at 3, all with as many passes: the mean is 18/16.
    assert ideal[FORWARD] == pytest.approx(0.1 * 18 / 16)
    assert ideal[BACKWARD] == pytest.approx(0.2 * 18 / 16)
    assert ideal["forward-send"] == pytest.approx(0.001)


def test_waste_follows_from_slowdown() -> None:
    """Waste is 1 - 1/S, S is T over T_ideal, and steps average to S."""
    analysis = analyse(prepare(make_trace(Recipe(slow={(1, 1): 2.0}))))
    assert analysis.slowdown == pytest.approx(analysis.step_seconds / analysis.ideal_step_seconds)
    assert analysis.waste == pytest.approx(1 - 1 / analysis.slowdown)
    assert analysis.step_slowdown.mean() == pytest.approx(analysis.slowdown)
    assert analysis.replay_error == pytest.approx(0.0, abs=1e-12)


def test_slowest_three_per_cent_are_rounded_up() -> None:
    """Of 4 x 9 = 36 workers 1.08 are the slowest 3 %: two, and they are the two that were slowed.

    min(S_dp, S_pp) takes (7, 0) or (3, 2) for slow, where a slow rank crosses a slow stage; S_w itself does not.
    """
    recipe = Recipe(dp=9, pp=4, steps=2, microbatches=16, slow={(3, 0): 1.8, (7, 2): 1.8})
    analysis = analyse(prepare(make_trace(recipe)))
    assert analysis.slowest is not None
    assert set(analysis.slowest.workers) == {TracedWorker(3, 0), TracedWorker(7, 2)}
    assert not analysis.slowest.published
    assert analysis.slowest.share > 0.9
    assert analysis.m_w is not None
    assert analysis.m_w < 0.5, "M_W keeps the published ranking"
    assert analysis.cause == "worker"


def test_of_equal_workers_the_lowest_rank_counts() -> None:
    """Under min(S_dp, S_pp) workers are often equal: as published, those of the lowest global rank are taken.

    A rank with long sequences is slow in all stages; of its workers that of stage 0 has the lowest rank.
    """
    recipe = Recipe(dp=4, pp=4, steps=2, uneven=0.4, seed=3)
    analysis = analyse(prepare(make_trace(recipe)))
    approximate = analysis.worker_slowdown_approximate
    tied = np.argwhere(approximate == approximate.max())
    assert len(tied) > 1
    assert analysis.slowest is not None
    lowest = min(((int(d), int(s)) for d, s in tied), key=lambda worker: worker[::-1])
    assert analysis.slowest.workers == (TracedWorker(*lowest),)


def test_below_threshold_nothing_is_attributed() -> None:
    """Below S = 1.03 there is no M_W, no M_S and no cause."""
    analysis = analyse(prepare(make_trace(Recipe(noise=0.001))))
    assert analysis.slowdown < 1.03
    assert (analysis.m_w, analysis.m_s, analysis.cause) == (None, None, "none")


def test_timelines_of_chosen_steps() -> None:
    """Asked for one step, all three timelines hold that step alone, and nothing ends before it begins."""
    replayed = prepare(make_trace(Recipe(dp=2, pp=2, steps=3)))
    lines = timelines_of(replayed, [2])
    for line in (lines.traced, lines.simulated, lines.ideal):
        assert line.steps == (2,)
        assert line.start.shape == line.end.shape == (len(replayed.trace.operations), 2, 1)
        assert (line.end >= line.start).all()
