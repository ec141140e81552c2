"""Cold nodes: few of them among placements that are worth the same, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.algorithm_run import run
from scheduler.cold_nodes import pulls_of
from scheduler.job import ContainerImage, Job, Parallelism
from scheduler.outcome import Outcome
from scheduler.placement.types import ALGORITHMS, Limits
from tests.case_counts import examples
from topology.build import build_cluster
from topology.cluster import Cluster, Node

EXACT = ALGORITHMS.load("exact")
LIMITS = Limits(workers=1)
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


def gang(dp: int, pp: int = 1, **more: object) -> Job:
    """A job of whole nodes that names the image."""
    return Job("job", Parallelism(tp=8, dp=dp, pp=pp), images=(IMAGE,), **more)  # type: ignore[arg-type]


def used(cluster: Cluster, outcome: Outcome) -> set[str]:
    """Names of the nodes of a placement."""
    assert outcome.proposal.nodes is not None
    return {cluster.names[i] for i in outcome.proposal.nodes.ravel()}


def test_warm_nodes_of_a_domain_come_first() -> None:
    """Of a rack of four the two that have the image; the note is gone with the last cold one."""
    cluster = nodes_in_racks(4, 4, warm="n2 n3")
    outcome = run(EXACT, cluster, gang(2), LIMITS)
    assert used(cluster, outcome) == {"n2", "n3"}
    assert not [note for note in outcome.notes if "pull" in note]


def test_another_domain_is_taken_for_warm_nodes_if_it_is_as_good() -> None:
    """Two pods are worth the same; the warm one is taken, from whatever was found first."""
    for warm in ("n0 n1 n2 n3", "n4 n5 n6 n7", "n8 n9 n10 n11"):
        cluster = nodes_in_racks(4, 4, 4, 4, warm=warm)
        assert used(cluster, run(EXACT, cluster, gang(4), LIMITS)) == {*warm.split()}


def test_spread_comes_before_warm_nodes() -> None:
    """Four warm nodes lie in two pods: one pod, cold, is better; it is said what warm nodes alone would give."""
    cluster = nodes_in_racks(2, 2, 2, 2, warm="n0 n1 n4 n5")
    outcome = run(EXACT, cluster, gang(4), LIMITS)
    assert outcome.spread is not None
    assert outcome.spread.dp == 1
    assert (
        "2 of 4 nodes would pull up to 18 GB; on warm nodes alone: proved optimal: DP spread 2, " in outcome.notes[-1]
    )
    assert outcome.notes[-1].endswith("objective 1.3.")


def test_a_slow_node_is_not_taken_for_being_warm() -> None:
    """The only warm node is slow: healthy, cold ones stay."""
    cluster = nodes_in_racks(3, warm="n2", slow="n2")
    assert used(cluster, run(EXACT, cluster, gang(2), LIMITS)) == {"n0", "n1"}


def test_other_algorithms_keep_to_their_rule() -> None:
    """What claims no bound is only told what it would pull."""
    cluster = nodes_in_racks(4, warm="n3")
    best_fit = ALGORITHMS.load("best-fit")
    outcome = run(best_fit, cluster, gang(2), LIMITS)
    assert used(cluster, outcome) == used(cluster, run(best_fit, cluster, gang(2).replace(images=()), LIMITS))
    assert "would pull" in outcome.notes[-1]


def test_what_nodes_would_pull() -> None:
    """The sum over images that they lack; nothing where the cluster says of no node what it has."""
    cluster = nodes_in_racks(2, warm="n1")
    job = gang(2).replace(images=(IMAGE, ContainerImage("tools", 2.0)))
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
    cluster, job = nodes_in_racks(*sizes, warm=warm, slow=slow), gang(*shape)
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
