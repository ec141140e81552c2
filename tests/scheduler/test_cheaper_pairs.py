"""Explanations: which pairs would be cheaper, what rules them out, and what would make a job fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidPlacement
from scheduler.algorithm_run import fits, judge, run
from scheduler.explanation import Misfit, cheaper_pairs, diagnose, why_not
from scheduler.job import Count, Hold, Job, Parallelism
from scheduler.objective import Spread, evaluate
from scheduler.placement.admission import admissible
from scheduler.placement.types import ALGORITHMS, Limits, Proposal, Refutation
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, Node

LIMITS = Limits()


@dataclass(frozen=True)
class Exhaustive:
    """Tries every way to seat the cells: right by construction, for a handful of nodes."""

    name: str = "exhaustive"
    summary: str = "tries everything"

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """The best of all valid placements."""
        best, worth = None, float("inf")
        shape = (job.grid.rows, job.grid.columns)
        for choice in permutations(np.flatnonzero(admissible(cluster, job)), job.grid.cells):
            nodes = np.array(choice, dtype=np.int32).reshape(shape)
            try:
                objective = evaluate(cluster, job, nodes).objective
            except InvalidPlacement:
                continue
            if objective < worth:
                best, worth = nodes, objective
        if best is None:
            return Proposal(None, infeasible="no way to seat the cells is valid")
        return Proposal(best, lower_bound=worth)


SOLVER = Exhaustive()


def racks(*sizes: int, busy: int = 0, slow: int = 0, gpus: int = 8) -> Cluster:
    """Racks of the given sizes; of each the first ``busy`` nodes are in use, of the last ``slow`` are slow."""
    rows = []
    for k, size in enumerate(sizes):
        for i in range(size):
            is_slow = slow and k == len(sizes) - 1 and i >= size - slow
            rows.append(Node(f"r{k}n{i}", (f"r{k}",), gpus, 0 if i < busy else gpus, slowdown=1.5 if is_slow else 1.0))
    return build_cluster(["rack"], rows)


def job(dp: int, pp: int = 1, *, alpha: float = 0.5, holds: tuple[Hold, ...] = (), avoid: str = "price") -> Job:
    """A job of dp x pp whole nodes."""
    return Job("job", Parallelism(tp=8, dp=dp, pp=pp), alpha=alpha, holds=holds, avoid=avoid)  # type: ignore[arg-type]


def diagnosed(cluster: Cluster, wanted: Job) -> Misfit:
    """Why it does not fit, by the exhaustive solver."""
    outcome = run(SOLVER, cluster, wanted, LIMITS)
    assert outcome.status == "infeasible"
    return diagnose(cluster, wanted, outcome, solver=SOLVER, limits=LIMITS)


# What would be cheaper


def test_cheaper_pairs_are_those_below_the_objective() -> None:
    """3 racks of 2 nodes, 2 x 2 cells, placed at (2, 2) = 2.0: cheaper are (1,1), (1,2), (2,1) and, with S up to the
    two rows and R up to the two columns, nothing else.
    """
    cluster, wanted = racks(2, 2, 2), job(2, 2)
    outcome = judge("test", cluster, wanted, Proposal(np.array([[0, 2], [4, 1]], dtype=np.int32)))
    assert outcome.objective == 2.0
    pairs = cheaper_pairs(cluster, wanted, outcome)
    assert [(pair.dp, pair.pp, pair.objective) for pair in pairs] == [(1, 2, 1.5), (2, 1, 1.5), (1, 1, 1.0)]
    assert [(pair.dp, pair.pp) for pair in pairs if pair.maximal] == [(1, 2), (2, 1)]


def test_a_refuted_pair_rules_out_all_below_it() -> None:
    """(1,1) is as good as (1,2) in both, so what refutes (1,2) refutes it too; (2,1) stays open."""
    cluster, wanted = racks(2, 2, 2), job(2, 2)
    known = Refutation((1, 2), "edges", "a column does not fit into one rack")
    proposal = Proposal(np.array([[0, 2], [4, 1]], dtype=np.int32), refutations=(known,))
    pairs = cheaper_pairs(cluster, wanted, judge("test", cluster, wanted, proposal))
    assert {(pair.dp, pair.pp): pair.refuted for pair in pairs} == {
        (1, 2): Spread(1, 2),
        (1, 1): Spread(1, 2),
        (2, 1): None,
    }
    assert {pair.sentence for pair in pairs if pair.refuted} == {known.sentence}


def test_a_single_group_without_room_reads_as_one() -> None:
    """Of racks of 2 and of 3 nodes, one of the 3 slow, a column of 3 fits into neither without the slow one."""
    cluster, wanted = racks(2, 3, slow=1), job(3)
    outcome = run(ALGORITHMS.load("exact"), cluster, wanted, LIMITS)
    (pair,) = cheaper_pairs(cluster, wanted, outcome)
    assert says(pair.sentence, "DP spread 1", "DP group of 3 nodes", "none", "slow")


def test_every_cheaper_pair_has_its_reason_in_words() -> None:
    """3 x 3 cells placed at (3, 3) = 3.0 have eight cheaper pairs.  Each stands in the list once: the two that no other
    exceeds, (2, 3) and (3, 2); (1, 3), with a reason of its own while (2, 3) is open; the others with a larger one.
    """
    cluster, wanted = racks(3, 3, 3), job(3, 3)
    refutations = (
        Refutation((1, 3), "edges", "a column does not fit into one rack"),
        Refutation((1, 2), "coverage", "two racks hold too few cells"),
        # no group touches four racks; the pair rules out (3, 2) and all below all the same
        Refutation((4, 2), "product", "rows do not fit into two racks"),
    )
    proposal = Proposal(np.array([[0, 3, 6], [4, 7, 1], [8, 2, 5]], dtype=np.int32), refutations=refutations)
    pairs = cheaper_pairs(cluster, wanted, judge("test", cluster, wanted, proposal))
    reasons = why_not(pairs)
    assert [((reason.pair.dp, reason.pair.pp), reason.pair.refuted_by) for reason in reasons] == [
        ((2, 3), None),
        ((3, 2), "product"),
        ((1, 3), "edges"),
    ]
    assert says(reasons[0].sentence, "open", "--time-limit")
    assert says(reasons[1].sentence, "(4, 2)", refutations[2].sentence)
    assert reasons[2].sentence == refutations[0].sentence
    with_them = [[(pair.dp, pair.pp) for pair in one.with_it] for one in reasons]
    assert with_them == [[], [(2, 2), (3, 1), (1, 2), (2, 1), (1, 1)], []]
    assert [one.rest for one in reasons][:2] == ["open as well", "ruled out with (3, 2)"]


def test_the_bound_rules_out_what_soft_terms_make_dearer() -> None:
    """2 x 2 cells in racks of 2 cost 0.5 x 1 + 0.5 x 2 = 1.5, and 2.0 for the two racks of a row in the soft term: 3.5.
    Of a pair only the least of the soft term is known, one rack, so (1, 2) looks cheaper, at 2.5; the proof is of the
    whole objective.
    """
    cluster = racks(2, 2, 2)
    wanted = job(2, 2).replace(counts=(Count("pp", "rack", 1.0),))
    nodes = np.array([[0, 2], [1, 3]], dtype=np.int32)
    proved = judge("test", cluster, wanted, Proposal(nodes, lower_bound=3.5))
    assert (proved.status, proved.objective) == ("optimal", 3.5)
    reasons = why_not(cheaper_pairs(cluster, wanted, proved))
    assert {one.pair.refuted_by for one in reasons} == {"bound"}
    assert says(reasons[0].sentence, "no placement", "objective below 3.5")
    # a bound of 3.0 rules out what would cost less, and leaves (2, 2) open, at 3.0
    open_still = judge("test", cluster, wanted, Proposal(nodes, lower_bound=3.0))
    by_pair = {(one.dp, one.pp): one.refuted_by for one in cheaper_pairs(cluster, wanted, open_still)}
    assert by_pair == {(1, 1): "bound", (1, 2): "bound", (2, 1): "bound", (2, 2): None}


@given(
    alpha=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    refuted=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=5),
)
def test_reasons_cover_every_cheaper_pair_once_and_nothing_else(alpha: float, refuted: list[tuple[int, int]]) -> None:
    """Whatever is known: no pair twice, none left out, and a pair that is said to be ruled out lies below a refutation,
    one that is said to be open below none.
    """
    cluster, wanted = racks(3, 3, 3), job(3, 3, alpha=alpha)
    known = tuple(Refutation(pair, "test", "because") for pair in refuted)
    proposal = Proposal(np.array([[0, 3, 6], [4, 7, 1], [8, 2, 5]], dtype=np.int32), refutations=known)
    pairs = cheaper_pairs(cluster, wanted, judge("test", cluster, wanted, proposal))
    listed = [(pair, one.pair.refuted_by) for one in why_not(pairs) for pair in (one.pair, *one.with_it)]
    assert sorted((pair.dp, pair.pp) for pair, _ in listed) == sorted((pair.dp, pair.pp) for pair in pairs)
    for pair, by in listed:
        # at (3, 3) every pair costs 3
        assert pair.objective < 3.0
        assert bool(by) == any(pair.dp <= dp and pair.pp <= pp for dp, pp in refuted)


def test_nothing_is_cheaper_than_one_domain() -> None:
    """A job inside one rack has nothing to explain."""
    cluster, wanted = racks(4), job(2, 2)
    assert cheaper_pairs(cluster, wanted, run(SOLVER, cluster, wanted, LIMITS)) == ()


# What would make it fit


def test_too_few_nodes() -> None:
    """3 of 6 nodes are free for 5 cells: the empty cluster would do, two nodes must be freed, or dp lowered to 3."""
    found = diagnosed(racks(3, 3, busy=1).with_busy([1]), job(5))
    assert (found.constraint, found.would_fit_if_empty) == ("nodes", True)
    assert "needs 5 free nodes" in found.reason
    changes = {change.kind: change for change in found.changes}
    assert set(changes) == {"free-nodes", "smaller-dp"}
    assert changes["smaller-dp"].dp == 3
    # r1 has two free nodes, r0 one: freeing in the fuller-free rack first makes r1 whole, the second node is from r0
    assert len(changes["free-nodes"].free) == 2
    assert "1 in r0" in changes["free-nodes"].sentence
    assert "1 in r1" in changes["free-nodes"].sentence


def test_every_change_was_really_solved() -> None:
    """Each suggestion says what the placement of the changed instance is worth: no less than one domain each."""
    found = diagnosed(racks(3, 3, busy=1), job(5))
    assert found.changes
    assert all(change.objective >= 1.0 for change in found.changes)


def test_the_empty_cluster_is_too_small_as_well() -> None:
    """8 cells on 6 nodes never fit; freeing nodes is not suggested, a smaller dp is."""
    found = diagnosed(racks(3, 3), job(8))
    assert found.would_fit_if_empty is False
    assert [(change.kind, change.dp) for change in found.changes] == [("smaller-dp", 6)]


def test_partly_used_nodes_are_freed_first() -> None:
    """Of two nodes in use the one with GPUs left disturbs fewer jobs."""
    rows = [Node("busy", ("r0",), 8, 0), Node("partly", ("r0",), 8, 6), Node("free", ("r0",), 8, 8)]
    found = diagnosed(build_cluster(["rack"], rows), job(2))
    assert next(change for change in found.changes if change.kind == "free-nodes").free == ("partly",)


def test_strict_avoidance_binds() -> None:
    """4 cells, 4 free nodes, one of them slow and banned: admitting it helps."""
    found = diagnosed(racks(4, slow=1), job(4, avoid="strict"))
    change = next(change for change in found.changes if change.kind == "admit-flagged")
    assert "1 of them would be used" in change.sentence
    assert found.would_fit_if_empty is False


def test_a_hard_constraint_binds() -> None:
    """2 x 2 cells on racks of 3 and 1: enough nodes, but for two PP groups of 2, each in one rack, there are only
    3 // 2 + 1 // 2 = 1 places.  Dropping the constraint helps, and so does dp 1; no node is in use that could be freed.
    """
    found = diagnosed(racks(3, 1), job(2, 2, holds=(Hold("pp", "rack"),)))
    assert (found.constraint, found.would_fit_if_empty) == ("hold", False)
    changes = {change.kind: change for change in found.changes}
    assert set(changes) == {"drop-constraint", "smaller-dp"}
    assert changes["smaller-dp"].dp == 1
    assert "up to 2" in changes["drop-constraint"].sentence


def test_expert_groups_too_large_for_a_rack() -> None:
    """4 cells are one EP group, and no rack has 4 nodes: with ep 2, a divisor, each of two racks of 3 holds a group."""
    wide = job(4, holds=(Hold("ep", "rack"),))
    found = diagnosed(racks(3, 3), wide.replace(parallelism=replace(wide.parallelism, ep=4)))
    (change,) = (change for change in found.changes if change.kind == "smaller-ep")
    assert says(change.sentence, "ep from 4 to 2", "2 times as many experts")


def test_nodes_are_freed_where_the_next_group_is_cheapest() -> None:
    """PP groups of 2 held in racks with 3 and 2 free nodes of 4 and 4: two groups fit, three are wanted.  One freed
    node in r0 makes room for another group; in r1 it would take two.
    """
    cluster = racks(4, 4).with_busy([0, 4, 5])
    found = diagnosed(cluster, job(3, 2, holds=(Hold("pp", "rack"),)))
    change = next(change for change in found.changes if change.kind == "free-nodes")
    assert change.free == ("r0n0",)


@pytest.mark.parametrize(
    "holds", [(Hold("dp", "minipod"), Hold("pp", "rack")), (Hold("pp", "rack"), Hold("dp", "minipod"))]
)
def test_nodes_are_freed_at_the_level_that_binds(holds: tuple[Hold, ...]) -> None:
    """A minipod of three racks with 2, 1 and 1 free nodes has room for the 2 x 2 cells, but for one PP group in a rack:
    the node in use beside a free one makes room for the other, whichever constraint is named first.  Of another minipod
    with as many in use none helps.
    """
    seats = [
        ("m0", "r0", 8),
        ("m0", "r0", 8),
        ("m0", "r1", 8),
        ("m0", "r1", 0),
        ("m0", "r2", 8),
        ("m1", "r3", 8),
        ("m1", "r3", 0),
    ]
    rows = [Node(f"n{i}", (minipod, rack), 8, free) for i, (minipod, rack, free) in enumerate(seats)]
    found = diagnosed(build_cluster(["minipod", "rack"], rows), job(2, 2, holds=holds))
    change = next(change for change in found.changes if change.kind == "free-nodes")
    assert change.free == ("n3",)
    assert says(change.sentence, "1 in r1")


def test_nodes_are_freed_where_a_whole_block_of_blocks_is_cheapest() -> None:
    """Two PP groups of 2, each in one rack, both in one minipod: rack r1 has one for a node, and its minipod no other;
    r2 and r3 of the other minipod take two nodes each.  The cheapest groups alone, of r1 and r2, would not do.
    """
    seats = [("m0", "r0", 8), ("m0", "r1", 8), ("m0", "r1", 0), *[("m1", f"r{k}", 0) for k in (2, 2, 3, 3)]]
    rows = [Node(f"n{i}", (minipod, rack), 8, free) for i, (minipod, rack, free) in enumerate(seats)]
    holds = (Hold("pp", "rack"), Hold("dp", "minipod"))
    found = diagnosed(build_cluster(["minipod", "rack"], rows), job(2, 2, holds=holds))
    assert next(change for change in found.changes if change.kind == "free-nodes").free == ("n3", "n4", "n5", "n6")


def test_nodes_are_freed_below_one_feed() -> None:
    """Two free nodes are fed apart, and a PP group of two is held below one feed: the node beside a free one that has
    GPUs left is freed, not the one of a feed without free nodes.
    """
    feeds = [("a", 8), ("b", 0), ("b", 0), ("c", 8), ("c", 4)]
    rows = [Node(f"n{i}", ("r0",), 8, free, second_path=(feed,)) for i, (feed, free) in enumerate(feeds)]
    cluster = build_cluster(["rack"], rows, second=["@power"])
    found = diagnosed(cluster, job(1, 2, holds=(Hold("pp", "@power"),)))
    assert next(change for change in found.changes if change.kind == "free-nodes").free == ("n4",)


def test_nodes_to_free_where_domains_cross() -> None:
    """Each rack and each power domain has two free nodes, and no two of these are of the same in both: with n0 free, n0
    and n1 are.
    """
    places = [("r0", "p0", 0), ("r0", "p0", 8), ("r0", "p1", 8), ("r1", "p0", 8), ("r1", "p1", 0), ("r1", "p2", 8)]
    nodes = [Node(f"n{i}", (rack,), 8, free, second_path=(power,)) for i, (rack, power, free) in enumerate(places)]
    cluster = build_cluster(["rack"], nodes, second=["@power"])
    together = tuple(Hold("dp", level) for level in ("rack", "@power"))
    exact, wanted = ALGORITHMS.load("exact"), job(2, holds=together)
    outcome = run(exact, cluster, wanted, LIMITS)
    found = diagnose(cluster, wanted, outcome, solver=exact, limits=LIMITS)
    assert next(change for change in found.changes if change.kind == "free-nodes").free == ("n0",)


def test_groups_of_one_node_ask_nothing_of_a_feed() -> None:
    """Of three free nodes in a rack one is alone, and the one in use beside it makes a PP group; that groups of one
    node are held below a feed frees none elsewhere.
    """
    seats = [("r0", "a", 8), ("r0", "b", 8), ("r0", "c", 8), ("r0", "d", 0), ("r1", "e", 4)]
    rows = [Node(f"n{i}", (rack,), 8, free, second_path=(feed,)) for i, (rack, feed, free) in enumerate(seats)]
    cluster = build_cluster(["rack"], rows, second=["@power"])
    found = diagnosed(cluster, job(2, 2, holds=(Hold("pp", "rack"), Hold("cp", "@power"))))
    assert next(change for change in found.changes if change.kind == "free-nodes").free == ("n3",)


def test_nodes_of_another_size() -> None:
    """A job of 2 nodes of 8 GPUs on a cluster of 4-GPU nodes: with gpus_per_node 4 tensor groups of 8 take two nodes
    and tensor groups of 4 one; on nodes of 3 GPUs neither can be.
    """
    small = Job("job", Parallelism(tp=4, dp=4), gpus_per_node=8)
    for one in (job(2), small):
        assert [change.kind for change in diagnosed(racks(4, gpus=4), one).changes] == ["other-node-size"]
        assert diagnosed(racks(4, gpus=3), one).changes == ()


@pytest.mark.parametrize(("dp", "expected"), [(4, True), (5, False)])
def test_without_constraints_counting_decides(dp: int, expected: bool) -> None:
    """No solver is asked: any choice of enough free nodes is a placement."""
    assert fits(racks(2, 2), job(dp), solver=None, limits=LIMITS) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("dp", "expected"), [(2, True), (3, False)])
def test_with_constraints_the_exact_search_decides(dp: int, expected: bool) -> None:
    """Two racks of two nodes hold two pipelines of two; for a third there are too few nodes, counted in no time."""
    held = job(dp, 2, holds=(Hold("pp", "rack"),))
    assert fits(racks(2, 2), held, solver=ALGORITHMS.load("exact"), limits=Limits(seconds=1e-6)) is expected
