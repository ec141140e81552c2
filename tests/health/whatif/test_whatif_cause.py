"""The cause, rule by rule in its order, and who is blamed for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from health.whatif import analyse, flags_of, help_for, notes_on, prepare, slow_workers, verdict
from health.whatif.analysis import forward_backward_correlation
from health.whatif.blame import suspects
from health.whatif.optypes import BACKWARD, FORWARD
from health.whatif.synthetic import make_trace
from tests.facts import says
from tests.health.whatif.recipes import Recipe

WIDE = {(rank, stage): f"n{stage}-{rank}" for rank in range(8) for stage in range(4)}
"""A node for every worker."""

INNOCENT = [
    (Recipe(noise=0.001), "none"),
    (Recipe(last_stage=1.5), "last-stage"),
    (Recipe(uneven=0.4, seed=3), "sequence-length"),
    (Recipe(pauses=0.02, steps=20), "garbage-collection"),
    (Recipe(noise=0.4), "unknown"),
]
"""Jobs that no node slows, and the cause that must be found."""


@pytest.mark.parametrize(("microbatches", "cause"), [(1, "unknown"), (3, "unknown"), (4, "sequence-length")])
def test_few_microbatches_are_not_uneven(microbatches: int, cause: str) -> None:
    """The same uneven work: of fewer than four microbatches a step nothing is said of their lengths."""
    recipe = Recipe(pp=1, dp=8, uneven=0.4, microbatches=microbatches, steps=20, seed=3)
    assert analyse(prepare(make_trace(recipe))).cause == cause


@pytest.mark.parametrize(("recipe", "cause"), INNOCENT, ids=[cause for _, cause in INNOCENT])
def test_no_node_is_blamed_for_what_it_did_not_do(recipe: Recipe, cause: str) -> None:
    """Each cause is recognised, none of these flags anybody, and each but `none` says what would help instead."""
    replayed = prepare(make_trace(recipe))
    analysis = analyse(replayed)
    assert analysis.cause == cause
    assert slow_workers(replayed, analysis) == ()
    assert flags_of((), analysis) == []
    advice = help_for(replayed, analysis, ())
    assert bool(advice) == (cause != "none")
    assert all("flagged" in sentence for sentence in advice[1:])


@pytest.mark.parametrize("factor", [1.15, 1.5, 2.0])
@pytest.mark.parametrize(("dp", "pp", "vpp"), [(4, 4, 1), (8, 1, 1), (4, 2, 2)])
def test_the_slow_worker_is_found_with_its_own_factor(factor: float, dp: int, pp: int, vpp: int) -> None:
    """The flag has the worker's factor within 2 %, not the job's slowdown, and names the worker's node alone."""
    recipe = Recipe(dp=dp, pp=pp, vpp=vpp, microbatches=8, slow={(2, pp - 1): factor}, seed=5)
    replayed = prepare(make_trace(recipe))
    analysis = analyse(replayed)
    assert analysis.cause == "worker"
    flags = flags_of(slow_workers(replayed, analysis, WIDE), analysis)
    assert [flag.node for flag in flags] == [f"n{pp - 1}-2"]
    assert flags[0].slowdown == pytest.approx(factor, rel=0.02)
    assert flags[0].slowdown > analysis.slowdown
    assert (flags[0].kind, flags[0].source) == ("straggler", "what-if")
    assert f"dp 2 / stage {pp - 1}" in verdict(analysis)


@pytest.mark.parametrize(("dp", "pp", "replaced"), [(2, 1, False), (3, 1, False), (2, 2, True), (4, 1, True)])
def test_of_fewer_than_four_workers_none_is_to_be_replaced(dp: int, pp: int, replaced: bool) -> None:
    """Two or three workers leave open which is unusual: the advice is to measure; from four on it is to replace."""
    replayed = prepare(make_trace(Recipe(dp=dp, pp=pp, microbatches=8, slow={(1, 0): 1.5}, seed=5)))
    analysis = analyse(replayed)
    (advice,) = help_for(replayed, analysis, slow_workers(replayed, analysis, WIDE))
    assert analysis.cause == "worker"
    assert "dp 1 / stage 0" in advice
    assert advice.startswith("Replace the nodes") == replaced
    assert (says(advice, "not known which")) == (not replaced)


