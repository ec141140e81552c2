"""Repairs of jobs that hold groups at second hierarchies, against all placements of tiny instances."""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Literal

import numpy as np
import pytest

from ground.errors import Infeasible, InvalidPlacement
from scheduler.job import Hold, Job, Parallelism
from scheduler.objective import evaluate
from scheduler.placement.types import Limits
from scheduler.repair import repair
from tests.case_counts import every_fourth
from tests.facts import saying, says
from topology.build import build_cluster
from topology.cluster import Cluster, IntArray, Node

LIMITS = Limits(seconds=10.0)
HELD = Job("job", Parallelism(tp=8, dp=2, pp=2), alpha=0.3, level="minipod", holds=(Hold("dp", "@power"),))
"""Two pipelines of two stages, each stage on one power feed."""


def cluster_of(random: Random) -> Cluster:
    """Five to seven nodes in two minipods, on three feeds that nest with neither minipods nor racks."""
    nodes = [
        Node(f"n{i}", (minipod, f"{minipod}-r{i % 2}"), 8, 8, second_path=(f"p{random.randint(0, 2)}",))
        for i in range(random.randint(5, 7))
        for minipod in [f"m{random.randint(0, 1)}"]
    ]
    return build_cluster(["minipod", "rack"], nodes, second=["@power"])


def all_placements(cluster: Cluster) -> dict[bytes, tuple[IntArray, float]]:
    """Every valid placement of HELD with its objective."""
    found = {}
    for nodes in permutations(range(len(cluster)), 4):
        grid = np.array(nodes, dtype=np.int32).reshape(HELD.grid.rows, HELD.grid.columns)
        try:
            found[grid.tobytes()] = grid, evaluate(cluster, HELD, grid).objective
        except InvalidPlacement:
            continue
    return found


@pytest.mark.many_cases
@pytest.mark.parametrize("prefer", ["moves", "objective"])
def test_what_can_be_repaired_is(prefer: Literal["moves", "objective"]) -> None:
    """One of four nodes is lost, on seeded clusters on which some placement is left: every one is repaired, with the
    constraint, and with the fewest moves there are where these come first.  Without looking at the constraint more than
    half of the repairs break it.
    """
    tried = 0
    for seed in every_fourth(range(64)):
        random = Random(seed)
        cluster = cluster_of(random)
        valid = list(all_placements(cluster).values())
        if not valid:
            continue
        before, _ = random.choice(valid)
        gone = int(before.ravel()[random.randint(0, 3)])
        left = [(nodes, objective) for nodes, objective in valid if gone not in nodes]
        if not left:
            continue
        tried += 1
        found = repair(cluster, HELD, before, [cluster.names[gone]], prefer=prefer, limits=LIMITS)
        assert found.after.by_level["@power"]["dp"] == 1
        assert found.after.objective == pytest.approx(evaluate(cluster, HELD, found.nodes).objective)
        if prefer == "moves":
            assert len(found.moves) == min(int((nodes != before).sum()) for nodes, _ in left)
            alike = [objective for nodes, objective in left if int((nodes != before).sum()) == len(found.moves)]
            assert found.bound <= min(alike) + 1e-9
        else:
            assert found.bound <= min(objective for _, objective in left) + 1e-9
    assert tried >= 5


def test_a_repair_that_is_impossible_is_refused() -> None:
    """Two nodes on each of two feeds, and a spare on a third: the stage that lost a node cannot be whole again."""
    nodes = [
        Node(f"n{i}", ("m", f"r{i}"), 8, 8, second_path=(feed,)) for i, feed in enumerate(["a", "a", "b", "b", "c"])
    ]
    cluster = build_cluster(["minipod", "rack"], nodes, second=["@power"])
    before = np.array([[0, 2], [1, 3]], dtype=np.int32)
    with pytest.raises(Infeasible, match=saying("2 cells", "@power")) as error:
        repair(cluster, HELD, before, ["n0"], limits=LIMITS)
    assert says(error.value.fix, "2 more nodes of 8 GPUs", "one domain", "smaller job")
