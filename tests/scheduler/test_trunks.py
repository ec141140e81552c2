"""Clusters that fall into trunks which nothing joins: no algorithm places a job in two of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ground.errors import Infeasible, InvalidPlacement
from scheduler.algorithm_run import run
from scheduler.explanation import diagnose, nodes_to_free
from scheduler.job import Hold, Job, Parallelism
from scheduler.objective import evaluate
from scheduler.placement.admission import shortage
from scheduler.placement.types import ALGORITHMS, Limits, Proposal
from scheduler.repair import repair
from scheduler.subproblems import propose_in_a_trunk
from tests.case_counts import examples
from tests.facts import saying
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import NodeFlag

LIMITS = Limits(seconds=5.0, workers=1)


def forest(*trunks: tuple[int, ...], busy: int = 0) -> Cluster:
    """Trunks of racks, each rack with so many nodes; the first ``busy`` nodes of each trunk are in use."""
    rows, number = [], 0
    for t, racks in enumerate(trunks):
        left = busy
        for r, nodes in enumerate(racks):
            for _ in range(nodes):
                rows.append(Node(f"n{number}", (f"trunk{t}", f"rack{t}{r}"), 8, 0 if left > 0 else 8))
                number, left = number + 1, left - 1
    return build_cluster(["trunk", "rack"], rows).replace(joined=False)


def job(dp: int, pp: int, alpha: float = 0.3, **more: object) -> Job:
    """A grid of whole nodes."""
    return Job("j", Parallelism(tp=8, dp=dp, pp=pp), alpha=alpha).replace(**more)


def trunks_of(cluster: Cluster, nodes: np.ndarray) -> set[int]:
    """Numbers of the trunks that a placement touches."""
    return set(cluster.levels[0].domain_of[nodes.ravel()].tolist())


@pytest.mark.parametrize("name", ALGORITHMS.names())
def test_every_algorithm_stays_in_one_trunk(name: str) -> None:
    """8 cells on trunks of 6 and 8 nodes fit in the second alone; a rule that goes by name would begin in the first."""
    cluster = forest((3, 3), (4, 4))
    outcome = run(ALGORITHMS.load(name), cluster, job(2, 4), LIMITS)
    if outcome.proposal.nodes is not None:
        assert outcome.status in ("optimal", "feasible")
        assert trunks_of(cluster, outcome.proposal.nodes) == {1}
    else:
        # a rule that wants a PP or DP group in one rack, or all in one domain, may find none
        assert outcome.status in ("infeasible", "gave-up")
        assert name not in ("exact", "slurm-tree", "random-fit", "kube-scheduler")


def test_what_fits_no_trunk_is_said_to_be_so() -> None:
    """14 nodes are free, 8 in one trunk: a job of 10 does not fit, though it would if the trunks were joined."""
    cluster = forest((3, 3), (4, 4))
    outcome = run(ALGORITHMS.load("exact"), cluster, job(5, 2), LIMITS)
    assert outcome.status == "infeasible"
    for words in ("10 free nodes", "one domain of trunk", "'trunk1' has most, 8", "all together 14"):
        assert words in outcome.reason
    assert shortage(cluster.replace(joined=True), job(5, 2)) == ""


def test_spread_is_counted_where_it_can_differ() -> None:
    """All trunks are one to a job, so the level below counts by default; without one the broadest does."""
    assert forest((3, 3), (4, 4)).default_level().name == "rack"
    assert forest((3,), (4,)).default_level().name == "trunk"
    assert forest((3, 3)).default_level().name == "rack"
    assert forest((3, 3), (4, 4)).replace(joined=True).default_level().name == "trunk"


def test_the_evaluator_refuses_two_trunks() -> None:
    """A placement in both is invalid, with the names of the two."""
    with pytest.raises(InvalidPlacement, match=saying("'trunk0'", "'trunk1'")):
        evaluate(forest((2,), (2,)), job(2, 2), np.arange(4, dtype=np.int32).reshape(2, 2))


def test_advice_frees_nodes_of_one_trunk() -> None:
    """6 cells; 2 + 3 nodes are free: 3 more in the second trunk are fewer than 4 in the first."""
    cluster = forest((3, 3), (4, 4), busy=4).replace()
    cluster = cluster.with_busy([cluster.index("n13")])
    wanted = job(3, 2)
    found = nodes_to_free(cluster, wanted)
    assert len(found) == 3
    assert trunks_of(cluster, found) == {1}
    outcome = run(ALGORITHMS.load("exact"), cluster, wanted, LIMITS)
    diagnosis = diagnose(cluster, wanted, outcome, solver=ALGORITHMS.load("exact"), limits=LIMITS)
    assert diagnosis.constraint == "nodes"
    assert diagnosis.would_fit_if_empty is True
    assert {change.kind for change in diagnosis.changes} == {"free-nodes", "smaller-dp"}


def test_advice_frees_no_nodes_where_groups_never_fit() -> None:
    """Two groups of 4, each in one rack, and all nodes in use: 8 of the 9 in racks of 3 would be nodes enough, and hold
    no group; the 8 in racks of 4 hold both.
    """
    wanted = job(2, 4).replace(holds=(Hold("pp", "rack"),))
    cluster = forest((3, 3, 3), (4, 4))
    cluster = cluster.with_busy(range(len(cluster)))
    assert trunks_of(cluster, nodes_to_free(cluster, wanted)) == {1}
    alone = forest((3, 3, 3))
    assert not len(nodes_to_free(alone.with_busy(range(len(alone))), wanted))


@pytest.mark.parametrize("prefer", ["moves", "objective"])
def test_a_repair_stays_in_the_trunk(prefer: str) -> None:
    """The other trunk has spares enough; the job's own has one more than it needs, then none."""
    cluster = forest((3, 2), (4, 4))
    placed = np.arange(4, dtype=np.int32).reshape(2, 2)
    repaired = repair(cluster, job(2, 2), placed, ["n0"], prefer=prefer, limits=LIMITS)  # type: ignore[arg-type]
    assert trunks_of(cluster, repaired.nodes) == {0}
    with pytest.raises(Infeasible, match=saying("8", "no switch")):
        repair(cluster, job(2, 2), placed, ["n0", "n1"], prefer=prefer, limits=LIMITS)  # type: ignore[arg-type]