def test_a_node_of_two_slow_workers_has_one_flag() -> None:
    """Two workers on one node are one flag with the larger factor; a worker without a node flags nobody."""
    recipe = Recipe(dp=9, pp=4, microbatches=4, slow={(3, 0): 1.8, (4, 0): 1.6})
    replayed = prepare(make_trace(recipe))
    analysis = analyse(replayed)
    workers = slow_workers(replayed, analysis)
    assert {(worker.dp, worker.stage) for worker in workers} == {(3, 0), (4, 0)}
    flags = flags_of(slow_workers(replayed, analysis, {(3, 0): "shared", (4, 0): "shared"}), analysis)
    assert [flag.node for flag in flags] == ["shared"]
    assert says(flags[0].evidence, "dp 3 / stage 0, dp 4 / stage 0")
    assert "up to 1.8" in flags[0].evidence
    assert flags[0].slowdown == pytest.approx(1.8, rel=0.02)
    assert flags_of(workers, analysis) == []


def test_the_verdict_in_words() -> None:
    """One worker explains, several explain; a job without stragglers loses nothing, and one below the limit little."""
    # 3 % of 36 workers are two, of 2 x 2 one.
    two = Recipe(dp=9, pp=4, microbatches=4, slow={(3, 0): 1.8, (4, 0): 1.8})
    assert says(verdict(analyse(prepare(make_trace(two)))), "2 workers", "dp 3 / stage 0", "dp 4 / stage 0")
    one = Recipe(dp=2, pp=2, slow={(1, 0): 1.8})
    assert "; one worker, dp 1 / stage 0, explains " in verdict(analyse(prepare(make_trace(one))))
    healthy = analyse(prepare(make_trace(Recipe(noise=0.001))))
    assert says(verdict(healthy), "loses nothing", "S = 1.00")
    assert says(verdict(replace(healthy, slowdown=1.0249)), "next to nothing", "S = 1.02")


@pytest.mark.parametrize(
    "slow",
    [
        {(2, 1): 1.5, (5, 3): 1.3},
        {(0, 0): 1.4, (1, 1): 1.4, (2, 2): 1.4},
        {(3, 2): 1.5, (6, 2): 1.5},
        {(4, 0): 1.5, (4, 3): 1.5},
    ],
    ids=["two", "three alike", "two of a stage", "two of a rank"],
)
def test_several_slow_workers_are_found_together(slow: dict[tuple[int, int], float]) -> None:
    """Any of these ideal leaves the others, and M_W of 32 workers asks about one: together they explain the loss."""
    replayed = prepare(make_trace(Recipe(dp=8, pp=4, slow=slow)))
    analysis = analyse(replayed)
    assert analysis.cause == "worker"
    assert analysis.m_w is not None
    assert analysis.m_w < 0.5
    assert analysis.slowest is not None
    assert analysis.slowest.share > 0.9
    assert not analysis.slowest.published
    assert says(analysis.why, f"{len(slow)} workers")
    found = {(worker.dp, worker.stage): worker.factor for worker in slow_workers(replayed, analysis)}
    assert found == pytest.approx(slow, rel=0.02)


@pytest.mark.parametrize(
    "slow",
    [{(2, stage): 1.4 for stage in range(4)}, {(rank, 2): 1.4 for rank in range(4)}],
    ids=["longer sequences on one rank", "half of a stage"],
)
def test_slow_workers_that_no_peer_can_convict_are_not_flagged(slow: dict[tuple[int, int], float]) -> None:
    """A rank that is slow in all stages has more work; half of a stage is no worse than the other half is good."""
    replayed = prepare(make_trace(Recipe(dp=8, pp=4, slow=slow)))
    analysis = analyse(replayed)
    assert analysis.cause == "unknown"
    assert slow_workers(replayed, analysis) == ()


@pytest.mark.parametrize(("dp", "pp", "cause"), [(8, 4, "unknown"), (20, 2, "worker")])
def test_a_rank_with_more_work_is_named_as_such(dp: int, pp: int, cause: str) -> None:
    """Of 40 workers M_W asks about two, and a rank of two stages is all of them: the words say what else it can be."""
    replayed = prepare(make_trace(Recipe(dp=dp, pp=pp, slow={(2, stage): 1.4 for stage in range(pp)})))
    analysis = analyse(replayed)
    assert analysis.cause == cause
    assert slow_workers(replayed, analysis) == ()
    assert any("dp 2 computes 1.40x" in sentence for sentence in help_for(replayed, analysis, ()))


