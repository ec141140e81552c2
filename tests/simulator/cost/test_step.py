"""Traffic of a job and the schedule of its pipeline, by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest

from scheduler.affinity import Experts, Model, volumes
from scheduler.job import Job, Parallelism
from simulator.cost.calibration import Calibration
from simulator.cost.models import Crossing, hierarchical, no_cost
from simulator.cost.shared_flows import SharedFlows
from simulator.cost.step import (
    DEFAULT_MODEL,
    CommModel,
    PlacedJob,
    Schedule,
    StepTime,
    exposed_reduction,
    operations,
    pipeline_seconds,
    reduction_seconds,
    schedule_of,
    traffic_of,
)
from tests.simulator.cost.placed import BY_HAND, TINY, UNIT, job, pods, put, slowed


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
    half a reduction costs (n - 1) / n of half the gradients for n = 2, and each group touches both minipods.
    """
    cluster, wide = pods(2, 2), Job("wide", Parallelism(tp=16, dp=2))
    nodes = np.arange(4, dtype=np.int32)[:, None]
    placed = PlacedJob(wide, cluster, nodes, TINY)
    domains = cluster.levels[0].domain_of[nodes]
    crossing = Crossing.of(domains, wide.grid.dp_group)
    assert (crossing.touched.tolist(), crossing.fewest.tolist()) == ([2, 2], [1, 1])
    assert reduction_seconds(placed, 1.0) == pytest.approx((2 - 1) / 2 * volumes(TINY, wide.parallelism).dp / 2)
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


def test_operations_of_a_microbatch() -> None:
    """TINY by hand: 4 layers of 6 * 12 * 2^2 and 12 * 5 * 2 operations a token, 6 * 2 * 3 for the vocabulary, 15 times.

    In two stages on 8 GPUs each it is a sixteenth of that.
    """
    whole = 15 * (4 * (6 * 12 * 4 + 12 * 5 * 2) + 6 * 2 * 3)
    assert operations(TINY) == whole == 25_020
    assert traffic_of(job(4, 2), TINY).operations == whole / 16 == 1563.75
    assert traffic_of(job(4, 2), None).operations == pytest.approx(6 * 7e9 * 4096 / 16, rel=0.1)


def test_operations_of_experts_are_those_that_compute_a_token() -> None:
    """Top 2 of 8 experts of the usual width compute twice as much as the dense MLP, 12 instead of 8 of 20 h^2."""
    moe = replace(TINY, moe=Experts(experts=8, top_k=2))
    assert operations(moe) - operations(TINY) == 15 * 4 * 6 * 8 * 2**2


def test_what_experts_send() -> None:
    """Two nodes share the experts: half of what top-2 routing sends leaves the node, there and back, both passes.

    A replica has 15 tokens of 2 values of 2 bytes, twice each: 120 bytes an all-to-all, of which 60 leave.  Four of
    these in each of the two layers of a stage.
    """
    moe = replace(TINY, moe=Experts(experts=8, top_k=2))
    two_nodes = Job("moe", Parallelism(tp=8, ep=2, dp=4, pp=2))
    traffic = traffic_of(two_nodes, moe)
    assert (traffic.ep, traffic.ep_message) == (4 * 2 * 60, 60)
    assert traffic_of(Job("moe", Parallelism(tp=4, ep=2, dp=8, pp=2)), moe).ep == 0  # both in one node
    assert traffic_of(two_nodes, TINY).ep == 0
    stages_in_node = Job("moe", Parallelism(tp=2, cp=2, ep=2, dp=2, pp=4, order="tp-pp-cp-ep-dp"))
    assert traffic_of(stages_in_node, moe).ep == 4 * 4 * 30  # four stages of a layer, half the tokens each


def schedule(chunks: int = 1) -> Schedule:
    """Four microbatches through three stages."""
    return Schedule(stages=3, microbatches=4, chunks=chunks, slot=6.0)


