"""The paper's program: its optimum in closed form, the same for every solver, with and without cuts."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.placement.mip import (
    ArnoldMip,
    Program,
    arnold_mip,
    arnold_mip_cuts,
    arnold_mip_highs,
    hand_out,
    solve,
    without_events_of_scip,
)
from scheduler.placement.types import Limits
from tests.case_counts import examples
from topology.generate import minipods, paper_cluster


def fewest(rooms: list[int], need: int) -> float:
    """Fewest of the rooms that add up to the need."""
    filled = np.cumsum(sorted(rooms, reverse=True))
    return float(np.argmax(filled >= need) + 1) if filled[-1] >= need else np.inf


def closed_form(program: Program) -> float:
    """The optimum where every minipod has room for a group: ``min(alpha*k1 + beta, alpha*k0 + 2*beta)``.

    k1 = fewest minipods that hold all groups whole, k0 = fewest that hold all nodes.  Filled to the brim one after
    another, minipods of at least L nodes split a group over two of them at most.
    """
    free = [int(room) for room in program.free]
    whole = fewest([room // program.length for room in free], program.groups)
    nodes = fewest(free, program.groups * program.length)
    wide, deep = program.weights
    return min(wide * whole + deep, wide * nodes + 2 * deep)


@st.composite
def programs(draw: st.DrawFn, *, roomy: bool) -> Program:
    """Small instances with room for the job; ``roomy``: every minipod holds a group."""
    length = draw(st.integers(1, 4))
    free = draw(
        st.lists(st.integers(length if roomy else 1, 9), min_size=1, max_size=4).filter(lambda x: sum(x) >= length)
    )
    groups = draw(st.integers(1, min(6, sum(free) // length)))
    alpha = draw(st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]))
    return Program(np.array(free, dtype=np.int32), groups, length, alpha, 1 - alpha)


@given(programs(roomy=True))
@examples(25)
def test_optimum_is_the_closed_form(program: Program) -> None:
    """SCIP proves exactly the value that the closed form predicts, alpha at 0 and 1 included."""
    solution = solve(program, solver="scip", cuts=False, seconds=30, seed=0)
    assert solution.proved
    assert solution.objective == pytest.approx(closed_form(program))


@given(programs(roomy=False))
@examples(25)
def test_solvers_and_cuts_agree(program: Program) -> None:
    """SCIP, HiGHS and SCIP with cuts prove the same optimum: the cuts remove no optimum."""
    worth = {
        solve(program, solver="scip", cuts=False, seconds=30, seed=0).objective,
        solve(program, solver="highs", cuts=False, seconds=30, seed=0).objective,
        solve(program, solver="scip", cuts=True, seconds=30, seed=0).objective,
    }
    assert max(worth) == pytest.approx(min(worth))


@given(programs(roomy=False))
@examples(25)
def test_solution_keeps_the_program(program: Program) -> None:
    """Counts are whole nodes, every group is placed, no minipod overflows, and the bound does not exceed the worth."""
    solution = solve(program, solver="scip", cuts=True, seconds=30, seed=0)
    assert solution.counts is not None
    assert (solution.counts.sum(axis=1) == program.length).all()
    assert (solution.counts.sum(axis=0) <= program.free).all()
    assert solution.bound <= solution.objective + 1e-6


@pytest.mark.parametrize(("alpha", "used"), [(0.0, 2), (1.0, 2)])
def test_a_term_without_weight_does_not_drift(alpha: float, used: int) -> None:
    """Two groups of two on rooms of 2, 2 and 2 use two minipods and split no group.

    With alpha = 0 the number of minipods does not count, with alpha = 1 a split does not: still neither drifts.
    """
    program = Program(np.array([2, 2, 2], dtype=np.int32), groups=2, length=2, alpha=alpha, beta=1 - alpha)
    counts = solve(program, solver="scip", cuts=False, seconds=30, seed=0).counts
    assert counts is not None
    assert (counts.sum(axis=0) > 0).sum() == used
    assert (counts > 0).sum(axis=1).max() == 1


@pytest.mark.parametrize(
    ("setting", "parallelism", "expected"),
    [
        ("i", Parallelism(tp=4, dp=12, pp=2), (1.2, 1.5, 1.8)),
        ("ii", Parallelism(tp=4, dp=24, pp=8), (1.2, 1.5, 1.8)),
        ("iii", Parallelism(tp=8, dp=46, pp=8), (1.8, 3.0, 3.6)),
    ],
)
def test_paper_settings_scored_by_eq_2(setting: str, parallelism: Parallelism, expected: tuple[float, ...]) -> None:
    """Table 1 on an even split at alpha .2, .5, .8.

    In (iii) 46 groups fit whole on 5 minipods of 92 or 93 nodes (11 each) and with splits on 4: 1.8 = .2*5 + .8, 3.0
    both ways, 3.6 = .8*4 + .2*2.
    """
    found = [
        run(arnold_mip_cuts(), paper_cluster(setting), Job(setting, parallelism, alpha=alpha), Limits(seconds=30))
        for alpha in (0.2, 0.5, 0.8)
    ]
    assert [outcome.objective for outcome in found] == pytest.approx(expected)


@pytest.mark.parametrize("algorithm", [arnold_mip(), arnold_mip_highs(), arnold_mip_cuts()], ids=lambda a: a.name)
def test_no_claim_about_eq_2(algorithm: ArnoldMip) -> None:
    """The program's bound is about its own objective: it is reported as such and never as a bound of the placement."""
    proposal = algorithm.place(paper_cluster("i"), Job("i", Parallelism(tp=4, dp=12, pp=2), alpha=0.5), Limits())
    assert proposal.lower_bound is None
    assert proposal.complete
    assert proposal.statistics["mip_proved"] == 1.0
    assert proposal.statistics["mip_objective"] == pytest.approx(1.5)
    assert "no bound on Eq. 2" in proposal.notes[0]


def test_time_limit_without_a_placement_claims_nothing() -> None:
    """With no time at all there is neither a placement nor a verdict."""
    proposal = arnold_mip().place(minipods(), Job("big", Parallelism(tp=8, dp=150, pp=8)), Limits(seconds=0.0))
    assert proposal.nodes is None
    assert not proposal.complete
    assert proposal.infeasible == ""
    assert "mip_objective" not in proposal.statistics


def test_scip_complains_of_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Neither a solve nor its interrupter says errors that are none; what others say meanwhile is said."""
    arnold_mip().place(paper_cluster("i"), Job("i", Parallelism(tp=4, dp=12, pp=2), alpha=0.5), Limits())
    assert capfd.readouterr() == ("", "")
    with without_events_of_scip():
        os.write(2, b"[scip_event.c:305] ERROR: SCIPcatchEvent\nheard\n")
    assert capfd.readouterr() == ("", "heard\n")


def test_contiguous_ranks_share_a_minipod() -> None:
    """Groups in the same minipods follow each other, and a split group changes minipod once.

    Two groups whole in minipod 0, one whole in 1, one split 1 : 1, given in a shuffled order.
    """
    counts = np.array([[1, 1], [2, 0], [0, 2], [2, 0]], dtype=np.int32)
    pools = [np.arange(5, dtype=np.int32), np.arange(10, 13, dtype=np.int32)]
    ranks = np.arange(8, dtype=np.int32).reshape(2, 4).T
    nodes = hand_out(counts, pools, ranks)
    assert (nodes // 10).tolist() == [[0, 0], [0, 0], [0, 1], [1, 1]]
    assert sorted(nodes.ravel()) == [0, 1, 2, 3, 4, 10, 11, 12]
