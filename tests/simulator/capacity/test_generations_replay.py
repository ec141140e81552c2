"""Runs on several generations of GPUs: the cluster, which jobs are made, and a run by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from simulator.capacity.generations import NODE_GPUS, family_of, generations_run, kinds, mixed_cluster, workload
from simulator.job_record import JobRecord
from simulator.throughputs import Throughputs
from simulator.traces import JobTrace
from tests.case_counts import examples
from tests.facts import saying

TYPES = ("A", "B")
NET = Throughputs({("net", 4): {"A": (2.0, None), "B": (1.0, None)}, ("big", 16): {"A": (1.0, None)}}, "A", "t.csv")
"""A model on 4 GPUs, half as fast on B; and one of a size that the workload has not."""


@given(nodes=st.integers(1, 6), types=st.sampled_from([("A",), TYPES, ("C", "A", "B")]))
def test_as_many_gpus_of_each_type(nodes: int, types: tuple[str, ...]) -> None:
    """Nodes of four GPUs in turns of each type, under one switch, all free."""
    cluster = mixed_cluster(types, NODE_GPUS * nodes)
    assert dict(cluster.nodes_of_type) == dict.fromkeys(types, nodes)
    assert [name.partition("-")[0] for name in cluster.names] == [*types] * nodes
    assert cluster.gpus.tolist() == cluster.free_gpus.tolist() == [NODE_GPUS] * len(types) * nodes
    assert len(cluster.levels[0]) == 1


def test_which_models_jobs_train() -> None:
    """Those with a size of the workload that run on the reference and on one of the types, by size."""
    assert kinds(NET, TYPES) == {4: ["net"]}
    slow = Throughputs({("net", 4): {"A": (0.0, None), "B": (1.0, None)}}, "A", "t.csv")
    with pytest.raises(InvalidInput, match=saying("t.csv", "1, 2, 4, 8 GPUs of type A")):
        kinds(slow, TYPES)
    with pytest.raises(InvalidInput, match="no model runs"):
        kinds(NET, ("C",))


@examples(24)
@given(count=st.integers(1, 30), seed=st.integers(0, 99), rate=st.sampled_from([None, 0.5, 20.0]))
def test_jobs_of_a_workload(count: int, seed: int, rate: float | None) -> None:
    """As many as are wished, in order of submission, of the kinds that there are; same seed, same jobs."""
    made = workload(NET, TYPES, count=count, per_hour=rate, seed=seed).records
    assert [one.job_id for one in made] == [f"job-{i + 1}" for i in range(count)]
    assert {(one.model, one.gpus) for one in made} == {("net", 4)}
    submits = [one.submit for one in made]
    assert submits == sorted(submits)
    assert (rate is None) == (max(submits) == 0.0)
    assert made == workload(NET, TYPES, count=count, per_hour=rate, seed=seed).records


def test_a_run_by_hand() -> None:
    """Two jobs of 4 GPUs and an hour on A, one node of each type, first come first served: the first on A ends after
    an hour, the second, on B at half of the speed, after two.  So the mean is an hour and a half, and nothing stops.
    """
    trace = JobTrace(tuple(JobRecord(f"j{i}", 0.0, 3_600.0, 4, model="net") for i in range(2)), source="by hand")
    found = generations_run(trace, mixed_cluster(TYPES, 4), NET, policy="fifo", seed=0, resume=0.0)
    assert (found.jct, found.makespan, found.stops) == (pytest.approx(5_400.0), pytest.approx(7_200.0), 0)
    assert found.on == {}


def test_rounds_share_the_fast_type() -> None:
    """The same under gavel: both have both types in turns, so that each ends later than on A alone and sooner than on
    B alone; the GPU time that a family had is counted by type.
    """
    trace = JobTrace(tuple(JobRecord(f"j{i}", 0.0, 3_600.0, 4, model="net") for i in range(2)), source="by hand")
    found = generations_run(trace, mixed_cluster(TYPES, 4), NET, policy="gavel", seed=0, resume=0.0)
    assert 3_600.0 < found.makespan < 7_200.0
    assert found.stops > 0
    assert {*found.on} == {("net", "A"), ("net", "B")}
    # work is GPU time on A, and half of it on B: two jobs of four GPU-hours
    assert found.on["net", "A"] + found.on["net", "B"] / 2 == pytest.approx(2 * 4 * 3_600.0, rel=1e-6)


@pytest.mark.parametrize(
    ("model", "family"), [("ResNet-18 (batch size 16)", "ResNet-18"), ("net", "net"), (None, "None")]
)
def test_families_have_no_batch_size(model: object, family: str) -> None:
    """What stands before the batch size."""
    assert family_of(model) == family
