"""Constraints at second hierarchies: power and failure domains that nest with nothing."""

from itertools import permutations
from time import sleep

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import Infeasible, InvalidPlacement, SolverTimeout
from scheduler.algorithm_run import run
from scheduler.job import Count, Hold, Job, Parallelism
from scheduler.objective import evaluate
from scheduler.outcome import Outcome
from scheduler.placement.types import ALGORITHMS, Limits, Proposal
from scheduler.repair import repair
from scheduler.subproblems import laid_into_tree
from tests.case_counts import examples
from tests.facts import saying, says
from topology.build import build_cluster
from topology.cluster import Cluster, Node

LIMITS = Limits(seconds=10.0)


def cluster_of(rows: list[tuple[str, str, str]], *, joined: bool = True) -> Cluster:
    """Nodes n0, n1, ... with a minipod, a power domain and a failure domain each; two racks in every minipod."""
    nodes = [
        Node(f"n{i}", (minipod, f"{minipod}-r{i % 2}"), 8, 8, second_path=(power, failure))
        for i, (minipod, power, failure) in enumerate(rows)
    ]
    cluster = build_cluster(["minipod", "rack"], nodes, second=["@power", "@failure"])
    return cluster.replace(joined=joined)


def job_of(dp: int, pp: int, **more: object) -> Job:
    """Whole nodes: dp pipelines of pp stages."""
    return Job("job", Parallelism(tp=8, dp=dp, pp=pp)).replace(**more)


def place(cluster: Cluster, job: Job, algorithm: str = "exact") -> Outcome:
    """Ask an algorithm."""
    return run(ALGORITHMS.load(algorithm), cluster, job, LIMITS)


def least(cluster: Cluster, job: Job) -> float | None:
    """The least objective of all placements, by trying all of them; ``None`` = there is none."""
    shape = job.grid.rows, job.grid.columns
    found = []
    for nodes in permutations(range(len(cluster)), job.grid.cells):
        try:
            found.append(evaluate(cluster, job, np.array(nodes, dtype=np.int32).reshape(shape)).objective)
        except InvalidPlacement:
            continue
    return min(found, default=None)


ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["", "p1", "p2"]), st.sampled_from(["", "f1", "f2"])),
    min_size=4,
    max_size=6,
)
LEVELS = st.sampled_from(["minipod", "rack", "@power", "@failure"])
FAMILIES = st.sampled_from(["dp", "pp"])


@given(
    rows=ROWS,
    shape=st.sampled_from([(2, 2), (1, 3), (3, 1), (4, 1), (1, 2)]),
    held=st.lists(st.builds(Hold, FAMILIES, LEVELS), max_size=2),
    counted=st.lists(st.builds(Count, FAMILIES, LEVELS, st.sampled_from([0.1, 2.0])), max_size=1),
    counts_at=st.tuples(st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([None, "rack"])),
)
@examples(120)
def test_nothing_false_is_said_of_constraints_beside_the_tree(
    rows: list[tuple[str, str, str]],
    shape: tuple[int, int],
    held: list[Hold],
    counted: list[Count],
    counts_at: tuple[float, str | None],
) -> None:
    """Against all placements: what is proved is true, what is placed is valid, what is refused has none."""
    cluster, (alpha, level) = cluster_of(rows), counts_at
    job = job_of(*shape, alpha=alpha, level=level, holds=(*held, Hold("dp", "@power")), counts=tuple(counted))
    outcome, best = place(cluster, job), least(cluster, job)
    if outcome.status == "infeasible":
        assert best is None
    elif outcome.evaluation is None:
        assert outcome.status == "gave-up"
        assert outcome.proposal.lower_bound is None or best is None or outcome.proposal.lower_bound <= best + 1e-9
    else:
        assert best is not None
        assert outcome.objective is not None
        assert outcome.bound is not None
        assert outcome.bound - 1e-9 <= best <= outcome.objective + 1e-9
        if outcome.status == "optimal":
            assert outcome.objective == pytest.approx(best)


