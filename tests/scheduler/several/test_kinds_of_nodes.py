"""Several jobs at once, and defragmentation, where nodes differ: constraints at second hierarchies, types and sizes.

Each answer is compared with every assignment there is on tiny clusters, and each bound too.
"""

from __future__ import annotations

from math import inf
from unittest.mock import patch

import numpy as np
from hypothesis import assume, example, given
from hypothesis import strategies as st

from scheduler.job import Count, Hold, Job, NodeSize, Parallelism, Speed
from scheduler.objective import evaluate
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.several.defragmentation import Defragmentation, defragment
from scheduler.several.running_jobs import RunningJob
from scheduler.several.together import JointOutcome, place_together
from tests.case_counts import examples
from tests.scheduler.several.every_kind import (
    SIZES,
    TYPES,
    Kind,
    Kinds,
    cluster_of,
    least_moves,
    least_sum,
    shape_of,
    smallest_left_out,
    worth,
)

LIMITS = Limits(seconds=20.0, workers=1)
EXACT = ALGORITHMS.load("exact")
levels, families = st.sampled_from(["minipod", "rack", "@power", "@power"]), st.sampled_from(["dp", "pp"])
alphas = st.sampled_from([0.0, 0.3, 0.5, 1.0])


@st.composite
def kinds_of_nodes(draw: st.DrawFn, types: str) -> Kinds:
    """Up to five kinds of nodes, of eight nodes together."""
    left, kinds = 8, []
    while left and len(kinds) < 5:
        power = draw(st.sampled_from(["p", "q", "p", "q", ""]))
        free = draw(st.integers(1, min(left, 3 if power else 1)))
        left -= free
        pod, rack = draw(st.integers(0, 1)), draw(st.integers(0, 1))
        kinds.append(Kind(pod, rack, power, draw(st.sampled_from(types)), free))
    return tuple(dict.fromkeys(kinds))


