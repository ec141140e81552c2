"""Types of GPU: a gang lies on one of them, the best; no placement of any type is better than the bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import Infeasible, InvalidJob, InvalidPlacement
from scheduler.algorithm_run import fits, run
from scheduler.explanation import diagnose, nodes_to_free, what_binds
from scheduler.job import Hold, Job, Parallelism, Speed
from scheduler.objective import evaluate
from scheduler.outcome import CloserSpread, Outcome, TypeOption
from scheduler.placement.admission import choices, shortage, type_choices
from scheduler.placement.types import ALGORITHMS, Limits, Proposal
from scheduler.repair import repair
from scheduler.subproblems import best_of_types
from tests.case_counts import examples
from tests.facts import saying, says
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import FAULTY, NodeFlag

LIMITS = Limits(seconds=5.0, workers=1)
EXACT = ALGORITHMS.load("exact")

Racks = tuple[str, ...]
"""A rack each, a letter for the type of each of its nodes: A, B, C, or ``.`` for a node of which none is said."""


def racks(*rows: str, busy: tuple[int, ...] = ()) -> Cluster:
    """Racks of nodes of 8 GPUs; some nodes, by number, are in use."""
    nodes: list[Node] = []
    for rack, row in enumerate(rows):
        for letter in row:
            free = 0 if len(nodes) in busy else 8
            nodes.append(Node(f"n{len(nodes)}", (f"r{rack}",), 8, free, gpu_type=letter.strip(".")))
    return build_cluster(["rack"], nodes)


def job(dp: int, pp: int, alpha: float = 0.3, **more: object) -> Job:
    """A grid of whole nodes."""
    return Job("j", Parallelism(tp=8, dp=dp, pp=pp), alpha=alpha, level="rack").replace(**more)


def speeds(**factors: float) -> tuple[Speed, ...]:
    """Factors by type."""
    return tuple(Speed(name, factor) for name, factor in factors.items())


def types_in_use(cluster: Cluster, outcome: Outcome) -> set[str]:
    """The types of GPU of a placement."""
    nodes = outcome.proposal.nodes
    assert nodes is not None
    return {cluster.node(int(i)).gpu_type for i in nodes.ravel()}


def chosen(outcome: Outcome) -> TypeOption:
    """The option that the placement is."""
    (one,) = [option for option in outcome.types if option.chosen]
    return one


def test_half_of_each_is_no_placement() -> None:
    """Types that alternate over the racks: mixed the job would lie in one rack, of one type it needs two."""
    cluster, wanted = racks("ABAB", "ABAB"), job(2, 2, 0.5)
    outcome = run(EXACT, cluster, wanted, LIMITS)
    assert (outcome.status, outcome.objective, len(types_in_use(cluster, outcome))) == ("optimal", 1.5, 1)
    assert [(one.gpu_types, one.nodes, one.objective) for one in outcome.types] == [(("A",), 4, 1.5), (("B",), 4, 1.5)]
    mixed = run(EXACT, cluster, wanted.replace(mix_types=True), LIMITS)
    assert (mixed.status, mixed.objective, types_in_use(cluster, mixed)) == ("optimal", 1.0, {"A", "B"})
    assert chosen(mixed).gpu_types == ("A", "B")
    assert len(mixed.types) == 3


def test_the_evaluator_refuses_what_is_mixed() -> None:
    """And a type that the job does not admit, by name."""
    cluster, placed = racks("ABAB"), np.arange(4, dtype=np.int32).reshape(2, 2)
    with pytest.raises(InvalidPlacement, match="types 'A' and 'B' are mixed"):
        evaluate(cluster, job(2, 2), placed)
    assert evaluate(cluster, job(2, 2, mix_types=True), placed).objective == 1.0
    with pytest.raises(InvalidPlacement, match=saying("'n1'", "'B'")):
        evaluate(cluster, job(2, 2, mix_types=True, gpu_types=("A",)), placed)


@pytest.mark.parametrize("name", ALGORITHMS.names())
def test_no_algorithm_mixes_types(name: str) -> None:
    """Nodes of two types side by side; where a rule finds nothing for one type, it says so and mixes nothing."""
    cluster = racks("ABAB", "BABA", "ABAB")
    outcome = run(ALGORITHMS.load(name), cluster, job(2, 2), LIMITS)
    assert outcome.status != "refused"
    if outcome.proposal.nodes is not None:
        assert len(types_in_use(cluster, outcome)) == 1
    else:
        assert name not in ("exact", "best-fit", "random-fit", "kube-scheduler")


def test_the_faster_type_wins_where_it_is_worth_the_spread() -> None:
    """A in one rack costs 1, B in two 1.3 (S 2, R 1): B must be more than 1.3 times as fast."""
    cluster = racks("AAAABB", "BB")
    for factor, best in ((1.2, "A"), (1.4, "B")):
        outcome = run(EXACT, cluster, job(2, 2, speed=speeds(B=factor)), LIMITS)
        assert (outcome.status, chosen(outcome).gpu_types) == ("optimal", (best,))
        assert [one.cost for one in outcome.types] == pytest.approx([1.0, 1.3 / factor])


def test_of_equal_types_the_one_with_more_left() -> None:
    """Both give a placement in one rack; of C two nodes more are left than of A."""
    outcome = run(EXACT, racks("AAAAA", "CCCCC", "CC"), job(2, 2), LIMITS)
    assert chosen(outcome).gpu_types == ("C",)
    assert chosen(outcome).sentence.endswith("; chosen")


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("mixed", [False, True])
def test_of_equal_types_the_one_that_is_closer(order: int, mixed: bool) -> None:
    """A has a node in each of four racks, B two in one: whichever comes first, the pair lies in that rack.

    B is not the type with more nodes left, and a mixture is no closer.
    """
    places = [("A", "r0"), ("A", "r1"), ("A", "r2"), ("A", "r3"), ("B", "r4"), ("B", "r4")]
    nodes = [Node(f"n{i}", ("p", rack), 8, 8, gpu_type=name) for i, (name, rack) in enumerate(places)]
    outcome = run(
        EXACT, build_cluster(["pod", "rack"], nodes[::order]), job(1, 2, level="pod", mix_types=mixed), LIMITS
    )
    assert chosen(outcome).gpu_types == ("B",)
    assert (outcome.closer["rack"], outcome.proved_to) == (CloserSpread(1, 1, proved=True), "all")


def test_types_are_as_close_whatever_sums_lose() -> None:
    """0.4 * 1 + 0.6 * 3 and 0.4 * 4 + 0.6 * 1 differ in the last bit, and are the same 2.2: A has more nodes left."""
    assert 0.4 * 1 + 0.6 * 3 < 0.4 * 4 + 0.6 * 1
    nodes = [Node(f"{name}{i}", ("p", f"{name}{i}"), 8, 8, gpu_type=name) for name in "AAABB" for i in range(3)]
    nodes = [replace(node, name=f"n{number}") for number, node in enumerate(nodes)]
    cluster, asked = build_cluster(["pod", "rack"], nodes), job(1, 2, level="pod")
    of_types, _ = type_choices(cluster, asked)
    first, second = (of_type for _, of_type in run(EXACT, cluster, asked, LIMITS).by_type)
    assert first.evaluation is not None
    assert second.evaluation is not None
    outcomes = [
        replace(first, evaluation=replace(first.evaluation, closer={"rack": 0.4 * 4 + 0.6 * 1})),
        replace(second, evaluation=replace(second.evaluation, closer={"rack": 0.4 * 1 + 0.6 * 3})),
    ]
    assert chosen(best_of_types(cluster, of_types, outcomes, short="")).gpu_types == ("A",)


def test_a_closer_type_that_was_not_settled_leaves_it_open() -> None:
    """Of a type that might be as good in the objective nothing is known at the rack."""
    nodes = [Node(f"{name}{i}", ("p", f"{name}{i}"), 8, 8, gpu_type=name) for name in "AB" for i in range(3)]
    cluster, asked = build_cluster(["pod", "rack"], nodes), job(1, 2, level="pod")
    outcome = run(EXACT, cluster, asked, LIMITS)
    assert outcome.closer["rack"] == CloserSpread(1, 2, proved=True)
    of_types, _ = type_choices(cluster, asked)
    first, second = (of_type for _, of_type in outcome.by_type)
    unsettled = replace(second, proposal=replace(second.proposal, closer_bounds={}))
    best = best_of_types(cluster, of_types, [first, unsettled], short="")
    assert (best.status, best.closer["rack"].proved, best.proved_to) == ("optimal", False, "objective")


def test_one_type_before_a_mixture_and_a_healthy_one_before_slow_nodes() -> None:
    """Where the objective is the same."""
    cluster = racks("AABB", "BBB")
    assert chosen(run(EXACT, cluster, job(1, 2, mix_types=True), LIMITS)).gpu_types == ("B",)
    slow = cluster.with_flags([NodeFlag(f"n{i}", "straggler", 1.01) for i in (2, 3, 4, 5, 6)])
    assert chosen(run(EXACT, slow, job(1, 2, avoid="ignore"), LIMITS)).gpu_types == ("A",)


def test_a_cluster_of_one_type_or_none_leaves_nothing_to_choose() -> None:
    """The job is asked as it is; the one type is told, where one is."""
    for rows, told in ((("AAAA",), [("A",)]), (("....",), [])):
        cluster, wanted = racks(*rows), job(2, 2)
        assert choices(cluster, wanted) == (wanted,)
        outcome = run(EXACT, cluster, wanted, LIMITS)
        assert [one.gpu_types for one in outcome.types] == told
        assert (outcome.status, outcome.objective) == ("optimal", 1.0)


def test_nodes_of_which_nothing_is_said_are_a_type_of_their_own() -> None:
    """They may be of any type, so they are mixed with none; a job that names types cannot have them."""
    cluster = racks("AA..", "..")
    outcome = run(EXACT, cluster, job(2, 2), LIMITS)
    assert types_in_use(cluster, outcome) == {""}
    assert says(outcome.types[1].sentence, "no type that is said", "proved optimal")
    assert run(EXACT, cluster, job(2, 2, gpu_types=("A",)), LIMITS).status == "infeasible"


def test_why_no_type_has_room() -> None:
    """5 nodes are free and 4 wanted, but no type has 4; of the admitted type alone the others are counted."""
    cluster = racks("AAAB", "BBAA", busy=(0, 1))
    outcome = run(EXACT, cluster, job(2, 2), LIMITS)
    assert outcome.status == "infeasible"
    for words in ("needs 4 free nodes", "all with the same type of GPU", "3 of A, 3 of B", "gpu_types: any"):
        assert words in outcome.reason
    assert [(one.status, one.nodes) for one in outcome.types] == [("infeasible", 3), ("infeasible", 3)]
    assert fits(cluster, job(2, 2, mix_types=True), solver=EXACT, limits=LIMITS)
    assert not fits(cluster, job(2, 2), solver=EXACT, limits=LIMITS)
    reason = shortage(cluster, job(2, 2, gpu_types=("A",)))
    assert says(reason, "4 free nodes of 8 GPUs of the type A", "3 of 8")
    assert says(reason, "3 with another type of GPU", "2 in use")


def test_advice_frees_nodes_of_one_type() -> None:
    """One more A is enough, of B it would take two."""
    cluster = racks("AAAB", "BBAB", busy=(0, 3, 4))
    found = nodes_to_free(cluster, job(2, 2))
    assert found.tolist() == [0]
    outcome = run(EXACT, cluster, job(2, 2), LIMITS)
    diagnosis = diagnose(cluster, job(2, 2), outcome, solver=EXACT, limits=LIMITS)
    assert (diagnosis.constraint, diagnosis.would_fit_if_empty) == ("nodes", True)
    assert {change.kind for change in diagnosis.changes} == {"free-nodes", "smaller-dp"}


@pytest.mark.parametrize("prefer", ["moves", "objective"])
def test_a_repair_stays_with_the_type(prefer: str) -> None:
    """A spare of the other type stands in the same rack; the job's own type has one a rack away, then none."""
    cluster = racks("AAAAB", "BBA")
    placed = np.arange(4, dtype=np.int32).reshape(2, 2)
    mended = repair(cluster, job(2, 2), placed, ["n0"], prefer=prefer, limits=LIMITS)  # type: ignore[arg-type]
    assert sorted(mended.nodes.ravel().tolist()) == [1, 2, 3, 7]
    with pytest.raises(Infeasible, match="3 with another type of GPU"):
        repair(cluster, job(2, 2), placed, ["n0", "n1"], prefer=prefer, limits=LIMITS)  # type: ignore[arg-type]
    mixed = job(2, 2, mix_types=True)
    mended = repair(cluster, mixed, placed, ["n0"], prefer=prefer, limits=LIMITS)  # type: ignore[arg-type]
    assert 4 in mended.nodes


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_speeds(factor: float) -> None:
    """A speed is a number above 0."""
    with pytest.raises(InvalidJob, match="speed on A is"):
        job(1, 1, speed=speeds(A=factor))