def test_idle_slots_are_shorter_with_chunks() -> None:
    """Two idle slots of six seconds with one chunk, one with two, and then the last stage sends to the first."""
    assert (schedule().compute_seconds, schedule().around) == (36.0, False)
    assert (schedule(2).compute_seconds, schedule(2).around) == (30.0, True)


@pytest.mark.parametrize(("layers", "stages", "chunks"), [(4, 2, 1), (32, 2, 8), (126, 16, 4), (4, 1, 1), (2, 2, 1)])
def test_chunks_are_proportional_to_depth(layers: int, stages: int, chunks: int) -> None:
    """Two layers a chunk, one chunk at least, and one if there is one stage; a placed job may say its own."""
    placed = put(pods(1, 32), [[0] * stages] * 2, model=replace(TINY, layers=layers))
    assert schedule_of(placed, BY_HAND).chunks == chunks
    assert schedule_of(replace(placed, chunks=5), BY_HAND).chunks == 5


def test_a_pipeline_waits_once_for_each_hop_and_then_for_the_slowest() -> None:
    """Hops of 1 and 3 s, both ways: 2 + 6 s for the first microbatch, 6 s for each of the other three."""
    assert pipeline_seconds(np.array([[1.0, 3.0]]), schedule()) == 8 + 3 * 6


def test_of_later_transfers_a_share_may_be_hidden() -> None:
    """With half of them exposed the other three microbatches wait 3 s each."""
    assert pipeline_seconds(np.array([[1.0, 3.0]]), schedule(), 0.5) == 8 + 3 * 3


def test_the_slowest_group_sets_the_pace() -> None:
    """Groups of 8 + 3 * 6 s and of 4 + 3 * 2 s: the first counts."""
    assert pipeline_seconds(np.array([[1.0, 3.0], [1.0, 1.0]]), schedule()) == 26


def test_chunks_repeat_the_transfers() -> None:
    """Two chunks a stage: every microbatch makes its way twice, 2 * 4 - 1 transfers after the first."""
    assert pipeline_seconds(np.array([[1.0, 3.0]]), schedule(2)) == 8 + 7 * 6


def test_without_stages_nothing_is_sent() -> None:
    """A PP group of one node has no hop."""
    assert pipeline_seconds(np.zeros((5, 0)), schedule()) == 0.0


def parts(step: StepTime) -> dict[str, float]:
    """The parts of a step in units, and its ideal."""
    return {one.name: getattr(step, one.name) * UNIT for one in fields(step)}


@pytest.mark.parametrize("make", [hierarchical, SharedFlows, no_cost])
def test_the_parts_of_an_ideal_step(make: Callable[[Calibration], CommModel]) -> None:
    """By hand (``BY_HAND``), in every model but the one that has a table of bandwidths."""
    step = make(BY_HAND).step_time(put(pods(1, 8), [[0, 0]] * 4))
    expected = {"compute": 2700, "dp": 366, "pp": 960, "ep": 0, "other": 474, "ideal": 4500}
    assert parts(step) == pytest.approx(expected)
    assert 1.0 - step.compute / step.total == pytest.approx(0.4)
    assert step.relative == pytest.approx(1.0)


def test_a_network_that_takes_more_than_its_share_leaves_nothing_else() -> None:
    """At a share of a tenth 300 units would be left; reduction and transfers alone take 1326."""
    step = hierarchical(replace(BY_HAND, communication_share=0.1)).step_time(put(pods(1, 8), [[0, 0]] * 4))
    assert (parts(step)["other"], parts(step)["ideal"]) == pytest.approx((0, 2700 + 366 + 960))


@pytest.mark.parametrize(("overlap", "waited"), [(0.0, 666), (0.5, 666 - 150), (1.0, 366)])
def test_a_reduction_hides_behind_its_pass(overlap: float, waited: float) -> None:
    """Of 444 for gradients no more than 200 hide, two thirds of a slot, of 222 for weights no more than 100."""
    step = hierarchical(replace(BY_HAND, overlap=overlap)).step_time(put(pods(1, 8), [[0, 0]] * 4))
    assert parts(step)["dp"] == pytest.approx(waited)