@st.composite
def job_on_kinds(draw: st.DrawFn, name: str, most: int, *, sizes: bool, fewest: int = 1) -> Job:
    """A job with constraints at levels and second hierarchies, hard and soft; of up to so many nodes of 8 GPUs.

    On nodes of 4 it has TP groups of two, sometimes.
    """
    shapes = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (1, 3), (4, 1), (1, 4)]
    rows, columns = draw(st.sampled_from([one for one in shapes if fewest <= one[0] * one[1] <= max(fewest, most)]))
    tp = draw(st.sampled_from([4, 4, 8]))
    job = Job(name, Parallelism(tp=tp, dp=8 * rows // tp, pp=columns), alpha=draw(alphas))
    job = job.replace(level=draw(st.sampled_from(["minipod", "rack"])), mix_types=draw(st.booleans()))
    constraint = draw(st.sampled_from(["none", "hard", "soft", "both", "two"]))
    held = [draw(st.builds(Hold, families, levels)) for _ in range({"hard": 1, "both": 1, "two": 2}.get(constraint, 0))]
    counted = (
        [draw(st.builds(Count, families, levels, st.sampled_from([0.5, 0.1])))]
        if constraint in ("soft", "both")
        else []
    )
    job = job.replace(holds=tuple(held), counts=tuple(counted))
    if sizes:
        job = job.replace(node_sizes=draw(st.sampled_from([SIZES, SIZES[:2], ()])))
        job = job.replace(speed=draw(st.sampled_from([(), (Speed("B", 2.0),), (Speed("A", 1.25),)])))
        job = job.replace(gpu_types=tuple(one.gpu_type for one in job.node_sizes) or None)
    return job


@st.composite
def questions(draw: st.DrawFn, *, sizes: bool) -> tuple[Kinds, tuple[Job, ...], list[float]]:
    """Two or three jobs on a cluster, and their weights."""
    kinds = draw(kinds_of_nodes("ABBC" if sizes else "A"))
    names, jobs, left = "abc"[: draw(st.integers(2, 3))], [], 8
    for name in names:
        job = draw(job_on_kinds(name, min(4, left - 2) // (2 if sizes else 1), sizes=sizes))
        left -= job.parallelism.gpus // 8
        jobs.append(job)
    weights = draw(st.lists(st.sampled_from([1.0, 2.0, 0.25]), min_size=len(jobs), max_size=len(jobs)))
    return kinds, tuple(jobs), weights


def together(kinds: Kinds, jobs: tuple[Job, ...], weights: list[float]) -> JointOutcome:
    """All at once; checked to be a placement, no node twice, and as good as it says."""
    cluster = cluster_of(kinds)
    outcome = place_together(cluster, jobs, weights, solver=EXACT, limits=LIMITS)
    every: list[int] = []
    total = 0.0
    for job, weight, one in zip(jobs, weights, outcome.outcomes, strict=False):
        assert one.proposal.nodes is not None
        assert one.evaluation is not None
        size = one.gpus_per_node or job.gpus_per_node
        sized = job.replace(gpus_per_node=size, node_sizes=())
        assert evaluate(cluster, sized, one.proposal.nodes) == one.evaluation
        total += weight * one.evaluation.objective / job.speed_on(one.evaluation.gpu_types)
        every += one.proposal.nodes.ravel().tolist()
    assert len(set(every)) == len(every)
    assert outcome.objective is None or abs(outcome.objective - total) < 1e-9
    return outcome


def check_least(kinds: Kinds, jobs: tuple[Job, ...], weights: list[float]) -> None:
    """The sum is the least of all, and proved; what does not fit is said to, with the fewest to leave out."""
    least, outcome = least_sum(jobs, weights, kinds), together(kinds, jobs, weights)
    if least == inf:
        assert (outcome.status, len(outcome.left_out)) == ("infeasible", smallest_left_out(jobs, kinds))
        return
    assert outcome.objective is not None
    assert abs(outcome.objective - least) < 1e-9
    assert (outcome.status, outcome.bound) == ("optimal", outcome.objective)


@examples(150)
@given(questions(sizes=False))
def test_constraints_beside_the_tree_cost_the_least(question: tuple[Kinds, tuple[Job, ...], list[float]]) -> None:
    """Hard and soft ones, of each family, with others at levels of the tree; and proved."""
    check_least(*question)


@examples(150)
@given(questions(sizes=True))
def test_each_size_of_node_is_a_way_of_its_own(question: tuple[Kinds, tuple[Job, ...], list[float]]) -> None:
    """Jobs that leave the size of nodes to the types, beside others that say it, with constraints and speeds."""
    check_least(*question)


@examples(80)
@given(st.booleans().flatmap(lambda sizes: questions(sizes=sizes)))
def test_no_bound_is_false_where_not_each_cell_is_decided(question: tuple[Kinds, tuple[Job, ...], list[float]]) -> None:
    """As for large jobs: placements that were seen are all there is to choose among, and the bound is what counting in
    each hierarchy by itself says.  Where something has to be left out, it is no more than must be.
    """
    kinds, jobs, weights = question
    least = least_sum(jobs, weights, kinds)
    with patch("scheduler.placement.share_parts.MOST_CHOICES", 0):
        outcome = together(kinds, jobs, weights)
    if outcome.objective is None:
        assert outcome.status in ("infeasible", "timeout")
        assert outcome.status == "timeout" or least == inf
        assert len(outcome.left_out) in (0, smallest_left_out(jobs, kinds))
        return
    assert outcome.bound is not None
    assert outcome.bound <= least + 1e-9 <= outcome.objective + 2e-9
    assert outcome.status == "feasible" or abs(outcome.objective - least) < 1e-9


@st.composite
def situations(draw: st.DrawFn, *, sizes: bool) -> tuple[Kinds, Job, tuple[tuple[Job, tuple[int, ...]], ...]]:
    """One or two jobs that run on some nodes somehow, and a new one."""
    kinds = draw(kinds_of_nodes("ABBC" if sizes else "A"))
    left, running = [one.free for one in kinds], []
    for name in "ab"[: draw(st.integers(1, 2))]:
        job = draw(job_on_kinds(name, 2, sizes=False)).replace(gpu_types=None)
        free = [k for k, one in enumerate(kinds) for _ in range(left[k])]
        assume(free)
        of = kinds[draw(st.sampled_from(free))].type
        job = job.replace(gpus_per_node=TYPES[of])
        rows, columns = shape_of(job, TYPES[of])
        places = [k for k in free if kinds[k].type == of or (job.mix_types and TYPES[kinds[k].type] == TYPES[of])]
        assume(rows * columns <= len(places))
        cells = tuple(draw(st.permutations(places))[: rows * columns])
        assume(worth(job, kinds, cells) < inf)
        for kind in cells:
            left[kind] -= 1
        running.append((job, cells))
    return kinds, draw(job_on_kinds("new", 4, sizes=sizes, fewest=2)), tuple(running)


def moved(situation: tuple[Kinds, Job, tuple[tuple[Job, tuple[int, ...]], ...]]) -> Defragmentation:
    """The answer, checked: no node twice, no running job worse."""
    kinds, job, running = situation
    cluster = cluster_of(kinds)
    idle = [
        [n for n, name in enumerate(cluster.names) if name.startswith(f"n{k}-") and cluster.idle[n]]
        for k in range(len(kinds))
    ]
    placed = []
    for one, cells in running:
        nodes = np.array([idle[kind].pop(0) for kind in cells], dtype=np.int32)
        placed.append(RunningJob(f"{one.name}.json", one, nodes.reshape(shape_of(one, one.gpus_per_node))))
    found = defragment(cluster, job, placed, solver=EXACT, limits=LIMITS)
    every = [found.outcome.proposal.nodes, *(one.nodes for one in found.running)]
    flat = np.concatenate([np.empty(0, dtype=np.int32), *(one.ravel() for one in every if one is not None)])
    assert len(np.unique(flat)) == len(flat)
    for one in found.running:
        assert one.after == one.running.worth(cluster, one.nodes)
        assert one.after.objective <= one.before.objective + 1e-9
    return found


@examples(150)
@given(st.booleans().flatmap(lambda sizes: situations(sizes=sizes)))
def test_the_moves_are_the_fewest_where_nodes_differ(
    situation: tuple[Kinds, Job, tuple[tuple[Job, tuple[int, ...]], ...]],
) -> None:
    """Constraints beside the tree of the new job and of running ones, and sizes that are left to the types: the least
    objective down to the target, then the fewest nodes, and proved.
    """
    kinds, job, running = situation
    found = moved(situation)
    least = least_moves(job, running, kinds, found.target)
    if least is None:
        assert found.status == "infeasible"
        return
    assert found.outcome.evaluation is not None
    assert abs(max(found.reached, found.target) - least[0]) < 1e-9
    assert (found.status, found.cost, found.least_cost) == ("optimal", least[1], least[1])


NO_ROOM = (
    (Kind(0, 0, "p", "A", 2), Kind(0, 0, "p", "A", 1), Kind(1, 0, "p", "B", 1), Kind(0, 0, "p", "B", 1)),
    Job(
        "new",
        Parallelism(tp=8, dp=2, pp=2),
        alpha=0.0,
        gpus_per_node=8,
        node_sizes=(NodeSize("A", 8), NodeSize("B", 4), NodeSize("C", 8)),
        gpu_types=("A", "B", "C"),
    ),
    ((Job("a", Parallelism(tp=4, dp=2), alpha=0.0, gpus_per_node=8), (0,)),),
)
"""No minipod has room for a node of the new job on type C, which no node is."""


@examples(80)
@example(NO_ROOM)
@given(st.booleans().flatmap(lambda sizes: situations(sizes=sizes)))
def test_no_bound_of_moves_is_false_where_not_each_cell_is_decided(
    situation: tuple[Kinds, Job, tuple[tuple[Job, tuple[int, ...]], ...]],
) -> None:
    """As for large jobs: what is found can be done, and what is said of the least is true."""
    kinds, job, running = situation
    with (
        patch("scheduler.placement.share_parts.MOST_CHOICES", 0),
        patch("scheduler.placement.share_program.MOST_CHOICES", 0),
    ):
        found = moved(situation)
    least = least_moves(job, running, kinds, found.target)
    if least is None or found.outcome.evaluation is None:
        assert least is not None or found.status in ("infeasible", "timeout")
        assert found.status != "infeasible" or least is None
        return
    rank = max(found.reached, found.target), found.cost
    assert rank >= (least[0] - 1e-9, least[1]) or rank[0] > least[0] + 1e-9
    if found.status == "optimal":
        assert abs(rank[0] - least[0]) < 1e-9
        assert rank[1] == least[1]
    elif rank[0] <= least[0] + 1e-9:
        assert found.least_cost <= least[1]