class Slow:
    """Finds nothing for type A in time, and for others what exact finds."""

    name = summary = "slow"

    def place(self, cluster: Cluster, wanted: Job, limits: Limits) -> Proposal:
        """See the class."""
        return Proposal(None, complete=False) if wanted.gpu_types == ("A",) else EXACT.place(cluster, wanted, limits)


def test_a_type_that_was_not_settled_keeps_the_bound_down() -> None:
    """B costs 1.3 at least and A may cost 1: the answer is B's, with a gap."""
    outcome = run(Slow(), racks("AAAA", "BB", "BB"), job(2, 2), LIMITS)
    assert (outcome.status, chosen(outcome).gpu_types) == ("feasible", ("B",))
    assert (outcome.objective, outcome.bound) == pytest.approx((1.3, 1.0))
    assert outcome.stopped_at == LIMITS.seconds
    none = run(Slow(), racks("AAAA", "B", "B"), job(2, 2), LIMITS)
    assert none.status == "timeout"


def test_a_hold_binds_in_each_type() -> None:
    """No type has a rack with room for a row of three: both reasons are told."""
    outcome = run(EXACT, racks("AAB", "BBA", "AAB", "BBA"), job(2, 3, holds=(Hold("pp", "rack"),)), LIMITS)
    assert outcome.status == "infeasible"
    assert outcome.reason.startswith("A: holding every pp group")
    assert "; B: holding every pp group" in outcome.reason