RACKS = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)


@examples(25)
@example([(1, 2), (3,)], 3, 1, 0.0)  # as good without a weight for DP spread, and no corner of the trade
@given(st.lists(RACKS, min_size=2, max_size=3), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0.0, 0.3, 1.0]))
def test_the_forest_is_as_good_as_its_best_trunk(trunks: list[tuple[int, ...]], dp: int, pp: int, alpha: float) -> None:
    """The answer is the least of the answers for each trunk alone, proved like them."""
    cluster, wanted = forest(*trunks), job(dp, pp, alpha)
    wanted = wanted.replace(level=cluster.default_level().name)
    exact = ALGORITHMS.load("exact")
    alone = []
    for k in range(len(trunks)):
        part = cluster.subset(np.flatnonzero(cluster.levels[0].domain_of == k).astype(np.int32))
        alone.append(run(exact, part, wanted, LIMITS))
    outcome = run(exact, cluster, wanted, LIMITS)
    objectives = [one.objective for one in alone if one.objective is not None]
    if not objectives:
        assert outcome.status == "infeasible"
        return
    assert outcome.objective == pytest.approx(min(objectives))
    assert outcome.status == "optimal"
    assert outcome.evaluation is not None
    corners = {(point.dp, point.pp) for point in outcome.proposal.pareto}
    assert (outcome.evaluation.dp, outcome.evaluation.pp) in corners
    for known in outcome.proposal.refutations:
        for one in alone:
            points = one.proposal.pareto
            assert not any(point.dp <= known.pair[0] and point.pp <= known.pair[1] for point in points)


def test_time_that_runs_out_in_a_trunk_proves_nothing() -> None:
    """An algorithm that finds nothing in one trunk leaves the bound of the other unclaimed for the cluster."""

    class Late:
        def place(self, cluster: Cluster, wanted: Job, limits: Limits) -> Proposal:
            if len(cluster) == 4:
                return Proposal(None, complete=False)
            return replace(ALGORITHMS.load("exact").place(cluster, wanted, limits), lower_bound=2.0)

    proposal = propose_in_a_trunk(Late().place, forest((2, 2), (3, 3)), job(2, 2), LIMITS)
    assert proposal.nodes is not None
    assert proposal.lower_bound is None
    assert not proposal.complete


def test_a_trunk_in_which_slow_nodes_were_chosen_still_bounds_the_answer() -> None:
    """An algorithm proves one trunk's best and settles for a slow node in the other: the whole is not proved.

    One node a rack in the first trunk: 2 cells of a DP group touch 2 racks.  In the second all nodes are in one rack,
    two of them healthy: those are the true optimum, which the algorithm did not look for.
    """

    class Settling:
        name, summary = "settling", "takes the last two nodes of a trunk, and claims their objective as its bound"

        def place(self, cluster: Cluster, wanted: Job, limits: Limits) -> Proposal:
            nodes = np.array([[len(cluster) - 2], [len(cluster) - 1]], dtype=np.int32)
            return Proposal(nodes, lower_bound=evaluate(cluster, wanted, nodes).objective)

    wanted, cluster = job(2, 1), forest((1, 1), (3,)).with_flags([NodeFlag("n4", "straggler", 3.0, source="test")])
    outcome = run(Settling(), cluster, wanted, LIMITS)
    true = run(ALGORITHMS.load("exact"), cluster, wanted, LIMITS)
    assert outcome.evaluation is not None
    assert true.evaluation is not None
    # three times the step time costs more than a second rack
    assert not outcome.evaluation.flagged
    assert true.evaluation.objective < outcome.evaluation.objective
    assert outcome.status == "feasible"
    assert outcome.bound == true.objective