def test_convicted_workers_do_not_drag_half_a_stage_along() -> None:
    """Beside half a slow stage one worker elsewhere is convicted; those that slow the job as much are suspects only."""
    slow = {(rank, 2): 1.2 for rank in range(4)} | {(7, 0): 2.0}
    replayed = prepare(make_trace(Recipe(dp=8, pp=4, slow=slow)))
    analysis = analyse(replayed)
    assert analysis.cause == "worker"
    assert [(worker.dp, worker.stage) for worker in slow_workers(replayed, analysis)] == [(7, 0)]
    assert {(worker.dp, worker.stage) for worker in suspects(replayed, analysis)} == set(slow)


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_without_peers_the_stage_is_the_cause(stage: int) -> None:
    """With one data-parallel rank a slow worker is the same as a stage with more work: said so, and no flag."""
    replayed = prepare(make_trace(Recipe(dp=1, slow={(0, stage): 1.5})))
    analysis = analyse(replayed)
    assert analysis.cause == "stage"
    assert f"stage {stage} explains" in verdict(analysis)
    assert "cannot be told" in verdict(analysis)
    assert slow_workers(replayed, analysis, WIDE) == ()
    assert help_for(replayed, analysis, ())[1].startswith("No node is flagged")


def test_slow_in_one_step_of_ten_is_no_flag() -> None:
    """A worker that is 8 times slower in one step explains the loss, is not flagged, and the words say so."""
    replayed = prepare(make_trace(Recipe()))
    seconds = replayed.durations.traced.copy()
    for place, operation in enumerate(replayed.trace.operations):
        if operation.stage == 1 and operation.optype in (FORWARD, BACKWARD):
            seconds[place, 2, 4] *= 8.0
    replayed = replayed._replace(durations=replace(replayed.durations, traced=seconds))
    analysis = analyse(replayed)
    assert analysis.cause == "worker"
    assert slow_workers(replayed, analysis) == ()
    assert says(help_for(replayed, analysis, ())[0], "10% of the steps")


def test_slow_in_one_step_of_two_is_no_flag() -> None:
    """Half of the steps are not most of them, though the median of two steps is half way to the slow one."""
    replayed = prepare(make_trace(Recipe(steps=2)))
    seconds = replayed.durations.traced.copy()
    for place, operation in enumerate(replayed.trace.operations):
        if operation.stage == 1 and operation.optype in (FORWARD, BACKWARD):
            seconds[place, 2, 1] *= 2.0
    replayed = replayed._replace(durations=replace(replayed.durations, traced=seconds))
    analysis = analyse(replayed)
    assert analysis.cause == "worker"
    assert slow_workers(replayed, analysis) == ()


def test_slow_last_stage_of_one_rank_is_the_stage() -> None:
    """The last stage of a job of one rank is its slowest worker too; the stage is the better explanation."""
    analysis = analyse(prepare(make_trace(Recipe(dp=1, last_stage=1.6))))
    assert analysis.cause == "last-stage"
    assert "cannot be told" in help_for(prepare(make_trace(Recipe(dp=1, last_stage=1.6))), analysis, ())[1]


def test_slow_workers_do_not_look_like_sequences() -> None:
    """A slow worker lengthens both directions; measured by its own mean it does not correlate, sequences do."""
    slow, uneven = (
        forward_backward_correlation(prepare(make_trace(recipe)))
        for recipe in (Recipe(slow={(0, 0): 3.0}), Recipe(uneven=0.3))
    )
    assert abs(slow) < 0.3
    assert uneven > 0.95


def test_notes_warn_where_belief_should_be_weak() -> None:
    """Few steps and sizes without metadata are said."""
    replayed = prepare(make_trace(Recipe(steps=2)))
    notes = notes_on(replayed, analyse(replayed))
    assert any("Only 2 steps" in note for note in notes)


def test_steps_of_many_minutes_are_said() -> None:
    """Milliseconds in place of seconds make a step last long: what the numbers are taken for is noted."""
    trace = make_trace(Recipe())
    assert not says(notes_on(prepare(trace), analyse(prepare(trace))), "seconds")
    late = prepare(replace(trace, start=trace.start * np.float32(1e3), duration=trace.duration * np.float32(1e3)))
    assert says(notes_on(late, analyse(late)), "seconds", "milliseconds", " min")
