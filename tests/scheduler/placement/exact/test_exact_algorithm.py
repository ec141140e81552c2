"""The algorithm ``exact`` on whole clusters: valid, optimal, repeatable, and kind to what stays free."""

from __future__ import annotations

from itertools import pairwise, product
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidJob, InvalidPlacement, UnknownName
from scheduler.algorithm_run import run
from scheduler.job import Avoid, Count, Hold, Job, Parallelism
from scheduler.objective import Evaluation, evaluate
from scheduler.outcome import Outcome
from scheduler.placement.admission import admissible
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.solve import solve_grid
from scheduler.placement.types import Limits
from tests.case_counts import every_fourth, examples
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.generate import minipods as empty_minipods
from topology.generate import paper_cluster


def placed(cluster: Cluster, job: Job, **limits: float) -> Outcome:
    """The outcome, with time enough unless said otherwise."""
    options: dict[str, Any] = {"seconds": 5, "workers": 1, "clock": "work", **limits}
    return run(Exact(), cluster, job, Limits(**options))


def minipods(*sizes: int) -> Cluster:
    """Minipods m0, m1, ... of so many free nodes, without racks."""
    nodes = [Node(f"m{m}n{i}", (f"m{m}",), 8, 8) for m, size in enumerate(sizes) for i in range(size)]
    return build_cluster(["minipod"], nodes)


STATES = {
    "free": (8, 8, 1.0),
    "busy": (8, 0, 1.0),
    "slow": (8, 8, 1.4),
    "dead": (8, 8, inf),
    "small": (4, 4, 1.0),
}

PP_EARLY = "tp-pp-cp-ep-dp"
DEGREES = [
    Parallelism(tp=8, dp=2, pp=2),
    Parallelism(tp=8, dp=2, pp=2, order=PP_EARLY),
    Parallelism(tp=8, dp=4),
    Parallelism(tp=8, pp=4),
    Parallelism(tp=8, ep=2, dp=4),
    Parallelism(tp=8, ep=2, dp=4, order="tp-cp-dp-ep-pp"),
    Parallelism(tp=8, ep=2, dp=2, pp=2),
    Parallelism(tp=8, cp=2, dp=2),
    Parallelism(tp=8, cp=2, ep=2, pp=2),
    Parallelism(tp=8, cp=2, ep=2, pp=2, order=PP_EARLY),
    Parallelism(tp=8, ep=4, dp=4),
    # experts with a tensor parallelism of their own: groups inside a node, and over two or four
    Parallelism(tp=8, ep=8, dp=4, etp=1),
    Parallelism(tp=8, ep=16, dp=4, etp=1),
    Parallelism(tp=8, ep=8, dp=2, pp=2, etp=2),
    # three nodes, of which the second is in two groups; groups of which most lie inside a node
    Parallelism(ep=12, dp=24),
    Parallelism(tp=2, ep=3, dp=12),
    Parallelism(cp=12, dp=2),
]
"""Of jobs of three or four nodes of 8 GPUs."""


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Up to three minipods of two racks (every third node hangs on the minipod) of up to three nodes in any state."""
    state = st.sampled_from(["free", "free", "free", "free", *STATES])
    nodes = [
        Node(f"n{m}{r}{i}", (f"m{m}", f"m{m}r{r}" if i != 2 else ""), *STATES[name])
        for m, r in product(range(draw(st.integers(1, 3))), range(2))
        for i, name in enumerate(draw(st.lists(state, min_size=1, max_size=3)))
    ]
    return build_cluster(["minipod", "rack"], nodes)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Three or four cells with any family structure, with and without constraints."""
    place = st.tuples(st.sampled_from(["cp", "ep", "dp", "pp"]), st.sampled_from(["minipod", "rack"]))
    return Job(
        "job",
        draw(st.sampled_from(DEGREES)),
        alpha=draw(st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0])),
        level=draw(st.sampled_from([None, "minipod", "rack"])),
        avoid=draw(st.sampled_from(["strict", "price", "ignore"])),
        holds=tuple(Hold(*one) for one in draw(st.lists(place, max_size=2))) if draw(st.booleans()) else (),
        counts=tuple(Count(*one, 0.3) for one in draw(st.lists(place, max_size=1))) if draw(st.booleans()) else (),
    )


