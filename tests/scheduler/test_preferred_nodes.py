"""Preferred nodes break ties and nothing else: against the algorithm without them, and by hand."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.objective import closer_costs, slowest_in_use
from scheduler.outcome import Outcome
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.preferred_nodes import PreferredNodes
from tests.case_counts import examples
from topology.cluster import Cluster
from topology.flags import NodeFlag
from topology.generate import fragment, minipods

LIMITS = Limits(seconds=5.0, workers=1, clock="work")


def gang(rows: int, columns: int, **more: object) -> Job:
    """A grid of whole nodes."""
    return Job("j", Parallelism(tp=8, dp=rows, pp=columns)).replace(**more)


def both(cluster: Cluster, job: Job, weights: dict[str, float], name: str = "exact") -> tuple[Outcome, Outcome]:
    """The outcome without weights and with them."""
    algorithm = ALGORITHMS.load(name)
    preferring = PreferredNodes(algorithm, weights, "are preferred")
    return run(algorithm, cluster, job, LIMITS), run(preferring, cluster, job, LIMITS)


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
    assert closer_costs(cluster, job, preferring.evaluation) <= closer_costs(cluster, job, plain.evaluation)
    assert weight_of(cluster, preferring, weights) >= weight_of(cluster, plain, weights)


def test_a_whole_minipod_of_preferred_nodes_is_taken() -> None:
    """Each of the three minipods would do; the one with weight is taken, whichever that is."""
    cluster = minipods(minipods=3, nodes=24, rack_nodes=2)
    for minipod in range(3):
        names = [cluster.names[i] for i in np.flatnonzero(cluster.levels[0].domain_of == minipod)]
        _, found = both(cluster, gang(4, 2), dict.fromkeys(names, 1.0))
        assert found.evaluation is not None
        assert [*found.evaluation.domains.values()] == [8]
        assert weight_of(cluster, found, dict.fromkeys(names, 1.0)) == 8
        assert any("8 of 8 nodes are preferred" in note for note in found.notes)


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
