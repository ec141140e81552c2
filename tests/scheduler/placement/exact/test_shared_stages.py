"""Jobs whose stages share nodes: the grid inside them, and what counting says of groups that hang together."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.algorithm_run import run
from scheduler.grid import Grid
from scheduler.job import MEGATRON_ORDER, Count, Hold, Job, Parallelism
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.exact.shared_stages import embedded_grid
from scheduler.placement.types import Limits
from tests.case_counts import examples
from tests.scheduler.placement.exact.test_exact_holds import racks
from topology.flags import NodeFlag

LIMITS = Limits(seconds=20.0, workers=1)


def shared(tp: int, dp: int, pp: int, **more: object) -> Job:
    """A job on nodes of 8 GPUs, its stages beginning inside them."""
    job = Job("job", Parallelism(tp=tp, dp=dp, pp=pp)).replace(**more)
    assert not job.grid.aligned
    return job


def check_grid(grid: Grid) -> None:
    """No cell twice, every row inside a PP group, every column inside a DP group."""
    cells = embedded_grid(grid)
    assert cells.size == len(set(cells.ravel().tolist())) > 0
    for lines, family in ((cells, "pp"), (cells.T, "dp")):
        members = [set(group) for group in grid.groups[family].members]
        assert all(any(set(line) <= group for group in members) for line in lines.tolist())


@given(
    tp=st.sampled_from([1, 2, 4]),
    dp=st.integers(1, 40),
    pp=st.integers(1, 9),
    cp=st.integers(1, 3),
    order=st.sampled_from([MEGATRON_ORDER, "tp-cp-ep-pp-dp", "tp-dp-pp-cp-ep"]),
)
@examples(200)
def test_a_grid_lies_inside_any_job(tp: int, dp: int, pp: int, cp: int, order: str) -> None:
    """Whatever the order in which ranks fill the nodes; Megatron takes few with context parallelism."""
    cp = cp if order == MEGATRON_ORDER else 1
    grid = Job("job", Parallelism(tp=tp, dp=dp, pp=pp, cp=cp, order=order)).grid
    assume(not grid.aligned)
    check_grid(grid)


def test_nearly_all_of_a_long_job_is_a_grid() -> None:
    """61 pipelines of four stages, two to a node: stages are 30.5 nodes long, so node 30 has the end of the first stage
    and the beginning of the second.  Every other pipeline begins nodes of its own in all stages: 30 rows of 122 nodes.
    """
    grid = shared(4, 61, 4).grid
    assert grid.cells == 122
    assert embedded_grid(grid).shape == (30, 4)


def test_groups_that_hang_together_need_a_domain_more() -> None:
    """Five nodes for two stages of two and a half: the node in the middle is in both DP groups.

    Each of them has three nodes and fits into a rack of four; but then both would lie in the same one, all five.
    So S = 2, and R = 2 for the same reason; counting proves it.
    """
    cluster = racks((4, 3))
    for alpha in (0.0, 0.5, 1.0):
        outcome = run(Exact(), cluster, shared(4, 5, 2, alpha=alpha, level="rack"), LIMITS)
        assert (outcome.status, outcome.objective) == ("optimal", 2.0)


def test_the_bound_of_a_job_of_122_nodes() -> None:
    """Four racks of 40 nodes for four stages of 30.5, each in a rack but for what it shares with the next one.

    All stages hang together, and so do the pipelines, so S = 1 or R = 1 would put all of them into one rack.
    """
    job = shared(4, 61, 4, alpha=0.5, level="rack")
    outcome = run(Exact(), racks((40, 40, 40, 40)), job, Limits(seconds=0.3, workers=1))
    assert outcome.bound is not None
    assert outcome.bound >= 2.0


def test_closer_levels_are_searched_and_proved_where_counting_meets_them() -> None:
    """Eleven nodes for two stages of five and a half in one minipod; its racks are of six, six and one.

    Neither DP group of six fills more than a rack; both hang together, so one of them, or a pipeline, lies in two.
    """
    job = shared(4, 11, 2, alpha=0.5, level="minipod")
    outcome = run(Exact(), racks((6, 1, 6)), job, LIMITS)
    (found,) = outcome.closer.values()
    assert (found.dp, found.pp, found.proved) == (2, 2, True)


def test_holds_that_no_quick_start_keeps() -> None:
    """Two stages of two and a half nodes, held in one minipod each, so all in one: the second has room for them."""
    job = shared(4, 5, 2, level="rack", holds=(Hold("dp", "minipod"),))
    outcome = run(Exact(), racks((2, 2), (3, 2)), job, LIMITS)
    assert outcome.evaluation is not None
    assert outcome.evaluation.by_level["minipod"] == {"tp": 1, "cp": 1, "ep": 1, "dp": 1, "pp": 1}


@pytest.mark.parametrize(("avoid", "slow"), [("strict", 0), ("price", 0), ("ignore", 1)])
def test_slow_nodes_are_weighed(avoid: str, slow: int) -> None:
    """A rack of five has a slow node, racks of four and three have none: at twice the time spread is the lesser evil.

    Under ``ignore`` the rack of five is best.
    """
    cluster = racks((5,), (4, 3)).with_flags([NodeFlag("n000", "straggler", 2.0)])
    outcome = run(Exact(), cluster, shared(4, 5, 2, alpha=0.5, level="rack", avoid=avoid), LIMITS)
    assert outcome.evaluation is not None
    assert len(outcome.evaluation.flagged) == slow
    assert outcome.status == "optimal"


def test_soft_terms_are_counted() -> None:
    """Two stages of two and a half nodes in racks of four and three: S = R = 2, and 0.5 for their one minipod."""
    job = shared(1, 20, 2, alpha=0.5, level="rack", counts=(Count("dp", "minipod", 0.5),))
    outcome = run(Exact(), racks((4, 3)), job, LIMITS)
    assert (outcome.status, outcome.objective) == ("optimal", 2.5)