def all_placements(cluster: Cluster, job: Job) -> list[Evaluation]:
    """Every valid placement, nodes that differ in name only being the same."""
    alike: dict[tuple[float, ...], list[int]] = {}
    for i in np.flatnonzero(admissible(cluster, job)):
        key = (*(float(level.domain_of[i]) for level in cluster.levels), float(cluster.slowdown[i]))
        alike.setdefault(key, []).append(int(i))
    found = []
    for kinds in product(alike, repeat=job.grid.cells):
        left = {key: iter(nodes) for key, nodes in alike.items()}
        nodes = np.array([next(left[kind], -1) for kind in kinds], dtype=np.int32)
        if (nodes >= 0).all():
            try:
                found.append(evaluate(cluster, job, nodes.reshape(job.grid.rows, job.grid.columns)))
            except InvalidPlacement:
                continue
    return found


@given(clusters(), jobs(), st.integers(0, 3))
@examples(150)
def test_what_it_says_is_true_of_all_placements(cluster: Cluster, job: Job, seed: int) -> None:
    """By trying all: valid, refused only where nothing is valid, the bound and the front true, optimal as it can be.

    Under ``price`` what is claimed is claimed of the nodes that the chosen option admits.
    """
    outcome = placed(cluster, job, seed=seed)
    every = all_placements(cluster, job)
    if outcome.status == "infeasible":
        assert outcome.reason
        assert every == []
        return
    assert outcome.status in ("optimal", "feasible")
    assert outcome.notes == ()
    if job.avoid == "price":
        slowest = next((option.slowest for option in outcome.proposal.prices if option.chosen), 1.0)
        every = [one for one in every if all(cluster.slowdown[i] <= slowest for i in one.flagged)]
    optimum = min(one.objective for one in every)
    assert outcome.bound is not None
    assert outcome.objective is not None
    assert outcome.bound <= optimum + 1e-9
    level_of_job = job.level or cluster.default_level().name
    if not job.counts and all(cluster.level_index(h.level) >= cluster.level_index(level_of_job) for h in job.holds):
        assert outcome.status == "optimal"
        assert outcome.objective == pytest.approx(optimum)
    pairs = {(one.dp, one.pp) for one in every}
    for refutation in outcome.proposal.refutations:
        assert not any(s <= refutation.pair[0] and r <= refutation.pair[1] for s, r in pairs)
    for point in outcome.proposal.pareto:
        if point.proved:
            assert not any(s <= point.dp and r <= point.pp and (s, r) != (point.dp, point.pp) for s, r in pairs)


@given(clusters(), jobs(), st.integers(0, 3))
@examples(30)
def test_same_seed_same_nodes(cluster: Cluster, job: Job, seed: int) -> None:
    """Two runs propose the same nodes, or refuse for the same reason."""
    first, again = (placed(cluster, job, seed=seed).proposal for _ in range(2))
    assert first.infeasible == again.infeasible
    assert np.array_equal(first.nodes, again.nodes) if first.nodes is not None else again.nodes is None


TABLE_1 = [
    ("i", Parallelism(tp=4, dp=12, pp=2), {0.2: 1.2, 0.5: 1.5, 0.8: 1.2}),
    ("ii", Parallelism(tp=4, dp=24, pp=8), {0.2: 1.2, 0.5: 1.5, 0.8: 1.2}),
    ("iii", Parallelism(tp=8, dp=46, pp=8), {0.2: 1.8, 0.5: 2.0, 0.8: 1.6}),
    ("9600", Parallelism(tp=8, dp=150, pp=8), {0.2: 3.0, 0.5: 4.0, 0.8: 3.2}),
]
"""Optimal objectives of the paper's three settings and of its production run, nodes split evenly.  For instance (iii),
92 or 93 nodes a minipod for 46 x 8 cells: (5, 1) with 11 rows each, (2, 2) with 23 x 4 boxes, (1, 4) with 2 columns
each, and the product bound says S * R >= 4; the production run, 93 nodes a minipod for 150 x 8, has S * R >= 13.
"""


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("setting", "parallelism", "alpha", "optimum"),
    every_fourth(
        [(setting, parallelism, *pair) for setting, parallelism, optima in TABLE_1 for pair in optima.items()]
    ),
)
def test_the_papers_settings_are_proved(setting: str, parallelism: Parallelism, alpha: float, optimum: float) -> None:
    """Table 1 of the Arnold paper, scored by its Eq. 2."""
    outcome = placed(paper_cluster(setting), Job("job", parallelism, alpha=alpha))
    assert outcome.status == "optimal"
    assert outcome.gap == 0.0
    assert outcome.objective == pytest.approx(optimum)


