"""How good a placement lies: the best swap against all swaps, and what is compared with what."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput, InvalidPlacement
from ground.files import Source
from scheduler.audit import audit, best_swap
from scheduler.job import Count, Hold, Job, Parallelism, Speed
from scheduler.job_files.placement_file import load_order
from scheduler.objective import evaluate, worth_of
from scheduler.placement.types import ALGORITHMS, Limits, Proposal
from tests.case_counts import examples
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, Node


def cluster_of(domains: list[tuple[str, str]]) -> Cluster:
    """Return nodes n0, n1, ... of 8 free GPUs, each in a pod and a rack of its own."""
    return build_cluster(["pod", "rack"], [Node(f"n{i}", path, 8, 8) for i, path in enumerate(domains)])


@st.composite
def placements(draw: st.DrawFn) -> tuple[Cluster, Job, np.ndarray]:
    """Draw a cluster of up to 12 nodes, a job with soft and hard terms or without, and any valid placement."""
    count = draw(st.integers(2, 12))
    racks = [(f"p{draw(st.integers(0, 1))}", draw(st.integers(0, 2))) for _ in range(count)]
    cluster = cluster_of([(pod, f"{pod}r{rack}") for pod, rack in racks])
    dp, pp = draw(st.sampled_from([(a, b) for a in range(1, 5) for b in range(1, 5) if a * b <= count]))
    counts = draw(st.sampled_from([(), (Count("pp", "rack", 0.3),)]))
    level, alpha = draw(st.sampled_from(["pod", "rack"])), draw(st.sampled_from([0.3, 0.5, 1.0]))
    job = Job("j", Parallelism(tp=8, dp=dp, pp=pp), gpus_per_node=8, level=level, counts=counts, alpha=alpha)
    chosen = draw(st.permutations(range(count)))[: dp * pp]
    return cluster, job, np.array(chosen, dtype=np.int32).reshape(dp, pp)


@given(placed=placements())
@examples(500)
def test_no_swap_helps_more(placed: tuple[Cluster, Job, np.ndarray]) -> None:
    """The best of all pairs of cells, each tried, is as good as the one returned; where none helps none is returned."""
    cluster, job, nodes = placed
    now = evaluate(cluster, job, nodes)
    best, complete = best_swap(cluster, job, nodes, now, seconds=10.0)
    least = now.goals
    for first, second in combinations(np.ndindex(nodes.shape), 2):
        swapped = nodes.copy()
        swapped[first], swapped[second] = nodes[second], nodes[first]
        worth = worth_of(cluster, job, swapped)
        least = least if worth is None else min(least, worth.goals)
    assert complete
    assert (now.goals if best is None else best.evaluation.goals) == least
    assert (best is None) == (least == now.goals)


RACKS = [("p", "r0")] * 3 + [("p", "r1")] * 3 + [("p", "r2")] * 2


def two_by_two(**changes: object) -> Job:
    """Return a job of 2 x 2 nodes that counts racks, alpha 0.5."""
    return Job("j", Parallelism(tp=8, dp=2, pp=2), gpus_per_node=8, level="rack", alpha=0.5).replace(**changes)


def test_four_questions_and_a_swap() -> None:
    """A job on n0 and n1 of r0, n3 of r1 and n6 of r2; n2 and n4 are free, n5 and n7 in use by others.

    It has 2.0 to 2.5; on its own nodes two lie together, and the others apart, so one of the two spreads is 2 at least.
    """
    cluster = cluster_of(RACKS).with_busy([5, 7])
    nodes = np.array([[0, 3], [6, 1]], dtype=np.int32)
    result = audit(cluster, two_by_two(), nodes, solver=ALGORITHMS.load("exact"), limits=Limits())
    # rows {r0, r1}, {r2, r0}, columns {r0, r2}, {r1, r0}: two domains each
    assert (result.evaluation.dp, result.evaluation.pp, result.broken) == (2, 2, "")
    objectives = {name: outcome.objective for name, outcome in result.possible.items()}
    # with the two of r0 in one row the other row has r1 and r2: 2 for rows, 2 for columns; no order is better
    assert objectives["same_nodes"] == 2.0
    # free are n0 to n4 and n6, as the cluster shows the job's own nodes free: 2 and 2, one group to a rack
    assert objectives["restart"] == 1.5
    assert objectives["empty_cluster"] == 1.5
    assert result.swap is None


def test_a_placement_that_breaks_a_hold_is_weighed_all_the_same() -> None:
    """PP groups are to stay in a rack, and one does not: that is said, and the spreads are counted."""
    job = two_by_two(holds=(Hold("pp", "rack"),))
    nodes = np.array([[0, 3], [1, 2]], dtype=np.int32)
    result = audit(cluster_of(RACKS), job, nodes, solver=ALGORITHMS.load("exact"), limits=Limits())
    assert says(result.broken, "pp", "rack")
    assert (result.evaluation.dp, result.evaluation.pp) == (2, 2)
    assert result.possible["same_nodes"].status == "infeasible"
    assert result.possible["restart"].spread is not None
    assert result.possible["restart"].spread.pp == 1


@pytest.mark.parametrize("rule", ["types", "trunks"])
def test_a_job_that_should_not_be_where_it_runs(rule: str) -> None:
    """It has nodes of two types of GPU, or below two switches that nothing joins: that is said, its spreads counted."""
    cluster = cluster_of([("p" if rack == "r0" else "q", rack) for _, rack in RACKS])
    if rule == "types":
        cluster, facts = cluster.with_gpu_types({0: "H100", 1: "H200"}), ("H100", "H200")
    else:
        cluster, facts = cluster.replace(joined=False), ("joins", "'p'", "'q'")
    nodes = np.array([[0, 3], [1, 6]], dtype=np.int32)
    result = audit(cluster, two_by_two(), nodes, solver=ALGORITHMS.load("exact"), limits=Limits())
    assert says(result.broken, *facts)
    assert (result.evaluation.dp, result.evaluation.pp) == (2, 2)
    assert result.possible["same_nodes"].status == "infeasible"


def test_the_best_is_by_the_speed_of_its_gpus() -> None:
    """Two slow nodes in one rack have 1.0, two fast ones in racks of their own 1.5: these are better from a speed of
    1.5 on.
    """
    rows = [(f"{kind}{i}", kind if kind == "slow" else f"{kind}{i}") for kind in ("slow", "fast") for i in range(2)]
    cluster = build_cluster(["rack"], [Node(name, (rack,), 8, 8, gpu_type=name[:4]) for name, rack in rows])
    pair = Job("j", Parallelism(tp=8, dp=2), gpus_per_node=8, level="rack", alpha=0.5)
    nodes = np.array([[0], [1]], dtype=np.int32)
    for factor, least in ((1.4, 1.0), (1.6, 1.5)):
        job = pair.replace(speed=(Speed("fast", factor),))
        possible = audit(cluster, job, nodes, solver=ALGORITHMS.load("exact"), limits=Limits()).possible
        assert {name: outcome.objective for name, outcome in possible.items()} == {
            "same_nodes": 1.0, "free_nodes": least, "restart": least, "empty_cluster": least,
        }  # fmt: skip


ORDERS = {
    "host file": "n0\nn1\nn3\nn6\n",
    "a line a rank": "".join(f"{node}\n" * 8 for node in ("n0", "n1", "n3", "n6")),
    "rankfile": "rank 1=n1 slot=0\nrank 0=n0 slot=0\nrank 3=n6 slot=0\nrank 2=n3 slot=0\n",
    "torchrun": "".join(
        f"{node} torchrun --nnodes=4 --master-addr=n0 --node-rank={rank}\n"
        for rank, node in ((2, "n3"), (0, "n0"), (3, "n6"), (1, "n1"))
    ),
    "host file of Open MPI": "n0 slots=8\nn1 slots=8 max_slots=8\nn3 slots = 8\nn6\n",
    "host file of MPICH": "n0:8\nn1:8\nn3:8\nn6:8\n",
    "batch script": "#!/bin/bash\n#SBATCH --nodes=4\n<< 'END OF NODES'\nn0\nn1\nn3\nn6\nEND OF NODES\nsrun\n",
    "hostlist": "n[0-1],n[3,6]\n",
    "with comments": "# mine\nn0 # first\n\nn1\nn3.example.com\nn6\n",
}


@pytest.mark.parametrize("text", ORDERS.values(), ids=ORDERS.keys())
def test_files_that_say_the_order_of_ranks(text: str) -> None:
    """Node rank 0 is row 0 of stage 0, rank 1 row 1 of stage 0: ranks run down the columns."""
    nodes = load_order(Source("file", text), cluster_of(RACKS), two_by_two())
    assert nodes.tolist() == [[0, 3], [1, 6]]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("n0\nn1\nn3\n", ("3 nodes", "4")),
        ("n0\nn1\nn3\nn3\n", ("'n3'", "file:3")),
        ("n0\nn1\nn3\nx\n", ("'x'",)),
        ("rank 0=n0\nrank 0=n1\n", ("rank 0",)),
        ("rank 0=n0\nrank 1=n1\nrank 2=n3\nrank 4=n6\n", ("rank 3", "rank 4")),
        ("n0\nn1\nn[3\n", ("character",)),
    ],
)
def test_files_that_say_none(text: str, facts: tuple[str, ...]) -> None:
    """Too few lines, a node twice, a stranger, a rank twice or left out, a broken hostlist: each with file and line."""
    with pytest.raises((InvalidInput, InvalidPlacement)) as error:
        load_order(Source("file", text), cluster_of(RACKS), two_by_two())
    assert says(error.value.message, *facts)
    assert error.value.where.startswith("file")


def test_a_placement_gives_its_ranks_to_a_job_that_is_cut_otherwise() -> None:
    """It was placed with ranks down the columns, n0 and n1, then n3 and n6: along the rows that is n0, n1 of row 0."""
    cells = ", ".join(
        f'{{"node": "{node}", "dp": {dp}, "pp": {pp}}}'
        for node, dp, pp in (("n0", 0, 0), ("n3", 0, 1), ("n1", 1, 0), ("n6", 1, 1))
    )
    job = '{"name": "j", "parallelism": {"tp": 8, "dp": 2, "pp": 2}, "gpus_per_node": 8}'
    source = Source("file", f'{{"job": {job}, "assignment": [{cells}]}}')
    for order, nodes in (("tp-cp-ep-dp-pp", [[0, 3], [1, 6]]), ("tp-cp-ep-pp-dp", [[0, 1], [3, 6]])):
        asked = two_by_two(parallelism=Parallelism(tp=8, dp=2, pp=2, order=order))
        assert load_order(source, cluster_of(RACKS), asked).tolist() == nodes
    asked = two_by_two(parallelism=Parallelism(tp=8, dp=4))
    assert load_order(source, cluster_of(RACKS), asked).tolist() == [[0], [1], [3], [6]]


def test_a_last_node_with_fewer_ranks() -> None:
    """Three replicas of four GPUs fill a node and half of another: the file for Open MPI has twelve lines."""
    job = Job("j", Parallelism(tp=4, dp=3), gpus_per_node=8, level="pod")
    text = "".join(f"rank {rank}={'n3' if rank < 8 else 'n1'} slot={rank % 8}\n" for rank in range(12))
    assert load_order(Source("file", text), cluster_of(RACKS), job).tolist() == [[3], [1]]


def test_ranks_that_go_round_the_nodes() -> None:
    """Of 24 ranks dealt to three nodes in turn every eighth is on another node: no order of the nodes, though."""
    job, text = Job("j", Parallelism(tp=8, dp=3), gpus_per_node=8, level="pod"), "n0\nn1\nn3\n" * 8
    with pytest.raises(InvalidPlacement) as error:
        load_order(Source("file", text), cluster_of(RACKS), job)
    assert says(error.value.message, "rank 1", "'n1'")
    assert says(error.value.fix, "--distribution=block")
    assert error.value.where == "file:2"


def test_swaps_end_with_the_time_limit() -> None:
    """Two rows of two, each over both pods: one swap puts each into a pod, and with no time for any none is tried."""
    cluster = cluster_of([("p0", "a"), ("p1", "c"), ("p0", "b"), ("p1", "d")])
    job = Job("j", Parallelism(tp=8, dp=2, pp=2), gpus_per_node=8, level="pod", alpha=0.0)
    nodes = np.array([[0, 1], [2, 3]], dtype=np.int32)
    now = evaluate(cluster, job, nodes)
    swap, complete = best_swap(cluster, job, nodes, now, seconds=10.0)
    assert complete
    assert swap is not None
    assert swap.evaluation.objective == 1.0
    assert best_swap(cluster, job, nodes, now, seconds=1e-9) == (None, False)


class Worst:
    """An algorithm that lays rows over all pods, or finds nothing."""

    name, summary = "worst", "made for a test"

    def __init__(self, nodes: np.ndarray | None) -> None:
        self._nodes = nodes

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """The nodes it was given, with a bound that is none."""
        return Proposal(self._nodes, complete=self._nodes is not None)


@pytest.mark.parametrize("nodes", [np.array([[0, 1], [2, 3]], dtype=np.int32), None])
def test_what_runs_is_known_to_the_search(nodes: np.ndarray | None) -> None:
    """A placement with PP spread 1 is had on its own nodes whatever a search ends with: spread 2, or nothing."""
    cluster = cluster_of([("p0", "a"), ("p1", "c"), ("p0", "b"), ("p1", "d")])
    job = Job("j", Parallelism(tp=8, dp=2, pp=2), gpus_per_node=8, level="pod", alpha=0.0)
    running = np.array([[0, 2], [1, 3]], dtype=np.int32)
    outcome = audit(cluster, job, running, solver=Worst(nodes), limits=Limits()).possible["same_nodes"]
    assert (outcome.status, outcome.objective, outcome.reason) == ("optimal", 1.0, "")
