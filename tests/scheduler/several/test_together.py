"""Several jobs at once: against every placement there is on tiny clusters, and what must hold on any."""

from __future__ import annotations

from math import inf
from time import perf_counter
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.algorithm_run import run
from scheduler.job import Count, Hold, Job, Parallelism, Speed
from scheduler.objective import evaluate
from scheduler.placement.node_classes import classify
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.several.joint_question import JointQuestion
from scheduler.several.together import JointOutcome, JointSearch, place_together
from tests.case_counts import examples
from tests.scheduler.several.every_placement import Racks, cluster_of, grid, least_sum, smallest_left_out
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import NodeFlag
from topology.taints import Taint, Toleration

LIMITS = Limits(seconds=20.0, workers=1)
EXACT = ALGORITHMS.load("exact")

racks_of_a_cluster = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4)), min_size=1, max_size=4).map(tuple)
families, levels = st.sampled_from(["dp", "pp"]), st.sampled_from(["minipod", "rack"])


@st.composite
def jobs_of(draw: st.DrawFn, *, soft: bool) -> tuple[Job, ...]:
    """Two or three jobs of up to 8 nodes together."""
    left, jobs = 8, []
    for name in "abc"[: draw(st.integers(2, 3))]:
        shapes = [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1), (2, 3), (1, 4), (4, 1)]
        rows, columns = draw(st.sampled_from([one for one in shapes if one[0] * one[1] <= max(1, left - 2)]))
        left -= rows * columns
        job = grid(name, rows, columns, draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])), draw(levels))
        if draw(st.booleans()):
            job = job.replace(holds=(Hold(draw(families), draw(levels)),))
        if soft and draw(st.booleans()):
            job = job.replace(counts=(Count(draw(families), draw(levels), 0.5),))
        jobs.append(job)
    return tuple(jobs)


weights = st.lists(st.sampled_from([1.0, 2.0, 0.25]), min_size=3, max_size=3)


def together(cluster: Cluster, jobs: tuple[Job, ...], weights: list[float] | None = None) -> JointOutcome:
    """All at once."""
    return place_together(cluster, jobs, weights or [1.0] * len(jobs), solver=EXACT, limits=LIMITS)


def without_a_start(cluster: Cluster, jobs: tuple[Job, ...], weights: list[float]) -> JointSearch:
    """The search alone: nothing is known of one after the other, so what is found and proved is its own."""
    alone = [run(EXACT, cluster, job, LIMITS) for job in jobs]
    question = JointQuestion(cluster, jobs, tuple(weights))
    search = JointSearch(question, classify(cluster, jobs, [inf] * len(jobs)), alone, EXACT)
    search.run(LIMITS, perf_counter() + LIMITS.seconds)
    return search


def check(cluster: Cluster, jobs: tuple[Job, ...], outcome: JointOutcome) -> None:
    """Every job has a valid placement, and no node is there twice."""
    placed = [one.proposal.nodes for one in outcome.outcomes]
    for job, nodes, one in zip(jobs, placed, outcome.outcomes, strict=True):
        assert nodes is not None
        assert evaluate(cluster, job, nodes) == one.evaluation
    every = np.concatenate([nodes.ravel() for nodes in placed if nodes is not None])
    assert len(np.unique(every)) == len(every) == sum(job.grid.cells for job in jobs)


@examples(60)
@given(racks_of_a_cluster, jobs_of(soft=False), weights)
def test_the_sum_is_the_least_of_all_placements(racks: Racks, jobs: tuple[Job, ...], some: list[float]) -> None:
    """Also with holds, at any level, and weights; and it is proved.  What does not fit is said to, with the fewest."""
    weighing = some[: len(jobs)]
    cluster, least = cluster_of(racks), least_sum(jobs, weighing, racks)
    outcome = together(cluster, jobs, weighing)
    if least == inf:
        assert (outcome.status, len(outcome.left_out)) == ("infeasible", smallest_left_out(jobs, racks))
        return
    check(cluster, jobs, outcome)
    assert outcome.status == "optimal"
    assert outcome.objective == outcome.bound == pytest.approx(least)
    search = without_a_start(cluster, jobs, weighing)
    assert (search.cost, search.bound) == pytest.approx((least, least))


@examples(60)
@given(racks_of_a_cluster, jobs_of(soft=True))
def test_the_sum_is_the_least_with_soft_terms(racks: Racks, jobs: tuple[Job, ...]) -> None:
    """Soft terms at any level: each cell of such a job is decided, so the sum is the least, and proved."""
    cluster, least = cluster_of(racks), least_sum(jobs, [1.0] * len(jobs), racks)
    outcome = together(cluster, jobs)
    if least == inf:
        assert outcome.status == "infeasible"
        return
    check(cluster, jobs, outcome)
    assert outcome.status == "optimal"
    assert outcome.objective == outcome.bound == pytest.approx(least)


