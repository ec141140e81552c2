"""Backfilling on nodes, EASY and conservative, with gangs, shares and parts of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.queue.conservative import ConservativeBackfill, Reserved
from scheduler.queue.fifo_and_backfill import FifoBackfill
from scheduler.queue.policy import ClusterState, HeldNodes, QueuePolicy, Waiting
from simulator.engine import Engine
from simulator.job_record import JobRecord
from simulator.pools import NodePool
from tests.case_counts import examples
from tests.simulator.clusters import racks
from tests.simulator.drawn_traces import SHAPES, traces
from tests.simulator.naive import Naive, replay
from tests.simulator.runs import finished, placed_run
from topology.build import build_cluster
from topology.cluster import Cluster, Node

Gang = tuple[int, int, int]
"""Submission, duration and whole nodes of a job."""

NODES = 12

# Few distinct numbers, so that ends and submissions often fall on one instant and jobs on the edge of fitting.
GANGS = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9), st.integers(1, NODES)), min_size=1, max_size=30).map(
    lambda gangs: sorted(gangs, key=lambda gang: gang[0])
)


def starts_on(cluster: Cluster, gangs: Sequence[Gang], algorithm: str, policy: QueuePolicy) -> list[float]:
    """When jobs of whole nodes start."""
    records = [JobRecord(f"j{i}", at, takes, 8 * nodes, nodes=nodes) for i, (at, takes, nodes) in enumerate(gangs)]
    room = NodePool(cluster, algorithm=ALGORITHMS.load(algorithm), limits=Limits(workers=1))
    return [job.started for job in finished(Engine(records, room, policy)).jobs]


class Promising(FifoBackfill):
    """Remembers the earliest start that each first in the queue was promised."""

    def __init__(self) -> None:
        self.promised: dict[object, float] = {}

    def holds(self, blocked: Sequence[Waiting], cluster: ClusterState) -> Sequence[HeldNodes]:
        """As EASY does."""
        holds = super().holds(blocked, cluster)
        key = blocked[0].key
        self.promised[key] = min(self.promised.get(key, inf), holds[0].until)
        return holds


class Reserving(ConservativeBackfill):
    """Remembers the first reservation of each, and the earliest that each had as the first in the queue."""

    def __init__(self) -> None:
        super().__init__()
        self.at_submission: dict[object, float] = {}
        self.as_the_first: dict[object, float] = {}

    def holds(self, blocked: Sequence[Waiting], cluster: ClusterState) -> Sequence[HeldNodes]:
        """As conservative backfilling does."""
        (hold,) = super().holds(blocked, cluster)
        assert isinstance(hold, Reserved)
        for job, start in zip(blocked, hold.reservations.starts, strict=True):
            self.at_submission.setdefault(job.key, start)
        first, start = blocked[0].key, hold.reservations.starts[0]
        self.as_the_first[first] = min(start, self.as_the_first.get(first, inf))
        return [hold]


MIXED = build_cluster(
    ["rack"], [Node(f"n{i}", (f"r{i % 3}",), gpus, gpus) for i, gpus in enumerate([8] * 6 + [16] * 2)]
)

TRUNKS = racks(8, per_rack=3, racks_per_pod=1).replace(joined=False)
"""Of three, three and two nodes."""


TYPES = racks(8, per_rack=3, racks_per_pod=1).with_gpu_types(dict(enumerate("ABCABCAB")))
"""Of three, three and two nodes, none of two types in a gang."""


@pytest.mark.parametrize("conservative", [False, True], ids=["easy", "conservative"])
@pytest.mark.parametrize(
    "cluster", [racks(6, per_rack=3), MIXED, TRUNKS, TYPES], ids=["equal", "two larger nodes", "trunks", "types"]
)
@given(data=st.data())
@examples(120)
def test_the_first_is_never_delayed(cluster: Cluster, conservative: bool, data: st.DataObject) -> None:
    """With exact predictions it starts by the earliest start that was ever found for it as the first, whoever passes.

    Whole nodes, parts of nodes, and on the second cluster jobs that only the larger nodes can hold; on the third and
    fourth none that is larger than a trunk or a type of GPU.
    """
    larger = [(16, 1), (12, 1), (32, 2), (24, 2)] if cluster is MIXED else []
    most = 3 if cluster is TRUNKS or cluster is TYPES else len(cluster)
    shapes = [(gpus, nodes) for gpus, nodes in [*SHAPES, *larger] if nodes <= most]
    records = data.draw(traces(most=20, shapes=shapes))
    policy = Reserving() if conservative else Promising()
    engine = placed_run(cluster, records, policy)
    for key, promised in (policy.as_the_first if isinstance(policy, Reserving) else policy.promised).items():
        assert isinstance(key, int)
        assert engine.jobs[key].started <= promised


@pytest.mark.parametrize("algorithm", ["gpu-packing", "exact"])
@pytest.mark.parametrize("policy", [FifoBackfill(), ConservativeBackfill()], ids=lambda policy: policy.name)
@given(gangs=GANGS)
@examples(60)
def test_on_whole_nodes_it_is_the_definition(policy: QueuePolicy, algorithm: str, gangs: list[Gang]) -> None:
    """Lifka's and Mu'alem and Feitelson's backfilling counts, and a cluster of whole nodes is a count of them.

    EASY: with E the nodes that are free at the shadow time beyond what the first needs, a job behind it starts if it
    ends by then or takes at most E.  Conservative: each starts as soon as so many are free for all its time, beside
    those before it.  Every start is that of a simulator that does just this (``naive.easy``, ``naive.conservative``).
    """
    counted = replay([Naive(i, *gang) for i, gang in enumerate(gangs)], NODES, policy.name)
    assert starts_on(racks(NODES, per_rack=3, racks_per_pod=2), gangs, algorithm, policy) == counted


@given(gangs=GANGS, algorithm=st.sampled_from(["gpu-packing", "exact"]))
@examples(100)
def test_nobody_starts_after_the_reservation_that_it_had_when_it_came(gangs: list[Gang], algorithm: str) -> None:
    """Conservative backfilling on whole nodes, where all run as long as expected, wherever they are placed."""
    policy = Reserving()
    starts = starts_on(racks(NODES, per_rack=3, racks_per_pod=2), gangs, algorithm, policy)
    assert all(starts[key] <= reserved for key, reserved in policy.at_submission.items() if isinstance(key, int))


@given(gangs=GANGS, order=st.permutations(range(NODES)))
@examples(60)
def test_names_and_places_of_nodes_change_no_start(gangs: list[Gang], order: list[int]) -> None:
    """The same nodes in another order, so that each has another number and other neighbours: the same starts."""
    cluster = racks(NODES, per_rack=3, racks_per_pod=2)
    nodes = list(cluster)
    other = build_cluster(["pod", "rack"], [nodes[i] for i in order])
    easy = FifoBackfill()
    assert starts_on(other, gangs, "gpu-packing", easy) == starts_on(cluster, gangs, "gpu-packing", easy)


def test_one_node_is_over_whichever_it_is() -> None:
    """Two of four nodes are free and two come back at 10, when a gang of three starts: one of the free ones is over.

    A job of 50 s takes it at once; a second one would take a node that the gang needs, and waits until that ends.
    """
    before = [JobRecord("brief", 0, 1, 16, nodes=2), JobRecord("busy", 0, 10, 16, nodes=2)]
    gang = JobRecord("gang", 1, 5, 24, nodes=3)
    long = [JobRecord(name, 2, 50, 8, nodes=1) for name in ("long", "other")]
    engine = placed_run(racks(4), [*before, gang, *long], FifoBackfill())
    assert [job.started for job in engine.jobs] == [0, 0, 10, 2, 15]


def test_a_short_job_passes_and_a_long_one_does_not() -> None:
    """One of two nodes is taken until 10, and a gang of both waits: on the other one a job may run for 10 s, not 11."""
    taken, gang = JobRecord("taken", 0, 10, 8, nodes=1), JobRecord("gang", 0, 5, 16, nodes=2)
    long, short = JobRecord("long", 0, 11, 8, nodes=1), JobRecord("short", 0, 10, 8, nodes=1)
    engine = placed_run(racks(2), [taken, gang, long, short], FifoBackfill())
    assert [job.started for job in engine.jobs] == [0, 10, 15, 0]


@pytest.mark.parametrize(("gpus", "starts"), [(3, 0), (4, 15)])
def test_a_long_job_passes_on_gpus_that_the_first_does_not_need(gpus: int, starts: float) -> None:
    """Until 10 one node is full, of the other 4 GPUs are in use; a gang of 5 GPUs on both waits.

    At 10 the gang needs 5 of 8 on each node: 3 of the other may go to a job of any length at once, 4 only when it has
    its nodes, and then they are not there: the job of 4 waits until the gang ends.
    """
    before = [JobRecord("full", 0, 10, 8, nodes=1), JobRecord("part", 0, 10, 4, nodes=1)]
    gang, long = JobRecord("gang", 0, 5, 10, nodes=2), JobRecord("long", 0, 99, gpus, nodes=1)
    engine = placed_run(racks(2), [*before, gang, long], FifoBackfill())
    assert [job.started for job in engine.jobs] == [0, 0, 10, starts]


def test_reservations_keep_more_than_the_first_from_waiting() -> None:
    """Two of three nodes are taken until 10, and gangs of two and of three, of 5 s each, wait for 10 and 15.

    A job of one node for 28 s takes nothing of the first, so by EASY it starts, and the second waits until it ends.
    """
    before = JobRecord("busy", 0, 10, 16, nodes=2)
    gangs = [JobRecord("two", 1, 5, 16, nodes=2), JobRecord("three", 1, 5, 24, nodes=3)]
    long = JobRecord("long", 2, 28, 8, nodes=1)
    records = [before, *gangs, long]
    assert [job.started for job in placed_run(racks(3), records, FifoBackfill()).jobs] == [0, 10, 30, 2]
    assert [job.started for job in placed_run(racks(3), records, ConservativeBackfill()).jobs] == [0, 10, 15, 20]