def test_the_whole_front_of_the_production_run() -> None:
    """(13, 1) to (1, 8): S * R >= 13 whatever the shape, and each corner is the least R for its S."""
    outcome = placed(paper_cluster("9600"), Job("job", Parallelism(tp=8, dp=150, pp=8), alpha=0.5))
    front = [(point.dp, point.pp) for point in outcome.proposal.pareto if point.proved]
    assert (4, 4) in front
    assert all(dp * pp >= 13 for dp, pp in front)
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(front))


def test_large_free_minipods_stay_whole() -> None:
    """6 x 1 cells fit into any of 12, 7 and 9 free nodes; the 7 leave the larger ones whole."""
    outcome = placed(minipods(12, 7, 9), Job("job", Parallelism(tp=8, dp=6), alpha=0.5))
    assert outcome.evaluation is not None
    assert outcome.evaluation.domains == {"m1": 6}


def test_two_parts_take_the_two_smallest_that_hold_them() -> None:
    """2 x 5 cells on minipods of 9, 6, 8 and 4 at alpha 0: each row whole, in the 6 and the 8; the 9 stay whole."""
    outcome = placed(minipods(9, 6, 8, 4), Job("job", Parallelism(tp=8, dp=2, pp=5), alpha=0.0))
    assert outcome.evaluation is not None
    assert outcome.evaluation.pp == 1
    assert outcome.evaluation.domains == {"m1": 5, "m2": 5}


def test_as_few_flagged_nodes_as_the_shape_allows() -> None:
    """Four cells, minipods of 5 with 2, 1 and 2 slow nodes: where one has to be used, one is."""
    states = [1.5, 1.5, 1.0, 1.0, 1.0, 1.5, 1.0, 1.0, 1.0, 1.0, 1.5, 1.5, 1.0, 1.0, 1.0]
    nodes = [Node(f"n{i}", (f"m{i // 5}",), 8, 8, slowdown) for i, slowdown in enumerate(states)]
    outcome = placed(
        build_cluster(["minipod"], nodes), Job("job", Parallelism(tp=8, dp=5), alpha=0.5, spread_cost=10.0)
    )
    assert outcome.evaluation is not None
    assert outcome.evaluation.domains == {"m1": 5}
    assert outcome.evaluation.flagged == (5,)


def test_neighbours_in_a_group_are_neighbours_on_the_wire() -> None:
    """8 x 2 cells in one minipod of four racks of 4: in racks S * R is 4 at least, and boxes of 4 x 1 reach it."""
    nodes = [Node(f"n{i:02d}", ("m0", f"r{i // 4}"), 8, 8) for i in range(16)] + [Node("other", ("m1", "r9"), 8, 8)]
    outcome = placed(build_cluster(["minipod", "rack"], nodes), Job("job", Parallelism(tp=8, dp=8, pp=2), alpha=0.5))
    assert outcome.evaluation is not None
    assert (outcome.evaluation.dp, outcome.evaluation.pp) == (1, 1)
    in_racks = outcome.evaluation.by_level["rack"]
    assert in_racks["dp"] * in_racks["pp"] == 4


def test_the_default_level_is_the_broadest_that_is_divided() -> None:
    """One minipod, two racks of 3: by default racks count, and 4 cells take both; asked for minipods, S = R = 1."""
    nodes = [Node(f"n{i}", ("m0", f"r{i // 3}"), 8, 8) for i in range(6)]
    cluster = build_cluster(["minipod", "rack"], nodes)
    job = Job("job", Parallelism(tp=8, dp=2, pp=2), alpha=0.5)
    assert placed(cluster, job).objective == 1.5
    assert placed(cluster, job.replace(level="minipod")).objective == 1.0