@examples(40)
@given(racks_of_a_cluster, jobs_of(soft=True))
def test_no_bound_is_false_with_soft_terms(racks: Racks, jobs: tuple[Job, ...]) -> None:
    """Of large jobs, of which not each cell is decided: the bound is below every placement, the sum is one there is."""
    cluster, least = cluster_of(racks), least_sum(jobs, [1.0] * len(jobs), racks)
    with patch("scheduler.placement.share_parts.MOST_CHOICES", 0):
        outcome = together(cluster, jobs)
    if least == inf:
        assert outcome.status == "infeasible"
        return
    check(cluster, jobs, outcome)
    assert outcome.objective is not None
    assert outcome.bound is not None
    assert outcome.bound <= least + 1e-9 <= outcome.objective + 2e-9
    for turn in outcome.turns:
        assert turn.objective is None or outcome.objective <= turn.objective + 1e-9


@examples(40)
@given(racks_of_a_cluster, jobs_of(soft=False), weights)
def test_numbers_of_domains_may_be_one_case(racks: Racks, jobs: tuple[Job, ...], some: list[float]) -> None:
    """Numbers of domains beyond the first few are one case of the program: its bound stays true, and the least."""
    weighing = some[: len(jobs)]
    if (least := least_sum(jobs, weighing, racks)) < inf:
        with patch("scheduler.placement.share_parts.MOST_CASES", 1):
            search = without_a_start(cluster_of(racks), jobs, weighing)
        assert (search.cost, search.bound) == pytest.approx((least, least))


@examples(40)
@given(racks_of_a_cluster, jobs_of(soft=True), st.data())
def test_each_job_has_the_cluster_as_it_sees_it(racks: Racks, jobs: tuple[Job, ...], data: st.DataObject) -> None:
    """Nodes that are kept from one job alone are as nodes with a taint that all others tolerate."""
    cluster = cluster_of(racks)
    nodes = st.sets(st.integers(0, len(cluster) - 1)) if len(cluster) else st.just(set[int]())
    kept = [data.draw(nodes) for _ in jobs]
    seen = [cluster.with_kept_out(dict.fromkeys(own, "goes away")) for own in kept]
    taints = {
        i: tuple(Taint(f"not-{j}", "", "NoSchedule") for j, own in enumerate(kept) if i in own)
        for i in set[int]().union(*kept)
    }
    tainted = cluster.with_taints(taints)
    tolerant = tuple(
        job.replace(tolerations=tuple(Toleration(f"not-{other}", "Exists") for other in range(len(jobs)) if other != j))
        for j, job in enumerate(jobs)
    )
    weighing = [1.0] * len(jobs)
    outcome = place_together(cluster, jobs, weighing, solver=EXACT, limits=LIMITS, seen=seen)
    same = together(tainted, tolerant)
    assert (outcome.status, outcome.objective, outcome.bound) == (same.status, same.objective, same.bound)
    for own, job, one in zip(seen, jobs, outcome.outcomes, strict=False):
        assert one.proposal.nodes is not None
        assert evaluate(own, job, one.proposal.nodes) == one.evaluation


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("tp", "dp", "pp"), [(1, 6, 6), (2, 3, 6), (2, 6, 3), (2, 6, 4)])
def test_no_bound_is_false_where_stages_share_nodes(tp: int, dp: int, pp: int, alpha: float) -> None:
    """Such a job has no rows and columns of nodes, so nothing is claimed of them: the bound is that of the job alone.

    On racks of two nodes in four minipods.  (2, 6, 3) with alpha 1 has 2, three if all its nodes were one DP group.
    """
    job = Job("a", Parallelism(tp=tp, dp=dp, pp=pp), alpha=alpha, level="minipod")
    assert not job.grid.aligned
    cluster = cluster_of(((0, 2), (1, 2), (2, 2), (3, 2)))
    alone, joint = run(EXACT, cluster, job, LIMITS), without_a_start(cluster, (job,), [1.0])
    assert alone.bound is not None
    assert joint.bound == pytest.approx(alone.bound)
    assert joint.cost >= joint.bound - 1e-9


def test_the_bound_sees_that_few_minipods_are_large() -> None:
    """Two minipods of 8 nodes, eight of 5, and four jobs of 4 x 2: each alone has 1.0.  Only two can have a minipod to
    themselves; the others lie in two, 0.5 * 2 + 0.5 = 1.5.  Together 5.0, where the jobs alone have 4.0.
    """
    racks = tuple((k, 8 if k < 2 else 5) for k in range(10))
    jobs = tuple(grid(name, 4, 2, 0.5) for name in "abcd")
    outcome = together(cluster_of(racks), jobs)
    check(cluster_of(racks), jobs, outcome)
    assert (outcome.status, outcome.objective, outcome.bound) == ("optimal", 5.0, 5.0)