CLUSTERS = st.lists(st.text("AABC.", min_size=1, max_size=3), min_size=1, max_size=3).map(tuple)


def least(cluster: Cluster, wanted: Job) -> float | None:
    """The least ``objective / speed`` of all placements, by trying every one; ``None`` = there is none."""
    cells, grid = wanted.grid.cells, wanted.grid
    best = None
    for nodes in permutations(range(len(cluster)), cells):
        kinds = {cluster.node(i).gpu_type for i in nodes}
        if (len(kinds) > 1 and not wanted.mix_types) or (wanted.gpu_types and not kinds <= {*wanted.gpu_types}):
            continue
        if any(cluster.slowdown[i] == FAULTY for i in nodes):
            continue
        domains = cluster.levels[0].domain_of[np.array(nodes)].reshape(grid.rows, grid.columns)
        dp = max(len(set(column)) for column in domains.T.tolist())
        pp = max(len(set(row)) for row in domains.tolist())
        factors = {one.gpu_type: one.factor for one in wanted.speed}
        cost = (wanted.alpha * dp + wanted.beta * pp) / min(factors.get(kind, 1.0) for kind in kinds)
        best = cost if best is None else min(best, cost)
    return best


@examples(150)
@given(
    CLUSTERS,
    st.sampled_from([(1, 2), (2, 1), (2, 2), (1, 3), (3, 1), (1, 4)]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([None, ("A",), ("A", "B")]),
    st.booleans(),
    st.dictionaries(st.sampled_from("ABC"), st.sampled_from([0.5, 1.0, 1.35, 2.0])),
    st.integers(0, 8),
)
def test_the_choice_is_the_least_of_all_placements(  # noqa: PLR0917
    rows: Racks,
    shape: tuple[int, int],
    alpha: float,
    gpu_types: tuple[str, ...] | None,
    mix: bool,
    factors: dict[str, float],
    faulty: int,
) -> None:
    """Tiny clusters of up to three types, by brute force: the answer is proved, and nothing that exists is better."""
    cluster = racks(*rows)
    if faulty < len(cluster):
        cluster = cluster.with_flags([NodeFlag(f"n{faulty}", "faulty", FAULTY)])
    wanted = job(*shape, alpha, gpu_types=gpu_types, mix_types=mix, speed=speeds(**factors))
    outcome, best = run(EXACT, cluster, wanted, LIMITS), least(cluster, wanted)
    if best is None:
        assert outcome.status == "infeasible"
        return
    assert outcome.status == "optimal"
    assert outcome.objective is not None
    kinds = types_in_use(cluster, outcome)
    assert outcome.objective / wanted.speed_on(kinds) == pytest.approx(best)
    assert outcome.bound == outcome.objective
    assert all(one.cost is None or one.cost >= best - 1e-9 for one in outcome.types)
    if outcome.types:
        assert chosen(outcome).cost == pytest.approx(best)


def test_what_binds_is_said_for_each_type() -> None:
    """Type A has two whole racks, so nothing is cheaper there; B lies in both racks, and C has one node for four."""
    cluster = racks("AAAABB", "AAAABB", "C")
    outcome = run(EXACT, cluster, job(2, 2, speed=speeds(B=3.0)), LIMITS)
    said = {one.gpu_types: one.sentence for one in what_binds(cluster, outcome)}
    assert says(said["A",], "nothing can be cheaper")
    assert said["B",].startswith("(1, 1) at 1.0: ")
    assert says(said["C",], "4 free nodes of 8 GPUs of the type C")
    assert not what_binds(racks("AA", "AA"), run(EXACT, racks("AA", "AA"), job(2, 2), LIMITS))
