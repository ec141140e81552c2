"""Traffic of a job and the schedule of its pipeline, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.affinity import Model, volumes
from scheduler.job import Job, Parallelism
from simulator.cost.calibration import Calibration
from simulator.cost.hierarchical import Crossing, hierarchical
from simulator.cost.spread_price import no_cost
from simulator.cost.step import pipeline_seconds, reduction_seconds
from simulator.cost.types import DEFAULT_MODEL, PlacedJob, traffic_of
from tests.simulator.cost.placed import TINY, job, pods, put, slowed


def test_traffic_is_that_of_the_affinity() -> None:
    """One replica a node: what the placement's own formulas say of a stage is what the node sends."""
    sizes = volumes(TINY, Parallelism(tp=8, dp=4, pp=2))
    traffic = traffic_of(job(4, 2), TINY)
    assert (traffic.dp, traffic.pp) == (sizes.dp, sizes.pp) == (296, 60)


def test_replicas_in_one_node_reduce_before_they_send() -> None:
    """Two replicas in a node (tp 4) reduce the same gradients once, and send activations of their own."""
    traffic = traffic_of(Job("two", Parallelism(tp=4, dp=8, pp=2)), TINY)
    assert (traffic.dp, traffic.pp) == (296, 2 * 60)


def test_stages_in_one_node_are_reduced_each() -> None:
    """Two of four stages in a node (tp 4, dp 1): the node reduces for both, sends only what leaves it."""
    parallelism = Parallelism(tp=4, pp=4, dp=2, order="tp-pp-cp-ep-dp")
    sizes = volumes(TINY, parallelism)
    traffic = traffic_of(Job("deep", parallelism), TINY)
    assert parallelism.shape(8) == (2, 2)
    assert (traffic.dp, traffic.pp) == (2 * sizes.dp, sizes.pp)


def test_a_stage_on_two_nodes_sends_its_parts() -> None:
    """TP 16 on nodes of 8 GPUs: each of the two nodes of a stage has half of its gradients and of its activations."""
    parallelism = Parallelism(tp=16, pp=2, dp=4)
    traffic = traffic_of(Job("wide", parallelism), TINY)
    assert parallelism.shape(8) == (8, 2)
    assert (traffic.dp, traffic.pp) == (296 / 2, 60 / 2)


def test_parts_of_a_stage_reduce_apart() -> None:
    """Two replicas of a stage on two nodes each, a replica a minipod: four nodes in the column, two in a DP group, so
    a reduction costs 2 (n - 1) / n of half the gradients for n = 2, and each group touches both minipods.
    """
    cluster, wide = pods(2, 2), Job("wide", Parallelism(tp=16, dp=2))
    nodes = np.arange(4, dtype=np.int32)[:, None]
    placed = PlacedJob(wide, cluster, nodes, TINY)
    domains = cluster.levels[0].domain_of[nodes]
    crossing = Crossing.of(domains, wide.grid.dp_group)
    assert (crossing.touched.tolist(), crossing.fewest.tolist()) == ([2, 2], [1, 1])
    assert reduction_seconds(placed, 1.0) == pytest.approx(2 * (2 - 1) / 2 * volumes(TINY, wide.parallelism).dp / 2)
    swapped = Crossing.of(domains[[0, 2, 1, 3]], wide.grid.dp_group)
    assert swapped.touched.tolist() == [1, 1]


def test_a_node_that_is_filled_in_part() -> None:
    """Three replicas of TP 4 on two nodes of 8: the first node sends what two replicas send."""
    traffic = traffic_of(Job("odd", Parallelism(tp=4, dp=3)), TINY)
    assert (traffic.dp, traffic.pp) == (volumes(TINY, Parallelism(tp=4, dp=3)).dp, 2 * 60)


def test_microbatches_come_from_the_job_then_the_model_then_the_stages() -> None:
    """The job's own number, else gb / (mb * dp), else four for each stage."""
    batch = Model(hidden=2, layers=4, vocab=3, sequence_length=5, micro_batch=3, global_batch=3 * 4 * 5)
    assert traffic_of(job(4, 2, microbatches=7), batch).microbatches == 7
    assert traffic_of(job(4, 2), batch).microbatches == 5
    unknown = traffic_of(job(4, 2), TINY)
    assert (unknown.microbatches, unknown.known_microbatches) == (8, False)


def test_a_job_without_a_model_sends_what_a_7b_model_sends() -> None:
    """The stated default: about 2 GB of gradients and 30 MB of activations with 8 stages."""
    traffic = traffic_of(job(4, 8), None)
    assert traffic == traffic_of(job(4, 8), DEFAULT_MODEL)
    assert traffic.dp == pytest.approx(2e9, rel=0.1)
    assert traffic.pp == pytest.approx(30e6, rel=0.15)