CROSSED = [("a", "p1", ""), ("a", "p2", ""), ("b", "p1", ""), ("b", "p2", "")] * 2
"""Two minipods of four nodes, each with two nodes of either power domain: power crosses the tree."""


def test_a_group_is_held_in_one_power_domain_that_crosses_the_tree() -> None:
    """DP groups of two nodes inside one power domain: each fits into a minipod, so the job costs what it would without.

    Four nodes in one minipod, a DP group on the two of p1 and one on the two of p2: both spreads 1, objective 1.
    """
    cluster = cluster_of(CROSSED)
    job = job_of(2, 2, holds=(Hold("dp", "@power"),))
    outcome = place(cluster, job)
    assert (outcome.status, outcome.objective) == ("optimal", 1.0)
    assert outcome.evaluation is not None
    assert outcome.evaluation.by_level["@power"] == {"tp": 1, "cp": 1, "ep": 1, "dp": 1, "pp": 2}


def test_what_no_tree_settles_is_left_with_a_gap_and_a_note() -> None:
    """One DP group of four nodes inside one power domain lies in two minipods, as each has two nodes of it.

    Without the constraint it would lie in one, so the bound stays 1 and nothing is said to be proved.
    """
    job = job_of(4, 1, alpha=1.0, holds=(Hold("dp", "@power"),))
    outcome = place(cluster_of(CROSSED), job)
    assert (outcome.status, outcome.objective, outcome.bound) == ("feasible", 2.0, 1.0)
    assert any("@power nests with no level" in note for note in outcome.notes)


def test_a_hierarchy_that_nests_is_a_level_with_its_proof() -> None:
    """Power domains inside minipods, two nodes each: a group of three cannot be held, one of two is proved at once."""
    rows = [(minipod, f"{minipod}{i // 2}", "") for minipod in "ab" for i in range(4)]
    held = (Hold("dp", "@power"),)
    three = place(cluster_of(rows), job_of(3, 1, holds=held))
    assert three.status == "infeasible"
    assert says(three.reason, "every dp group", "one @power", "1 blocks of 3 nodes")
    two = place(cluster_of(rows), job_of(2, 4, alpha=0.0, holds=held))
    assert (two.status, two.objective) == ("optimal", 2.0)


def test_a_node_in_no_domain_is_one_by_itself() -> None:
    """Nothing says that two nodes without a power domain share one, so no group of two is held there."""
    rows = [("a", "", ""), ("a", "", ""), ("a", "", "")]
    assert place(cluster_of(rows), job_of(2, 1, holds=(Hold("dp", "@power"),))).status == "infeasible"
    assert place(cluster_of(rows), job_of(1, 2, holds=(Hold("dp", "@power"),))).status == "optimal"


def test_soft_terms_beside_the_tree_are_searched() -> None:
    """Weight 2 for each power domain of a DP group of two: one each, inside one minipod, is 1 + 2, and no less is."""
    outcome = place(cluster_of(CROSSED), job_of(2, 2, counts=(Count("dp", "@power", 2.0),)))
    assert (outcome.status, outcome.objective) == ("optimal", 3.0)
    assert outcome.evaluation is not None
    assert outcome.evaluation.by_level["@power"]["dp"] == 1


def test_no_quick_rule_is_better_beside_the_tree() -> None:
    """Two stages, each a TP group of two nodes in a rack; a pipeline has the first nodes of both, or the second.

    x and y of r1, and x and y of r2: each pipeline lies in one power domain, 1 + 2.5.  Trees that the power domains are
    laid into cut racks along them, so that no TP group may have two, and the search on trees gave 6.
    """
    rows = ["m0 r0 z", "m0 r0 -", "m1 r1 -", "m1 r1 x", "m1 r1 -", "m1 r1 y", *["m1 r2 z"] * 3, "m1 r2 y", "m1 r2 x"]
    nodes = []
    for i, row in enumerate(rows):
        minipod, rack, power = row.replace("-", "").split(" ")
        nodes.append(Node(f"n{i}", (minipod, rack), 4, 4, second_path=(power,)))
    cluster = build_cluster(["minipod", "rack"], nodes, second=["@power"])
    job = Job("job", Parallelism(tp=8, pp=2), alpha=0.5, gpus_per_node=4, counts=(Count("pp", "@power", 2.5),))
    ours = place(cluster, job)
    assert (ours.status, ours.objective) == ("optimal", 3.5)
    for algorithm in ALGORITHMS.names(inside="scheduler"):
        other = place(cluster, job, algorithm).objective
        assert other is None or other >= 3.5


