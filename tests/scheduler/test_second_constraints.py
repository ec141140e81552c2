"""Constraints at second hierarchies: power and failure domains that nest with nothing."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import permutations
from time import sleep

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import Infeasible, InvalidPlacement
from scheduler.algorithm_run import run
from scheduler.job import Count, Hold, Job, Parallelism
from scheduler.objective import Evaluation, evaluate, slowest_in_use, step_time
from scheduler.outcome import Outcome
from scheduler.placement.types import ALGORITHMS, Limits, Proposal
from scheduler.repair import repair
from scheduler.subproblems import laid_into_tree
from tests.case_counts import examples
from tests.facts import saying, says
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import NodeFlag

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


def every_worth(cluster: Cluster, job: Job) -> Iterator[Evaluation]:
    """What each placement is worth that there is."""
    shape = job.grid.rows, job.grid.columns
    for nodes in permutations(range(len(cluster)), job.grid.cells):
        with suppress(InvalidPlacement):
            yield evaluate(cluster, job, np.array(nodes, dtype=np.int32).reshape(shape))


def least(cluster: Cluster, job: Job) -> tuple[float, ...] | None:
    """The least of all placements, goal after goal, by trying all of them; ``None`` = there is none."""
    found = [tuple(round(goal, 9) for goal in worth.goals) for worth in every_worth(cluster, job)]
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
def test_constraints_beside_the_tree_are_decided(
    rows: list[tuple[str, str, str]],
    shape: tuple[int, int],
    held: list[Hold],
    counted: list[Count],
    counts_at: tuple[float, str | None],
) -> None:
    """Against all placements: the least goal after goal is found and proved, and what is refused has none."""
    cluster, (alpha, level) = cluster_of(rows), counts_at
    job = job_of(*shape, alpha=alpha, level=level, holds=(*held, Hold("dp", "@power")), counts=tuple(counted))
    outcome, best = place(cluster, job), least(cluster, job)
    if best is None:
        assert outcome.status == "infeasible"
        return
    assert outcome.status == "optimal"
    assert outcome.evaluation is not None
    assert outcome.evaluation.goals == pytest.approx(best)
    assert all(level.proved for level in outcome.closer.values())


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


@given(
    rows=ROWS,
    slow=st.lists(st.sampled_from([1.0, 1.0, 1.05, 1.3]), min_size=6, max_size=6),
    constraints=st.sampled_from(
        [
            ((Hold("dp", "@power"),), ()),
            ((), (Count("pp", "@failure", 0.7),)),
            ((Hold("pp", "@power"),), (Count("dp", "@failure", 0.1),)),
        ]
    ),
    price=st.sampled_from([0.02, 0.5]),
)
@examples(60)
def test_slow_nodes_are_weighed_against_spread_beside_the_tree(
    rows: list[tuple[str, str, str]],
    slow: list[float],
    constraints: tuple[tuple[Hold, ...], tuple[Count, ...]],
    price: float,
) -> None:
    """Against all placements: no predicted step is shorter than that of the answer, which is proved."""
    cluster = cluster_of(rows)
    cluster = cluster.with_flags(
        NodeFlag(name, slowdown=slowdown) for name, slowdown in zip(cluster.names, slow, strict=False) if slowdown > 1.0
    )
    job = job_of(2, 2, holds=constraints[0], counts=constraints[1], spread_cost=price, microbatches=4)
    times = [
        step_time(job, objective=worth.objective, slowest=slowest_in_use(cluster, worth))
        for worth in every_worth(cluster, job)
    ]
    outcome = place(cluster, job)
    if not times:
        assert outcome.status == "infeasible"
        return
    assert outcome.status == "optimal"
    assert outcome.evaluation is not None
    slowest = slowest_in_use(cluster, outcome.evaluation)
    assert step_time(job, objective=outcome.evaluation.objective, slowest=slowest) == pytest.approx(min(times))


def test_a_group_lies_in_as_many_minipods_as_its_power_domain_asks() -> None:
    """One DP group of four nodes inside one power domain lies in two minipods, as each has two nodes of it: 2.0, and
    with alpha 1 nothing else counts.
    """
    job = job_of(4, 1, alpha=1.0, holds=(Hold("dp", "@power"),))
    outcome = place(cluster_of(CROSSED), job)
    assert (outcome.status, outcome.objective, outcome.bound) == ("optimal", 2.0, 2.0)


CROSSING = {
    # two TP groups of two nodes in a rack each, their first nodes on one feed and their second ones on one: n0 (r0, c)
    # and n5 (r0, b) with n2 (r1, c) and n3 (r1, b), all in one pod
    "parts of TP groups": (
        ["pod", "rack"],
        "p0 r0 c, p0 r0 a, p0 r1 c, p0 r1 b, p0 r1 b, p0 r0 b",
        Job("job", Parallelism(tp=8, dp=2), alpha=0.7, gpus_per_node=4, level="pod", holds=(Hold("dp", "@power"),)),
        ("optimal", 1.0),
    ),
    # two pipelines on feed b, of which p0 has one node, p1 one and p2 two, and one on feed a, in p1 and p0: no pod has
    # two pipelines, so stages of three touch two pods at least, and so does the pipeline on a: 0.5 * 2 + 0.5 * 2
    "pipelines on three feeds": (
        ["pod", "rack"],
        "p0 r0 c, p0 r0 b, p2 r2 b, p1 r1 a, p2 r2 b, p1 r1 b, p0 r0 a",
        job_of(3, 2, alpha=0.5, level="pod", holds=(Hold("pp", "@power"),)),
        ("optimal", 2.0),
    ),
    # two TP groups of two nodes in two racks: R is 2, 0.9 * 2 + 0.1 * 1, and 0.1 more for one feed
    "a soft term": (
        ["rack"],
        "r0 b, r0 a, r1 c, r2 b, r2 a, r1 a",
        Job(
            "job",
            Parallelism(tp=4, pp=2),
            alpha=0.1,
            gpus_per_node=2,
            level="rack",
            tp_level="rack",
            counts=(Count("pp", "@power", 0.1),),
        ),
        ("optimal", 2.0),
    ),
    # six nodes of pod p3, of which one is on another feed than the rest: a stage of two has both feeds
    "nothing fits": (
        ["pod", "rack"],
        "p3 r1 a, p3 r1 a, p3 r1 a, p3 r1 a, p3 r4 a, p2 r3 a, p3 r1 b",
        Job(
            "job",
            Parallelism(tp=2, pp=3, dp=2),
            alpha=0.7,
            gpus_per_node=2,
            holds=(Hold("pp", "pod"), Hold("dp", "@power")),
        ),
        ("infeasible", None),
    ),
}
"""Levels, nodes, a job, and what all placements come to."""


@pytest.mark.parametrize("name", CROSSING)
def test_what_no_tree_shows_is_decided(name: str) -> None:
    """No tree that feeds are laid into has these placements, or shows that there is none."""
    levels, rows, job, expected = CROSSING[name]
    paths = [row.split() for row in rows.split(", ")]
    gpus = job.gpus_per_node
    nodes = [Node(f"n{i}", tuple(path), gpus, gpus, second_path=(feed,)) for i, (*path, feed) in enumerate(paths)]
    cluster = build_cluster(levels, nodes, second=["@power"])
    outcome, best = place(cluster, job), least(cluster, job)
    assert (outcome.status, outcome.objective) == expected
    assert (best and best[0]) == expected[1]


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
def test_a_repair_is_decided_beside_the_tree(
    rows: list[tuple[str, str, str]], lost: int, holds: tuple[Hold, ...], weight: float | None, prefer: str
) -> None:
    """Against all placements on what is left: the fewest moves and the best objective are found and proved."""
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
    if not left:
        with pytest.raises(Infeasible):
            repair(cluster, job, before, [cluster.names[gone]], prefer=prefer, limits=LIMITS)  # type: ignore[arg-type]
        return
    found = repair(cluster, job, before, [cluster.names[gone]], prefer=prefer, limits=LIMITS)  # type: ignore[arg-type]
    worth = [(int((nodes != before).sum()), round(_valued(cluster, job, nodes) or 0.0, 9)) for nodes in left]
    moved, objective = min(worth) if prefer == "moves" else min(worth, key=lambda pair: pair[::-1])
    assert len(found.moves) == moved
    assert found.after.objective == pytest.approx(objective)
    assert found.after.objective == pytest.approx(_valued(cluster, job, found.nodes))
    assert found.moves_proved
    assert found.objective_proved


def _valued(cluster: Cluster, job: Job, nodes: np.ndarray) -> float | None:
    try:
        return evaluate(cluster, job, nodes).objective
    except InvalidPlacement:
        return None


def test_a_repair_moves_more_cells_where_the_fewest_moves_break_a_constraint() -> None:
    """A group of two on n0 and n1, both of p1, loses n0; the only spares n2 and n3 are of p2: both cells move.

    A move alone would leave the group in both power domains, so no fewer than two do.
    """
    rows = [("a", "p1", ""), ("a", "p1", ""), ("b", "p2", ""), ("b", "p2", "")]
    job = job_of(2, 1, holds=(Hold("dp", "@power"),))
    found = repair(cluster_of(rows), job, np.array([[0], [1]], dtype=np.int32), ["n0"], limits=LIMITS)
    assert (found.nodes.ravel().tolist(), len(found.moves)) == ([2, 3], 2)
    assert found.fewest_moves == 2


def test_no_repair_is_possible_where_no_placement_keeps_a_constraint() -> None:
    """Of the three nodes that are left no two share a power domain; p1 crossed the minipods before."""
    rows = [("a", "p1", ""), ("b", "p1", ""), ("a", "p2", ""), ("b", "p3", "")]
    job = job_of(2, 1, holds=(Hold("dp", "@power"),))
    with pytest.raises(Infeasible, match=saying("2 cells", "one @power")):
        repair(cluster_of(rows), job, np.array([[0], [1]], dtype=np.int32), ["n0"], limits=LIMITS)


def test_a_repair_that_lies_on_no_tree_moves_as_little_as_can_be() -> None:
    """DP groups of two are held in minipods, PP groups of two in power domains, which cross them: no tree has both.

    n0 of p1 is lost, and the nearest spare n4 is of p2: n6 alone is of its minipod and of p1, so one cell moves there.
    """
    rows = [(minipod, power, "") for power in ("p1", "p2", "p2", "p1") for minipod in "ab"]
    job = job_of(2, 2, holds=(Hold("dp", "minipod"), Hold("pp", "@power")))
    before = np.array([[0, 1], [2, 3]], dtype=np.int32)  # rows are PP groups: n0 and n1 are of p1, n2 and n3 of p2
    found = repair(cluster_of(rows), job, before, ["n0"], limits=LIMITS)
    assert found.nodes.tolist() == [[6, 1], [2, 3]]
    assert found.moves_proved


def test_a_slower_spare_is_taken_where_only_that_keeps_a_constraint() -> None:
    """The lost node's group needs another node of p1; the healthy spare is of p2, the one of p1 is slow."""
    rows = [("a", "p1", ""), ("a", "p1", ""), ("a", "p2", ""), ("b", "p1", "")]
    cluster = cluster_of(rows).with_flags([NodeFlag("n3", slowdown=1.2)])
    job = job_of(2, 1, holds=(Hold("dp", "@power"),))
    found = repair(cluster, job, np.array([[0], [1]], dtype=np.int32), ["n0"], limits=LIMITS)
    assert found.nodes.ravel().tolist() == [3, 1]


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


class OnlyBeside:
    """An algorithm that finds nothing where the job's level is one of the tree, as on clusters of many domains in short
    time; where it is the second hierarchy it is the exact one.
    """

    name, summary = "only-beside", "made for a test"

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Time runs out, or the search decides."""
        if job.level != "@power":
            return Proposal(None, complete=False)
        return ALGORITHMS.load("exact").place(cluster, job, limits)


def test_where_the_search_finds_nothing_what_is_held_together_is_placed_by_itself() -> None:
    """Two rows of two, each held in a power domain, of two nodes each across minipods: each row gets one."""
    cluster = cluster_of([("a", "p", "f"), ("a", "q", "f"), ("b", "p", "f"), ("b", "q", "f")])
    outcome = run(OnlyBeside(), cluster, job_of(2, 2, level="minipod", holds=(Hold("pp", "@power"),)), LIMITS)
    assert outcome.evaluation is not None
    assert outcome.evaluation.by_level["@power"]["pp"] == 1
    # nothing was searched at the minipods, so nothing is claimed beyond one domain a group
    assert (outcome.status, outcome.bound) == ("feasible", 1.0)