def test_a_pipeline_waits_once_for_each_hop_and_then_for_the_slowest() -> None:
    """Hops of 1 and 3 s, both ways: 2 + 6 s for the first microbatch, 6 s for each of the other three."""
    assert pipeline_seconds(np.array([[1.0, 3.0]]), microbatches=4) == 8 + 3 * 6


def test_the_slowest_group_sets_the_pace() -> None:
    """Groups of 8 + 3 * 6 s and of 4 + 3 * 2 s: the first counts."""
    assert pipeline_seconds(np.array([[1.0, 3.0], [1.0, 1.0]]), microbatches=4) == 26


def test_chunks_repeat_the_transfers() -> None:
    """Two chunks a stage: every microbatch makes its way twice, 2 * 4 - 1 transfers after the first."""
    assert pipeline_seconds(np.array([[1.0, 3.0]]), microbatches=4, chunks=2) == 8 + 7 * 6


def test_without_stages_nothing_is_sent() -> None:
    """A PP group of one node has no hop."""
    assert pipeline_seconds(np.zeros((5, 0)), microbatches=4) == 0.0


def test_the_parts_of_an_ideal_step() -> None:
    """Compute is what makes communication 40 % of the step."""
    # In 1 / (400 GB/s): dp 2 * 3/4 * 296 = 444; pp 2 * 60 + 7 * 2 * 60 = 960; compute 1404 * 0.6 / 0.4 = 2106.
    step = hierarchical().step_time(put(pods(1, 8), [[0, 0]] * 4))
    unit = 400e9
    assert (step.dp * unit, step.pp * unit) == pytest.approx((444, 960))
    assert (step.compute * unit, step.ideal * unit) == pytest.approx((2106, 3510))
    assert step.communication == pytest.approx(0.4)
    assert step.relative == pytest.approx(1.0)


def test_hidden_reduction_is_not_waited_for() -> None:
    """Half of the reduction hidden: 222 of 444 stay, and 1404 in all is 40 % of the step: compute 3510 - 222 - 960."""
    step = hierarchical(Calibration(overlap=0.5)).step_time(put(pods(1, 8), [[0, 0]] * 4))
    assert np.array([step.dp, step.compute, step.ideal]) * 400e9 == pytest.approx([222, 3510 - 222 - 960, 3510])


def test_no_more_is_hidden_than_there_is_compute() -> None:
    """Nine tenths of the reduction would be hidden, but not behind a compute that is shorter than it."""
    ring = put(pods(9, 1), [[domain] for domain in range(9)])
    shares = Calibration(overlap=0.9, communication_share=0.5)
    step = hierarchical(shares, oversubscription={"minipod": 100.0}).step_time(ring)
    # One stage of TINY reduces 560 bytes (16 + 4 * 66 parameters), over 9 minipods 100 times as slowly.  Without spread
    # it is half of a step of 2 * flat, of which a tenth of it is waited for: compute 1.9 * flat, all of which hides.
    flat = 2 * 8 / 9 * 560
    assert np.array([step.dp, step.compute]) * 400e9 == pytest.approx([(100 - 1.9) * flat, 1.9 * flat])


def test_a_job_on_one_node_sends_nothing() -> None:
    """One node: the step is compute alone, and relative time 1."""
    step = hierarchical().step_time(put(pods(1, 1), [[0]]))
    assert (step.dp, step.pp, step.relative) == (0.0, 0.0, 1.0)


def test_a_slow_node_stretches_compute_by_the_production_formula() -> None:
    """1 + (f - 1) * m / (m + p - 1) with f 1.5, m 8, p 2: 1 + 0.5 * 8 / 9; the other 40 % of the step stay."""
    placed = put(slowed(pods(1, 8), 3, 1.5), [[0, 0]] * 4, microbatches=8)
    assert no_cost().relative_step_time(placed) == pytest.approx(1 + 0.6 * 0.5 * 8 / 9)
    step = hierarchical().step_time(placed)
    assert step.compute * 400e9 == pytest.approx(2106 * (1 + 0.5 * 8 / 9))


def test_unknown_microbatches_pay_the_full_price_of_a_slow_node() -> None:
    """As in placement: where m is unknown, compute (60 % of the step) is as slow as on the slowest node."""
    assert no_cost().relative_step_time(put(slowed(pods(1, 8), 3, 1.5), [[0, 0]] * 4)) == pytest.approx(1 + 0.6 * 0.5)


def test_a_slow_node_elsewhere_does_not_matter() -> None:
    """Only nodes in use count."""
    assert no_cost().relative_step_time(put(slowed(pods(1, 9), 8, 1.5), [[0, 0]] * 4)) == 1.0