def test_racks_that_a_hierarchy_cuts_are_chosen_as_they_are() -> None:
    """Four nodes in a minipod cost 1 wherever they lie, and 0.1 by a term that any placement has; one rack has four.

    Power domains lie inside the minipod, so they are a level below it, and cut the racks: there two racks look no worse
    than the one.
    """
    domains = ["x", "z", "", "", "z", "y", "x"]
    nodes = [Node(f"n{i}", ("m0", f"r{i // 4}"), 2, 2, second_path=(domain,)) for i, domain in enumerate(domains)]
    cluster = build_cluster(["minipod", "rack"], nodes, second=["@power"])
    job = Job("job", Parallelism(tp=2, dp=4), alpha=0.7, gpus_per_node=2, level="minipod")
    job = job.replace(counts=(Count("pp", "@power", 0.1),))
    outcome = place(cluster, job)
    assert (outcome.status, outcome.objective) == ("optimal", 1.1)
    assert outcome.evaluation is not None
    assert outcome.evaluation.by_level["rack"]["dp"] == 1


@pytest.mark.parametrize("algorithm", ["gpu-packing", "best-fit", "topo-aware", "random-fit"])
def test_every_algorithm_heeds_them(algorithm: str) -> None:
    """What an algorithm of the house proposes keeps the constraint, or it says that it found nothing."""
    outcome = place(cluster_of(CROSSED), job_of(2, 2, holds=(Hold("dp", "@power"),)), algorithm)
    assert outcome.status in ("optimal", "feasible", "gave-up")


def test_a_trunk_is_still_a_trunk() -> None:
    """Where nothing joins the minipods, a power domain that both have joins them neither."""
    job = job_of(4, 1, holds=(Hold("dp", "@power"),))
    assert place(cluster_of(CROSSED, joined=False), job).status == "infeasible"


@given(ROWS, st.integers(0, 2))
def test_a_tree_with_a_hierarchy_laid_in_is_a_tree_of_the_same_nodes(
    rows: list[tuple[str, str, str]], depth: int
) -> None:
    """The new level refines what is above and is refined by what is below; domains are never larger than they were."""
    cluster = cluster_of(rows)
    tree = laid_into_tree(cluster, "@power", depth)
    assert [level.name for level in tree.second_levels] == ["@failure"]
    assert tree.levels[depth].name == "@power"
    for closer, broader in zip(tree.levels[1:], tree.levels, strict=False):
        assert (closer.parent_of[closer.domain_of] == broader.domain_of).all()
    for level in tree.levels:
        before = cluster.level(level.name).domain_of
        assert len(np.unique(np.stack([level.domain_of, before]), axis=1)[0]) == len(level)


REPAIRED_HOLDS = [
    (),
    (Hold("dp", "@power"),),
    (Hold("dp", "@power"), Hold("pp", "minipod")),
    (Hold("dp", "@power"), Hold("pp", "@failure")),
]


