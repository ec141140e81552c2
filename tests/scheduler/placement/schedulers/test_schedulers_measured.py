"""The rules of other schedulers, re-implemented, against what the real ones did on real control planes.

Slurm 26.05.5 on 128 nodes in blocks of 16, of which 57 are busy here and there: recordings, where they are at hand.

Measured: Kubernetes 1.36.3 with Kueue v0.15.0 and Volcano v1.14.1, gangs of whole nodes on empty clusters whose names
sort as (minipod, rack, host), racks of eight.  (S, R) = DP spread and PP spread at minipod level.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.outcome import Outcome
from scheduler.placement.heuristic import Heuristic, RankOrder
from scheduler.placement.schedulers.kueue import kueue
from scheduler.placement.schedulers.slurm import slurm_block
from scheduler.placement.schedulers.volcano import kube_scheduler, volcano_hard, volcano_partitions, volcano_soft
from scheduler.placement.types import Limits
from topology.cluster import Cluster
from topology.generate import minipods
from topology.load import load_topology
from topology.node_names import expand_hostlist

Make = Callable[[RankOrder], Heuristic]
Spreads = tuple[int, int]


@cache
def cluster(pods: int, nodes: int) -> Cluster:
    """An empty cluster, nodes split evenly."""
    return minipods(minipods=pods, nodes=nodes, rack_nodes=8)


SMALL = cluster(11, 1019), Job("46x8", Parallelism(tp=8, dp=46, pp=8))
LARGE = cluster(22, 2046), Job("150x8", Parallelism(tp=8, dp=150, pp=8))


def outcome(make: Make, instance: tuple[Cluster, Job], order: RankOrder, seed: int = 0) -> Outcome:
    """One run of a peer."""
    return run(make(order), *instance, Limits(seed=seed))


def spreads(make: Make, instance: tuple[Cluster, Job], order: RankOrder, seed: int = 0) -> Spreads:
    """(S, R) of a run that places the job."""
    evaluation = outcome(make, instance, order, seed).evaluation
    assert evaluation is not None
    return evaluation.dp, evaluation.pp


EXACT: list[tuple[str, Make, list[Spreads | None]]] = [
    ("Kueue preferred", lambda order: kueue(order=order), [(2, 4), (4, 2), (3, 8), (13, 2)]),
    ("Kueue slice of P", lambda order: kueue(slices="p", order=order), [(2, 5), (5, 1), (3, 8), (14, 1)]),
    ("Kueue slice of D", lambda order: kueue(slices="d", order=order), [(1, 4), (4, 2), None, None]),
    ("Volcano hard", lambda order: volcano_hard(order=order), [(2, 4), (4, 2), (3, 8), (13, 2)]),
    ("Volcano P", lambda order: volcano_partitions(of="p", order=order), [(2, 5), (5, 1), (3, 8), (14, 1)]),
]
"""Name, how to make it, and (S, R) on 46 x 8 with ranks down the columns and along the rows, then on 150 x 8.

``None`` = never admitted."""

RANDOM: list[tuple[str, Make, list[Spreads]]] = [
    ("kube-scheduler", lambda order: kube_scheduler(order=order), [(11, 7), (11, 7), (22, 8), (22, 8)]),
    ("Volcano soft", lambda order: volcano_soft(order=order), [(8, 8), (11, 4), (17, 8), (22, 5)]),
]
"""The same for those that draw nodes at random: one measured run each."""

COLUMNS: list[tuple[tuple[Cluster, Job], RankOrder]] = [
    (SMALL, "columns"),
    (SMALL, "rows"),
    (LARGE, "columns"),
    (LARGE, "rows"),
]


@pytest.mark.parametrize(("make", "measured"), [row[1:] for row in EXACT], ids=[row[0] for row in EXACT])
def test_rule_gives_the_measured_numbers(make: Make, measured: list[Spreads | None]) -> None:
    """Where chance plays no part in the spread, the numbers are the measured ones."""
    for (instance, order), expected in zip(COLUMNS, measured, strict=True):
        if expected is None:
            refused = outcome(make, instance, order)
            assert refused.status == "infeasible"
            assert "0 out of 8 slices of 150 pods" in refused.reason
        else:
            assert spreads(make, instance, order) == expected


@pytest.mark.parametrize(("make", "measured"), [row[1:] for row in RANDOM], ids=[row[0] for row in RANDOM])
def test_random_choice_stays_near_the_measured_run(make: Make, measured: list[Spreads]) -> None:
    """One measured run is one draw: ours differs from it by at most one domain in each number.

    Other seeds scatter as much among themselves (Volcano soft, S on 150 x 8: 16 to 19).
    """
    for (instance, order), (dp, pp) in zip(COLUMNS, measured, strict=True):
        found = spreads(make, instance, order)
        assert abs(found[0] - dp) <= 1
        assert abs(found[1] - pp) <= 1


def test_hard_mode_does_not_depend_on_chance() -> None:
    """Volcano hard draws minipods at random, and any draw gives the same spread."""
    assert {spreads(lambda order: volcano_hard(order=order), SMALL, "rows", seed) for seed in range(4)} == {(4, 2)}


def test_slurm_segments_go_where_those_of_a_real_slurm_went() -> None:
    """23 jobs of 8 to 56 nodes in segments of 2 to 24, one at a time: of each as many nodes in every block, or refused.

    BlockSizes is 16, so that segments of 20 and 24 nodes may take any two blocks of the whole topology.
    """
    data = os.environ.get("ARNOLD_DATA")
    if not data:
        pytest.skip("ARNOLD_DATA is not set: the recordings are not part of the project")
    folder = Path(data) / "real" / "slurm_live" / "26.05"
    cluster = load_topology(folder / "topology_nvl.txt", gpus_per_node=8).cluster
    assert cluster.blocks is not None
    assert cluster.blocks.sizes == (16,)
    lines = (folder / "jobs.txt").read_text(encoding="utf-8").splitlines()
    jobs = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines]
    away = {
        *expand_hostlist(next(job["NodeList"] for job in jobs if job["JobName"] == "busy")),
        "n0020",
        "n0034",
        "n0100",
    }
    left = cluster.replace(free_gpus=np.array([0 if name in away else 8 for name in cluster.names], dtype=np.int32))
    shapes = [job for job in jobs if job["JobName"] == "shape"]
    assert len(shapes) == 23
    for shape in shapes:
        nodes, segment = int(shape["NumNodes"]), int(shape["SegmentSize"])
        asked = Job("shape", Parallelism(tp=8, dp=nodes // segment, pp=segment))
        evaluation = run(slurm_block(segment="p", order="rows"), left, asked, Limits()).evaluation
        names = expand_hostlist(shape["NodeList"]) if shape["NodeList"] else []
        chosen = Counter(left.node(name).path[-1] for name in names)
        assert ({} if evaluation is None else evaluation.domains) == chosen, shape["SubmitLine"]
