"""Preferred nodes, near data or with images, break ties and nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.algorithm_run import run
from scheduler.job import ContainerImage, Job, Parallelism, Speed
from scheduler.objective import slowest_in_use, worth_of
from scheduler.outcome import Outcome
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.subproblems import pulls_of
from tests.case_counts import examples
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, IntArray, Node
from topology.flags import NodeFlag
from topology.generate import fragment, minipods

LIMITS = Limits(seconds=5.0, workers=1, clock="work")


def gang(rows: int, columns: int, **more: object) -> Job:
    """A grid of whole nodes."""
    return Job("j", Parallelism(tp=8, dp=rows, pp=columns)).replace(**more)


def both(cluster: Cluster, job: Job, weights: dict[str, float], name: str = "exact") -> tuple[Outcome, Outcome]:
    """The outcome without weights and with them."""
    algorithm = ALGORITHMS.load(name)
    costs = np.array([-weights.get(name, 0.0) for name in cluster.names])
    return run(algorithm, cluster, job, LIMITS), run(algorithm, cluster, job, LIMITS, costs=costs)


def weight_of(cluster: Cluster, outcome: Outcome, weights: dict[str, float]) -> float:
    """The weight that a placement has."""
    assert outcome.proposal.nodes is not None
    return sum(weights.get(cluster.names[node], 0.0) for node in outcome.proposal.nodes.ravel().tolist())


@examples(48)
@given(
    seed=st.integers(0, 2**16),
    rows=st.integers(1, 4),
    columns=st.integers(1, 3),
    chosen=st.sets(st.integers(0, 23), max_size=16),
    slow=st.sets(st.integers(0, 23), max_size=2),
    name=st.sampled_from(["exact", "exact", "best-fit"]),
)
def test_nothing_is_given_up_for_weight(
    *, seed: int, rows: int, columns: int, chosen: set[int], slow: set[int], name: str
) -> None:
    """Objective, bound, status, closer levels and slow nodes are no worse, and the weight is no less."""
    cluster = fragment(minipods(minipods=3, nodes=24, rack_nodes=2), busy_share=0.3, seed=seed)
    cluster = cluster.replace(flags={i: NodeFlag(cluster.names[i], "straggler", 1.4) for i in slow})
    weights = {cluster.names[i]: 1.0 + i % 3 for i in chosen}
    job = gang(rows, columns)
    plain, preferring = both(cluster, job, weights, name)
    # a rule that is no search may meet the bound on the preferred nodes, and on all of them not
    assert preferring.status == plain.status or (plain.status, preferring.status) == ("feasible", "optimal")
    if plain.evaluation is None or preferring.evaluation is None:
        return
    assert preferring.evaluation.objective <= plain.evaluation.objective + 1e-9
    assert preferring.bound == plain.bound
    assert slowest_in_use(cluster, preferring.evaluation) <= slowest_in_use(cluster, plain.evaluation)
    assert [*preferring.evaluation.closer.values()] <= [*plain.evaluation.closer.values()]
    assert weight_of(cluster, preferring, weights) >= weight_of(cluster, plain, weights)


@examples(60)
@given(
    racks=st.lists(st.sampled_from(["a-r0", "a-r1", "b-r2", "b-r3"]), min_size=5, max_size=7),
    costs=st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.5]), min_size=7, max_size=7),
    slow=st.sets(st.integers(0, 6), max_size=2),
    shape=st.sampled_from([(1, 3), (2, 2), (3, 1), (5, 1)]),
    alpha=st.sampled_from([0.3, 0.5]),
)
def test_no_placement_as_good_costs_less(
    racks: list[str], costs: list[float], slow: set[int], shape: tuple[int, int], alpha: float
) -> None:
    """Against all placements that are as good goal by goal, with no slower node and no more slow ones."""
    nodes = [Node(f"n{i}", (rack[0], rack), 8, 8, 1.3 if i in slow else 1.0) for i, rack in enumerate(racks)]
    cluster, job = build_cluster(["minipod", "rack"], nodes), gang(*shape, alpha=alpha)
    price = np.array(costs[: len(nodes)])
    found = run(EXACT, cluster, job, LIMITS, costs=price)
    assert found.evaluation is not None
    assert found.proposal.nodes is not None
    most, slowest = found.evaluation.goals, slowest_in_use(cluster, found.evaluation)
    least = min(
        price[list(chosen)].sum()
        for chosen in permutations(range(len(nodes)), job.grid.cells)
        if (worth := worth_of(cluster, job, np.array(chosen, dtype=np.int32).reshape(shape))) is not None
        if all(cost <= limit + 1e-9 for cost, limit in zip(worth.goals, most, strict=True))
        if slowest_in_use(cluster, worth) <= slowest and len(worth.flagged) <= len(found.evaluation.flagged)
    )
    assert price[found.proposal.nodes].sum() == pytest.approx(least)


def test_a_whole_minipod_of_preferred_nodes_is_taken() -> None:
    """Each of the three minipods would do; the one with weight is taken, whichever that is."""
    cluster = minipods(minipods=3, nodes=24, rack_nodes=2)
    for minipod in range(3):
        names = [cluster.names[i] for i in np.flatnonzero(cluster.levels[0].domain_of == minipod)]
        _, found = both(cluster, gang(4, 2), dict.fromkeys(names, 1.0))
        assert found.evaluation is not None
        assert [*found.evaluation.domains.values()] == [8]
        assert weight_of(cluster, found, dict.fromkeys(names, 1.0)) == 8
        assert any("8 of 8 nodes share a " in note for note in found.notes)


def test_weight_does_not_split_a_job() -> None:
    """Preferred nodes that lie in two minipods are left, for the job is whole in one: weight costs no spread."""
    cluster = minipods(minipods=2, nodes=16, rack_nodes=2)
    weights = dict.fromkeys([cluster.names[i] for i in (0, 1, 8, 9)], 1.0)
    _, found = both(cluster, gang(4, 1), weights)
    assert found.evaluation is not None
    assert (found.evaluation.objective, weight_of(cluster, found, weights)) == (1.0, 2.0)


def test_the_largest_weight_comes_first() -> None:
    """A rack of weight 2 is taken before one of weight 1."""
    cluster = minipods(minipods=2, nodes=16, rack_nodes=2)
    weights = {cluster.names[2]: 1.0, cluster.names[3]: 1.0, cluster.names[12]: 2.0, cluster.names[13]: 2.0}
    _, found = both(cluster, gang(2, 1), weights)
    assert weight_of(cluster, found, weights) == 4.0


def test_the_proof_stands() -> None:
    """On a fragmented cluster the answer is proved optimal with weights as it is without."""
    cluster = fragment(minipods(minipods=4, nodes=32, rack_nodes=4), busy_share=0.4, seed=3)
    rng = Random(1)
    weights = {name: rng.random() for name in cluster.names}
    plain, found = both(cluster, gang(4, 2), weights)
    assert (plain.status, found.status) == ("optimal", "optimal")
    assert found.proposal.refutations == plain.proposal.refutations


EXACT = ALGORITHMS.load("exact")
IMAGE = ContainerImage("train:1", 18.0)


def nodes_in_racks(*sizes: int, warm: str = "", slow: str = "") -> Cluster:
    """Racks of so many nodes, named n0, n1, ...; some have the image."""
    racks = [rack for rack, size in enumerate(sizes) for _ in range(size)]
    slowdown = dict.fromkeys(slow.split(), 1.5)
    rows = [
        Node(f"n{i}", (f"p{rack // 2}", f"r{rack}"), 8, 8, slowdown.get(f"n{i}", 1.0)) for i, rack in enumerate(racks)
    ]
    return build_cluster(["pod", "rack"], rows).replace(
        cached={IMAGE.name: frozenset(warm.split()), "other": frozenset()}
    )


def images_gang(dp: int, pp: int = 1, **more: object) -> Job:
    """A job of whole nodes that names the image."""
    return Job("job", Parallelism(tp=8, dp=dp, pp=pp), images=(IMAGE,), **more)  # type: ignore[arg-type]


def used(cluster: Cluster, outcome: Outcome) -> set[str]:
    """Names of the nodes of a placement."""
    assert outcome.proposal.nodes is not None
    return {cluster.names[i] for i in outcome.proposal.nodes.ravel()}


def test_warm_nodes_of_a_domain_come_first() -> None:
    """Of a rack of four the two that have the image; the note is gone with the last cold one."""
    cluster = nodes_in_racks(4, 4, warm="n2 n3")
    outcome = run(EXACT, cluster, images_gang(2), LIMITS)
    assert used(cluster, outcome) == {"n2", "n3"}
    assert not [note for note in outcome.notes if "pull" in note]


def test_another_domain_is_taken_for_warm_nodes_if_it_is_as_good() -> None:
    """Two pods are worth the same; the warm one is taken, from whatever was found first."""
    for warm in ("n0 n1 n2 n3", "n4 n5 n6 n7", "n8 n9 n10 n11"):
        cluster = nodes_in_racks(4, 4, 4, 4, warm=warm)
        assert used(cluster, run(EXACT, cluster, images_gang(4), LIMITS)) == {*warm.split()}


def test_spread_comes_before_warm_nodes() -> None:
    """Four warm nodes lie in two pods: one pod, cold, is better; it is said what warm nodes alone would give."""
    cluster = nodes_in_racks(2, 2, 2, 2, warm="n0 n1 n4 n5")
    outcome = run(EXACT, cluster, images_gang(4), LIMITS)
    assert outcome.spread is not None
    assert outcome.spread.dp == 1
    assert says(outcome.notes[-1], "2 of 4 nodes", "18 GB", "proved optimal", "DP spread 2")
    assert "objective 1.3" in outcome.notes[-1]


def test_a_slow_node_is_not_taken_for_being_warm() -> None:
    """The only warm node is slow: healthy, cold ones stay."""
    cluster = nodes_in_racks(3, warm="n2", slow="n2")
    assert used(cluster, run(EXACT, cluster, images_gang(2), LIMITS)) == {"n0", "n1"}


def test_other_algorithms_keep_to_their_rule() -> None:
    """What claims no bound is only told what it would pull."""
    cluster = nodes_in_racks(4, warm="n3")
    best_fit = ALGORITHMS.load("best-fit")
    outcome = run(best_fit, cluster, images_gang(2), LIMITS)
    assert used(cluster, outcome) == used(cluster, run(best_fit, cluster, images_gang(2).replace(images=()), LIMITS))
    assert "would pull" in outcome.notes[-1]


def test_what_nodes_would_pull() -> None:
    """The sum over images that they lack; nothing where the cluster says of no node what it has."""
    cluster = nodes_in_racks(2, warm="n1")
    job = images_gang(2).replace(images=(IMAGE, ContainerImage("tools", 2.0)))
    assert pulls_of(cluster, job) == pytest.approx(np.array([20.0, 2.0]))
    assert pulls_of(cluster.replace(cached={}), job) is None
    assert pulls_of(cluster, job.replace(images=())) is None


@given(
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=5),
    shape=st.sampled_from([(2, 1), (1, 2), (2, 2), (3, 1)]),
    seed=st.integers(0, 99),
)
@examples(40)
def test_nothing_else_changes(sizes: list[int], shape: tuple[int, int], seed: int) -> None:
    """Spreads, objective, status and bound are those without images, no closer spread is worse, and no more is cold.

    Where warm nodes alone are as good at every level, nothing is cold.
    """
    rng = np.random.default_rng(seed)
    names = [f"n{i}" for i in range(sum(sizes))]
    warm, slow = (" ".join(name for name in names if rng.random() < share) for share in (0.5, 0.1))
    cluster, job = nodes_in_racks(*sizes, warm=warm, slow=slow), images_gang(*shape)
    plain, found = run(EXACT, cluster, job.replace(images=()), LIMITS), run(EXACT, cluster, job, LIMITS)
    assert (found.status, found.spread, found.objective, found.bound) == (
        plain.status, plain.spread, plain.objective, plain.bound,
    )  # fmt: skip
    if plain.evaluation is None or found.evaluation is None:
        return
    for level, spreads in plain.evaluation.by_level.items():
        assert all(found.evaluation.by_level[level][family] <= most for family, most in spreads.items())
    cold = {*names} - {*warm.split()}
    assert len(used(cluster, found) & cold) <= len(used(cluster, plain) & cold)
    alone = run(EXACT, cluster.with_busy(map(cluster.index, cold)), job.replace(images=()), LIMITS)
    if alone.evaluation is not None and replace(alone.evaluation, domains={}) == replace(plain.evaluation, domains={}):
        assert not used(cluster, found) & cold


def test_preferred_nodes_decide_between_trunks() -> None:
    """Two pods that nothing joins are worth the same; the job goes where its nodes are preferred."""
    cluster = minipods(minipods=2, nodes=16, rack_nodes=2).replace(joined=False)
    assert cluster.trunks is not None
    for trunk in range(2):
        names = [cluster.names[i] for i in np.flatnonzero(cluster.levels[0].domain_of == trunk)]
        _, found = both(cluster, gang(2, 2), dict.fromkeys(names, 1.0))
        assert weight_of(cluster, found, dict.fromkeys(names, 1.0)) == 4.0


def test_full_affinity_weighs_one_gb() -> None:
    """One pod is cold and near the data, the other warm: 18 GB decide against an affinity of 1, half a GB does not."""
    cluster, near = nodes_in_racks(2, 2, 2, 2, warm="n4 n5 n6 n7"), np.arange(8) < 4
    for gb, expected in ((18.0, {"n4", "n5", "n6", "n7"}), (0.5, {"n0", "n1", "n2", "n3"})):
        job = images_gang(4).replace(images=(ContainerImage(IMAGE.name, gb),))
        pulls = pulls_of(cluster, job)
        assert pulls is not None
        assert used(cluster, run(EXACT, cluster, job, LIMITS, costs=pulls - near)) == expected


def typed_racks(*rows: str, warm: set[int]) -> Cluster:
    """Racks of nodes, two racks a pod, a letter for the type of each; nodes by number have the image."""
    letters = [(rack, letter) for rack, row in enumerate(rows) for letter in row]
    nodes = [Node(f"n{i}", (f"p{rack // 2}", f"r{rack}"), 8, 8, gpu_type=it) for i, (rack, it) in enumerate(letters)]
    return build_cluster(["pod", "rack"], nodes).replace(cached={IMAGE.name: frozenset(f"n{i}" for i in warm)})


def test_warm_nodes_decide_between_types() -> None:
    """Two types are worth the same, and of A more nodes are left: B is warm, so B is taken, unless it is slower."""
    cluster = typed_racks("AAA", "", "BB", warm={3, 4})
    outcome = run(EXACT, cluster, images_gang(2), LIMITS)
    assert used(cluster, outcome) == {"n3", "n4"}
    assert outcome.status == "optimal"
    assert [(one.gpu_types, one.chosen) for one in outcome.types] == [(("A",), False), (("B",), True)]
    slower = images_gang(2, speed=(Speed("B", 0.9),))
    assert used(cluster, run(EXACT, cluster, slower, LIMITS)) < {"n0", "n1", "n2"}


@given(
    rows=st.lists(st.text("AB", min_size=1, max_size=2), min_size=2, max_size=3),
    shape=st.sampled_from([(2, 1), (1, 2), (3, 1), (2, 2)]),
    warm=st.sets(st.integers(0, 5)),
    b=st.sampled_from([1.0, 1.0, 0.8]),
    mix=st.booleans(),
)
@examples(40)
def test_types_against_all_placements(
    *, rows: list[str], shape: tuple[int, int], warm: set[int], b: float, mix: bool
) -> None:
    """Of all placements there are on any type, none has less objective over speed; and if one that has the same speed
    and spreads at all levels, on no more types, is warm, what is found is warm, else no colder than without images.
    """
    cluster = typed_racks(*rows, warm=warm)
    job = images_gang(*shape, speed=(Speed("B", b),), mix_types=mix)
    plain, found = run(EXACT, cluster, job.replace(images=()), LIMITS), run(EXACT, cluster, job, LIMITS)
    if found.evaluation is None or plain.evaluation is None:
        assert found.status == plain.status
        return
    orders = permutations(range(len(cluster)), job.grid.cells)
    every = [np.array(one).reshape(job.grid.rows, job.grid.columns) for one in orders]
    worths = [(nodes, worth) for nodes in every if (worth := worth_of(cluster, job, nodes)) is not None]
    costs = [worth.objective / job.speed_on(worth.gpu_types) for _, worth in worths]
    best = found.evaluation
    assert best.objective / job.speed_on(best.gpu_types) == pytest.approx(min(costs))
    cold = {name for i, name in enumerate(cluster.names) if i not in warm}

    def coldness(nodes: IntArray) -> int:
        return len({cluster.names[i] for i in nodes.ravel()} & cold)

    assert found.proposal.nodes is not None
    assert plain.proposal.nodes is not None
    assert coldness(found.proposal.nodes) <= coldness(plain.proposal.nodes)
    alike = [
        coldness(nodes)
        for nodes, worth in worths
        if worth.by_level == plain.evaluation.by_level
        and job.speed_on(worth.gpu_types) == job.speed_on(plain.evaluation.gpu_types)
        and len(worth.gpu_types) <= len(plain.evaluation.gpu_types)
    ]
    assert min(alike) > 0 or coldness(found.proposal.nodes) == 0