def test_uneven_depth() -> None:
    """m0 has two racks of 2, m1 four nodes on its own switch: as a rack that is one, and it holds 2 x 2 cells."""
    nodes = [Node(f"a{i}", ("m0", f"r{i // 2}"), 8, 8) for i in range(4)]
    nodes += [Node(f"b{i}", ("m1", ""), 8, 8) for i in range(4)]
    cluster = build_cluster(["minipod", "rack"], nodes)
    outcome = placed(cluster, Job("job", Parallelism(tp=8, dp=2, pp=2), alpha=0.5, level="rack"))
    assert outcome.evaluation is not None
    assert (outcome.evaluation.dp, outcome.evaluation.pp) == (1, 1)
    assert outcome.evaluation.domains == {"m1": 4}


@pytest.mark.parametrize("order", ["tp-cp-ep-dp-pp", "tp-pp-cp-ep-dp", "tp-dp-cp-ep-pp"])
def test_context_and_expert_groups_in_any_order(order: str) -> None:
    """With cp = 2, dp = 4 makes 8 rows of 2 cells; on four minipods of 4 boxes of 4 x 1 are best, S = R = 2."""
    job = Job("job", Parallelism(tp=8, cp=2, ep=2, dp=4, pp=2, order=order), alpha=0.8)
    outcome = placed(minipods(4, 4, 4, 4), job)
    assert outcome.status == "optimal"
    assert outcome.objective == pytest.approx(0.8 * 2 + 0.2 * 2)


def test_too_few_nodes_is_infeasible() -> None:
    """The reason counts them."""
    outcome = placed(minipods(2, 1), Job("job", Parallelism(tp=8, dp=2, pp=2), alpha=0.5))
    assert outcome.status == "infeasible"
    assert says(outcome.reason, "4 free nodes of 8 GPUs", "3 of 3")


def test_mistakes_of_the_user_are_errors() -> None:
    """A level that does not exist; TP groups that neither divide a node nor fill several."""
    with pytest.raises(UnknownName, match="no level 'rack'"):
        placed(minipods(4), Job("job", Parallelism(tp=8), alpha=0.5, level="rack"))
    with pytest.raises(InvalidJob, match="groups of 3 GPUs"):
        placed(minipods(4), Job("job", Parallelism(tp=3), alpha=0.5))


@pytest.mark.parametrize(("avoid", "optimum"), [("strict", 2.5), ("price", 2.5), ("ignore", 2.0)])
def test_without_time_there_is_a_valid_placement(avoid: Avoid, optimum: float) -> None:
    """46 x 8 cells on 11 minipods where every 50th node is slow, a limit of no seconds: a placement, an honest bound.

    All nodes: 23 x 4 boxes, (2, 2).  Without the slow ones a minipod has 91 at most, four hold less than 368 cells, so
    S * R is 5 at least: (2, 3) or (3, 2).
    """
    cluster = paper_cluster("iii")
    nodes = [Node(n.name, n.path, 8, 8, 1.0 if i % 50 else 1.2) for i, n in enumerate(cluster)]
    job = Job("job", Parallelism(tp=8, dp=46, pp=8), alpha=0.5, avoid=avoid)
    outcome = placed(build_cluster([level.name for level in cluster.levels], nodes), job, seconds=0.0)
    assert outcome.status in ("optimal", "feasible")
    assert outcome.bound is not None
    assert outcome.objective is not None
    assert outcome.bound <= optimum + 1e-9
    assert outcome.objective >= optimum - 1e-9


def test_refutations_and_front_are_handed_on() -> None:
    """4 x 4 cells on minipods of 4: S * R is 4 at least, so (1, 3) cannot be had; the corners are those with 4."""
    outcome = placed(empty_minipods(minipods=4, nodes=16), Job("job", Parallelism(tp=8, dp=4, pp=4), alpha=0.5))
    assert [(point.dp, point.pp, point.proved) for point in outcome.proposal.pareto] == [
        (1, 4, True),
        (2, 2, True),
        (4, 1, True),
    ]
    assert any(r.pair[0] >= 1 and r.pair[1] >= 3 for r in outcome.proposal.refutations)
    assert all(r.sentence for r in outcome.proposal.refutations)


def test_solve_grid_is_the_search_alone() -> None:
    """As seating asks for it one level down: an index into the capacities for each cell, here the optimum (2, 2)."""
    cells = solve_grid(4, 4, (4, 4, 4, 4), 0.5, 10.0)
    assert cells is not None
    assert GridProblem(4, 4, (4, 4, 4, 4)).pair_of(cells) == (2, 2)