def test_the_second_job_needs_what_the_first_would_take() -> None:
    """Racks of 4 and 3 nodes.  A job of 3 takes the tightest rack, which serves both; asked first, a job of 2 + 2 with
    one stage in each rack would leave no rack for it.  Joint: one rack each, 1 + 1.
    """
    racks = ((0, 3), (1, 4))
    jobs = (grid("a", 3, 1, 0.5), grid("b", 2, 2, 0.5))
    outcome = together(cluster_of(racks), jobs)
    assert (outcome.status, outcome.objective) == ("optimal", 2.0)


def test_one_job_is_as_alone() -> None:
    """Nothing is shared: the sum is the weight times what `run` gives."""
    cluster, job = cluster_of(((0, 2), (1, 3))), grid("a", 2, 2, 0.3)
    alone, joint = run(EXACT, cluster, job, LIMITS), together(cluster, (job,), [2.0])
    assert alone.objective is not None
    assert joint.objective == pytest.approx(2 * alone.objective)
    assert (joint.status, len(joint.turns)) == ("optimal", 1)


def test_groups_of_two_nodes_stay_in_a_rack_that_nothing_names() -> None:
    """TP groups of two nodes of 4 GPUs, held at the closest level: racks of 3, 3, 2 and 2 nodes hold one each.  So two
    jobs of two groups fit; with a third of one group they do not.
    """
    nodes = [
        Node(f"n{k}-{i}", (f"m{k // 2}", f"r{k}"), 4, 4) for k, count in enumerate((3, 3, 2, 2)) for i in range(count)
    ]
    cluster = build_cluster(["minipod", "rack"], nodes)
    jobs = tuple(Job(name, Parallelism(tp=8, dp=2), gpus_per_node=4, level="minipod") for name in "ab")
    outcome = together(cluster, jobs)
    check(cluster, jobs, outcome)
    assert (outcome.status, outcome.objective) == ("optimal", 2.0)
    more = (*jobs, Job("c", Parallelism(tp=8, dp=1), gpus_per_node=4, level="minipod"))
    outcome = together(cluster, more, [1.0, 1.0, 0.5])
    assert (outcome.status, outcome.left_out) == ("infeasible", (2,))


def test_each_job_has_one_type() -> None:
    """Two jobs of two nodes, racks of two types: neither mixes, and the job that runs faster on B gets it.

    Costs are objective / speed: a on B 1 / 2, b on A 1; together 1.5.
    """
    nodes = [Node(f"n{i}", (f"r{i // 2}",), 8, 8, gpu_type="AABB"[i]) for i in range(4)]
    cluster = build_cluster(["rack"], nodes)
    jobs = (grid("a", 2, 1, 0.5, "rack").replace(speed=(Speed("B", 2.0),)), grid("b", 2, 1, 0.5, "rack"))
    outcome = together(cluster, jobs)
    check(cluster, jobs, outcome)
    assert (outcome.status, outcome.objective) == ("optimal", pytest.approx(1.5))
    first = outcome.outcomes[0].proposal.nodes
    assert first is not None
    assert sorted(first.ravel().tolist()) == [2, 3]


def test_slow_nodes_only_where_not_all_fit_without() -> None:
    """Two healthy nodes and two slow ones: alone each job takes the healthy ones; together one needs the slow."""
    cluster = build_cluster(["rack"], [Node(f"n{i}", (f"r{i // 2}",), 8, 8) for i in range(4)])
    cluster = cluster.with_flags([NodeFlag(name, "degraded", 1.5) for name in ("n2", "n3")])
    jobs = (grid("a", 2, 1, 0.5, "rack"), grid("b", 2, 1, 0.5, "rack"))
    outcome = together(cluster, jobs)
    check(cluster, jobs, outcome)
    assert outcome.objective == pytest.approx(2.0)
    assert any("slow nodes are used" in note for note in outcome.notes)


def test_the_same_question_has_the_same_answer() -> None:
    """Nothing is drawn at random, and the searches end by themselves."""
    racks, jobs = ((0, 3), (0, 2), (1, 4)), (grid("a", 2, 2, 0.3), grid("b", 3, 1, 0.5))
    first, second = (together(cluster_of(racks), jobs) for _ in range(2))
    for one, other in zip(first.outcomes, second.outcomes, strict=True):
        assert one.proposal.nodes is not None
        assert (one.proposal.nodes == other.proposal.nodes).all()