@given(
    rows=ROWS,
    lost=st.integers(0, 3),
    holds=st.sampled_from(REPAIRED_HOLDS),
    weight=st.sampled_from([None, 0.1, 2.0]),
    prefer=st.sampled_from(["moves", "objective"]),
)
@examples(60)
def test_a_repair_claims_nothing_false_beside_the_tree(
    rows: list[tuple[str, str, str]], lost: int, holds: tuple[Hold, ...], weight: float | None, prefer: str
) -> None:
    """Against all placements on what is left: one that keeps the constraint is found if there is one, as power before
    all levels is a tree on which each of them lies; of several constraints it may be missed.  Both bounds hold.
    """
    cluster = cluster_of(rows)
    counts = () if weight is None else (Count("pp", "@power", weight),)
    job = job_of(2, 2, holds=holds, counts=counts)
    shape = job.grid.rows, job.grid.columns
    every = [np.array(one, dtype=np.int32).reshape(shape) for one in permutations(range(len(rows)), 4)]
    valid = [nodes for nodes in every if _valued(cluster, job, nodes) is not None]
    if not valid:
        return
    before = valid[0]
    gone = int(before.ravel()[lost])
    left = [nodes for nodes in valid if gone not in nodes]
    try:
        found = repair(cluster, job, before, [cluster.names[gone]], prefer=prefer, limits=LIMITS)  # type: ignore[arg-type]
    except Infeasible:
        assert not left
    except SolverTimeout:
        assert len(holds) > 1
    else:
        assert left
        best = min(_valued(cluster, job, nodes) or 0.0 for nodes in left)
        fewest = min(int((nodes != before).sum()) for nodes in left)
        assert found.after.objective == pytest.approx(_valued(cluster, job, found.nodes))
        if prefer == "moves":
            assert found.fewest_moves <= fewest
            alike = [nodes for nodes in left if int((nodes != before).sum()) == len(found.moves)]
            assert found.bound <= min(_valued(cluster, job, nodes) or 0.0 for nodes in alike) + 1e-9
        else:
            assert found.bound <= best + 1e-9
            as_good = [n for n in left if (_valued(cluster, job, n) or 0.0) <= found.after.objective + 1e-9]
            assert found.fewest_moves <= min(int((nodes != before).sum()) for nodes in as_good)


def _valued(cluster: Cluster, job: Job, nodes: np.ndarray) -> float | None:
    try:
        return evaluate(cluster, job, nodes).objective
    except InvalidPlacement:
        return None


def test_a_repair_moves_more_cells_where_the_fewest_moves_break_a_constraint() -> None:
    """A group of two on n0 and n1, both of p1, loses n0; the only spares n2 and n3 are of p2: both cells move.

    A move alone would leave the group in both power domains, so no fewer than two do; one is all that is proved.
    """
    rows = [("a", "p1", ""), ("a", "p1", ""), ("b", "p2", ""), ("b", "p2", "")]
    job = job_of(2, 1, holds=(Hold("dp", "@power"),))
    # n0 and n2 of two racks of a minipod each, so that power is no level of racks
    found = repair(cluster_of(rows), job, np.array([[0], [1]], dtype=np.int32), ["n0"], limits=LIMITS)
    assert (found.nodes.ravel().tolist(), len(found.moves)) == ([2, 3], 2)
    assert found.fewest_moves >= 1


def test_no_repair_is_possible_where_no_placement_keeps_a_constraint() -> None:
    """Of the three nodes that are left no two share a power domain; p1 crossed the minipods before."""
    rows = [("a", "p1", ""), ("b", "p1", ""), ("a", "p2", ""), ("b", "p3", "")]
    job = job_of(2, 1, holds=(Hold("dp", "@power"),))
    with pytest.raises(Infeasible, match=saying("every dp group", "one @power", "1 blocks of 2 nodes")):
        repair(cluster_of(rows), job, np.array([[0], [1]], dtype=np.int32), ["n0"], limits=LIMITS)


def test_a_job_that_lies_on_no_tree_is_placed_anew() -> None:
    """DP groups of two are held in minipods, PP groups of two in power domains, which cross them: no tree has both.

    The nearest spare n4 is of the wrong power domain, and no repair is searched beside it.  Placed anew the job needs
    two nodes of each minipod and power domain: n6 and one of n1 and n7 of p1, and cells whose nodes are alike stay.
    """
    rows = [(minipod, power, "") for power in ("p1", "p2", "p2", "p1") for minipod in "ab"]
    job = job_of(2, 2, holds=(Hold("dp", "minipod"), Hold("pp", "@power")))
    before = np.array([[0, 1], [2, 3]], dtype=np.int32)  # rows are PP groups: n0 and n1 are of p1, n2 and n3 of p2
    found = repair(cluster_of(rows), job, before, ["n0"], limits=LIMITS)
    assert _valued(cluster_of(rows), job, found.nodes) is not None
    assert 0 not in found.nodes
    assert found.fewest_moves == 1
    assert any("placed anew" in note for note in found.notes)


