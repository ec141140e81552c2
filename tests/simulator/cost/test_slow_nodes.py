"""One slow node has one price, whatever the model of communication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.job import stage_slowdown
from simulator.cost.calibration import PUBLISHED, Calibration
from simulator.cost.models import alpha_beta, anchored, hierarchical, no_cost, spread_counters
from simulator.cost.shared_flows import SharedFlows
from simulator.cost.step import COMM_MODELS, CommModel, PlacedJob
from simulator.job_record import JobRecord
from simulator.replay import prepare
from simulator.replay_settings import ReplaySettings
from simulator.traces import JobTrace
from tests.case_counts import examples
from tests.simulator.clusters import racks
from tests.simulator.cost.placed import pods, put, slowed
from tests.simulator.runs import finished
from topology.flags import FAULTY, NodeFlag

MODELS: list[Callable[[Calibration], CommModel]] = [
    no_cost,
    anchored,
    spread_counters,
    alpha_beta,
    hierarchical,
    SharedFlows,
]


def slow_first(placed: PlacedJob, factor: float) -> PlacedJob:
    """The same job with its first node slower by a factor."""
    return replace(placed, cluster=slowed(placed.cluster, int(placed.nodes[0, 0]), factor))


@st.composite
def placements(draw: st.DrawFn) -> PlacedJob:
    """Up to 4 x 3 cells of a 7B model anywhere in three minipods; microbatches said or not."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    domains = [[draw(st.integers(0, 2)) for _ in range(columns)] for _ in range(rows)]
    # with one microbatch the network alone takes more than 40 % of the step
    said = {"microbatches": draw(st.none() | st.integers(2, 32)), "alpha": draw(st.floats(0, 1))}
    return put(pods(3, 12), domains, model=None, **said)


@given(placed=placements(), factor=st.floats(1.0, 4.0))
@examples(80)
def test_a_slow_node_costs_the_same_in_every_model(placed: PlacedJob, factor: float) -> None:
    """Wherever the job lies and whatever that costs: compute times (f - 1) * m / (m + p - 1).

    Compute is all of the step on one node, and what 40 % of communication leaves on several.
    """
    stretch = float(stage_slowdown(factor, stages=placed.nodes.shape[1], microbatches=placed.job.microbatches))
    share = 1.0 if placed.nodes.size == 1 else 1.0 - PUBLISHED.communication_share
    models = [make(PUBLISHED) for make in MODELS]
    slow, fast = ([model.relative_step_time(one) for model in models] for one in (slow_first(placed, factor), placed))
    extra = [one - other for one, other in zip(slow, fast, strict=True)]
    assert extra == pytest.approx([share * (stretch - 1.0)] * len(models), abs=1e-9)


@pytest.mark.parametrize("make", MODELS)
@given(placed=placements(), factor=st.floats(1.0, 4.0), overlap=st.floats(0.0, 1.0))
@examples(40)
def test_it_stretches_compute_and_nothing_else(
    make: Callable[[Calibration], CommModel], placed: PlacedJob, factor: float, overlap: float
) -> None:
    """Also where some of the reduction is hidden, so that compute is a larger part of the step."""
    model = make(Calibration(overlap=overlap))
    slow, fast = model.step_time(slow_first(placed, factor)), model.step_time(placed)
    stretch = float(stage_slowdown(factor, stages=placed.nodes.shape[1], microbatches=placed.job.microbatches))
    assert slow.compute == pytest.approx(fast.compute * stretch)
    assert (slow.dp, slow.pp, slow.ideal) == (fast.dp, fast.pp, fast.ideal)


@pytest.mark.parametrize("cost", COMM_MODELS.names())
@pytest.mark.parametrize(("nodes", "seconds"), [(1, 1500), (4, 1300)])
def test_a_replay_charges_it_under_every_cost(cost: str, nodes: int, seconds: float) -> None:
    """1,000 s of work on nodes one of which is flagged as 1.5 times slower, microbatches unknown.

    A job on one node computes all the time: 1,500 s.  One on four nodes of a minipod communicates 40 % of the time,
    which a slow node does not stretch: 600 * 1.5 + 400.
    """
    cluster = racks(nodes)
    cluster = cluster.with_flags([NodeFlag(cluster.names[0], "straggler", 1.5)])
    replay = prepare(JobTrace((JobRecord("j", 0, 1000, 8 * nodes, nodes=nodes),)), cluster, ReplaySettings(cost=cost))
    assert finished(replay.engine).jobs[0].end == pytest.approx(seconds)


def test_faulty_nodes_are_no_slow_ones() -> None:
    """No job is on one, so under ``none`` all run as long as the trace says."""
    cluster = racks(2)
    cluster = cluster.with_flags([NodeFlag(cluster.names[0], "faulty", FAULTY)])
    replay = prepare(JobTrace((JobRecord("j", 0, 1000, 8),)), cluster, ReplaySettings())
    assert finished(replay.engine).jobs[0].end == 1000