def test_a_short_reduction_is_hidden_whole() -> None:
    """With ten times as much compute in a slot nothing of 444 and 222 is left."""
    slow = replace(BY_HAND, efficiency=BY_HAND.efficiency / 10)
    assert parts(hierarchical(slow).step_time(put(pods(1, 8), [[0, 0]] * 4)))["dp"] == pytest.approx(0)


@pytest.mark.parametrize(
    ("half", "chunks", "waited"),
    [
        (3.0, 1, 6 - 4 + 3 - 2),  # behind its own pass of 4 s, and of 2 s
        (3.0, 2, (6 - 4) / 2 + (3 - 2) / 2),  # of two chunks the last has no more than its half of that
        (30.0, 2, 60 - 4 * (1 + 3) / 2 + 30 - 2 * (1 + 3) / 2),  # the first has three microbatches of the last besides
        (1.0, 2, 0.0),
    ],
)
def test_chunks_are_reduced_while_others_are_computed(half: float, chunks: int, waited: float) -> None:
    """A slot of 6 s in three stages, gradients twice as wide as weights."""
    assert exposed_reduction(half, schedule(chunks), Calibration()) == pytest.approx(waited)
    assert exposed_reduction(half, schedule(chunks), Calibration(overlap=0.0)) == 3 * half


def test_experts_on_several_nodes_are_waited_for() -> None:
    """480 bytes a microbatch (see above) and 8 of these, 3840 units; half of it crosses at half the speed."""
    moe = replace(TINY, moe=Experts(experts=8, top_k=2))
    placed = put(
        pods(2, 8), [[0, 0], [1, 1], [0, 0], [1, 1]], model=moe, parallelism=Parallelism(tp=8, ep=2, dp=4, pp=2)
    )
    flat, apart = (hierarchical(BY_HAND, oversubscription=ratio).step_time(placed) for ratio in ({}, {"minipod": 2.0}))
    assert (parts(flat)["ep"], parts(apart)["ep"]) == pytest.approx((3840, 1.5 * 3840))


def test_a_job_on_one_node_sends_nothing() -> None:
    """One node: the step is compute alone, and relative time 1."""
    step = hierarchical().step_time(put(pods(1, 1), [[0]]))
    assert (step.dp, step.pp, step.relative) == (0.0, 0.0, 1.0)


def test_a_slow_node_stretches_compute_by_the_production_formula() -> None:
    """1 + (f - 1) * m / (m + p - 1) with f 1.5, m 8, p 2: 1 + 0.5 * 8 / 9; the other 40 % of the step stay."""
    placed = put(slowed(pods(1, 8), 3, 1.5), [[0, 0]] * 4, microbatches=8)
    assert no_cost(BY_HAND).relative_step_time(placed) == pytest.approx(1 + 0.6 * 0.5 * 8 / 9)
    assert parts(hierarchical(BY_HAND).step_time(placed))["compute"] == pytest.approx(2700 * (1 + 0.5 * 8 / 9))


def test_unknown_microbatches_pay_the_full_price_of_a_slow_node() -> None:
    """As in placement: where m is unknown, compute (60 % of the step) is as slow as on the slowest node."""
    assert no_cost(BY_HAND).relative_step_time(put(slowed(pods(1, 8), 3, 1.5), [[0, 0]] * 4)) == pytest.approx(
        1 + 0.6 * 0.5
    )


def test_a_slow_node_elsewhere_does_not_matter() -> None:
    """Only nodes in use count."""
    assert no_cost(BY_HAND).relative_step_time(put(slowed(pods(1, 9), 8, 1.5), [[0, 0]] * 4)) == 1.0