def test_nothing_is_claimed_of_levels_that_a_hierarchy_cuts() -> None:
    """Stages in racks r3 (two nodes), r2 and r1: PP groups need two racks at least.  Laid into the tree power domains
    come before racks and cut r3, so that nothing of what holds there is known of the cluster.
    """
    places = {"n1": ("r3", "p0"), "n3": ("r2", "p1"), "n4": ("r1", "p1"), "n6": ("r3", "p2")}
    nodes = [Node(name, ("m0", rack), 8, 8, second_path=(power,)) for name, (rack, power) in places.items()]
    cluster = build_cluster(["minipod", "rack"], nodes, second=["@power"])
    job = Job("job", Parallelism(tp=8, pp=3), level="minipod", holds=(Hold("cp", "@power"),))
    in_racks = place(cluster, job).closer["rack"]
    assert (in_racks.dp, in_racks.pp) == (1, 2) or not in_racks.proved


def test_two_hierarchies_that_nest_nowhere_keep_the_time_limit() -> None:
    """Of all trees that they can be laid into, those that are left when time is up are not asked any more: a rule that
    takes a tenth of a second is asked a few times in a limit of a tenth of a second, not once a tree.
    """
    cluster = cluster_of([(f"m{i % 2}", f"p{i % 3}", f"f{i % 5}") for i in range(8)])
    counts = (Count("dp", "@power", 0.1), Count("dp", "@failure", 0.1))
    slow, job = _Slow(), job_of(2, 2, counts=counts)
    outcome = run(slow, cluster, job, Limits(seconds=0.1))
    assert outcome.evaluation is not None
    assert slow.asked <= MOST_ASKED


MOST_ASKED = 5  # without either hierarchy, without one of them, and a tree of each; of all trees there are sixteen


class _Slow:
    """The exact search, a tenth of a second late."""

    name = "slow"
    summary = "for tests"

    def __init__(self) -> None:
        self.asked = 0

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Propose, and count how often."""
        self.asked += 1
        sleep(0.1)
        return ALGORITHMS.load("exact").place(cluster, job, limits)


def test_trees_that_cut_fewest_levels_come_first() -> None:
    """Power crosses minipods and racks alike: after racks it cuts nothing, after minipods only racks, before them both.

    Without the constraint the tree is asked as it is.
    """
    rows = [(minipod, power, "") for minipod in "ab" for power in ("p1", "p1", "p2", "p2")]
    recorded = _Recorder()
    run(recorded, cluster_of(rows), job_of(4, 1, alpha=1.0, holds=(Hold("dp", "@power"),)), LIMITS)
    assert recorded.trees == [
        ("minipod", "rack"),
        ("minipod", "rack", "@power"),
        ("minipod", "@power", "rack"),
        ("@power", "minipod", "rack"),
    ]


def test_of_trees_that_cut_as_few_levels_the_broadest_comes_first() -> None:
    """Racks lie inside power domains, which cross minipods: laid in before racks or after them nothing is cut, and a
    domain of power has two racks before them.
    """
    recorded = _Recorder()
    run(recorded, cluster_of(CROSSED), job_of(4, 1, alpha=1.0, holds=(Hold("dp", "@power"),)), LIMITS)
    assert recorded.trees[1] == ("minipod", "@power", "rack")


class _Recorder:
    """The exact search, which notes the levels of each tree that it is asked about."""

    name = "recorder"
    summary = "for tests"

    def __init__(self) -> None:
        self.trees: list[tuple[str, ...]] = []

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Note the levels, and propose."""
        self.trees.append(tuple(level.name for level in cluster.levels))
        return ALGORITHMS.load("exact").place(cluster, job, limits)
