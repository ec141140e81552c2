"""Who waits for whom: closed forms of pipeline schedules, pairs, the tail of a step."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from health.whatif import Trace
from health.whatif.graph import Graph, build_graph
from health.whatif.optypes import (
    ALL_GATHER,
    BACKWARD,
    CLIP,
    EMBEDDING,
    FORWARD,
    GC,
    LAYERNORM,
    OPTIMIZER,
    REDUCE_SCATTER,
    SEPARATE,
)
from health.whatif.replay import replay, step_seconds
from health.whatif.synthetic import make_trace
from tests.case_counts import examples
from tests.health.whatif.recipes import Recipe

Seconds = dict[str, float]


def timed(trace: Trace, seconds: Seconds) -> float:
    """Step time if each type of operation takes so long, 0 where nothing is said."""
    return float(step_seconds(build_graph(trace), lambda i: seconds.get(trace.operations[i].optype, 0.0)))


def ends(trace: Trace, seconds: Seconds) -> list[tuple[Any, float, float]]:
    """(operation, start, end) of a replay with durations by type."""
    events = replay(build_graph(trace), lambda i: seconds.get(trace.operations[i].optype, 0.0))
    return [(trace.operations[event.operation], float(event.start), float(event.end)) for event in events]


@examples(25)
@given(
    pp=st.integers(1, 5), vpp=st.integers(1, 3), groups=st.integers(1, 3), dp=st.integers(1, 3), overlap=st.booleans()
)
def test_closed_form_of_both_schedules(pp: int, vpp: int, groups: int, dp: int, overlap: bool) -> None:
    """With free transfers a step takes (m * vpp + p - 1)(f + b), interleaved or not (arXiv 2104.04473, section 2.2)."""
    microbatches = pp * groups
    vpp = vpp if pp > 1 else 1
    trace = make_trace(Recipe(dp=dp, pp=pp, vpp=vpp, microbatches=microbatches, steps=1, overlap=overlap))
    assert timed(trace, {FORWARD: 1.0, BACKWARD: 2.0}) == pytest.approx((microbatches * vpp + pp - 1) * 3.0)


@pytest.mark.parametrize("overlap", [False, True])
def test_tail_is_a_chain(overlap: bool) -> None:
    """With compute that takes no time, what is left is the gather, then the tail, one operation after the other."""
    trace = make_trace(Recipe(dp=2, pp=2, microbatches=2, steps=1, overlap=overlap))
    tail = {ALL_GATHER: 1.0, GC: 2.0, LAYERNORM: 4.0, EMBEDDING: 8.0, REDUCE_SCATTER: 16.0, CLIP: 32.0, OPTIMIZER: 64.0}
    if overlap:
        # gc runs beside the reduce-scatter, which takes longer: 2 s less, and the separate all-reduce more.
        assert timed(trace, tail | {SEPARATE: 128.0}) == 1 + 16 + 4 + 8 + 128 + 32 + 64
    else:
        assert timed(trace, tail) == sum(tail.values())


def test_order_of_the_tail() -> None:
    """Without overlap the reduce-scatters come after the all-reduces of layer-norm and embedding; with it, before."""
    for overlap, order in (
        (False, [LAYERNORM, EMBEDDING, REDUCE_SCATTER, CLIP, OPTIMIZER]),
        (True, [REDUCE_SCATTER, LAYERNORM, EMBEDDING, SEPARATE, CLIP, OPTIMIZER]),
    ):
        trace = make_trace(Recipe(dp=1, pp=2, microbatches=2, steps=1, overlap=overlap))
        times = {operation.optype: start for operation, start, _ in ends(trace, dict.fromkeys(order, 1.0))}
        assert all(times[one] < times[other] for one, other in pairwise(order))


def test_overlapped_scatter_waits_for_its_own_chunk_only() -> None:
    """The chunk that backward passes leave first reduces its gradients while the other chunk still computes."""
    trace = make_trace(Recipe(dp=1, pp=2, vpp=2, microbatches=2, steps=1, overlap=True))
    events = ends(trace, {FORWARD: 1.0, BACKWARD: 1.0, REDUCE_SCATTER: 0.5})
    for stage in (0, 1):
        of = {
            (operation.optype, operation.chunk): end
            for operation, _, end in sorted(events, key=lambda event: event[2])
            if operation.stage == stage
        }
        # Backward passes run through the last chunk first; its scatter begins where its last backward pass ends.
        assert of[REDUCE_SCATTER, 1] == of[BACKWARD, 1] + 0.5
        assert of[REDUCE_SCATTER, 1] < of[BACKWARD, 0]


def test_second_chunk_waits_for_its_own_gather() -> None:
    """The first forward pass of each chunk waits for that chunk's all-gather, the second of the DP stream."""
    trace = make_trace(Recipe(dp=1, pp=2, vpp=2, microbatches=2, steps=1))
    starts = [
        start
        for operation, start, _ in ends(trace, {ALL_GATHER: 10.0})
        if operation.optype == FORWARD and operation.stage == 0 and operation.microbatch == 0
    ]
    assert starts == [10.0, 20.0]


def pairs(trace: Trace) -> list[set[tuple[str, int]]]:
    """Groups of a graph by (type, stage)."""
    graph = build_graph(trace)
    return [{(trace.operations[i].optype, trace.operations[i].stage) for i in group.members} for group in graph.groups]


def test_pairs_wrap_around_with_chunks() -> None:
    """The last stage sends forward to the first, for the next chunk, and gradients the other way round."""
    groups = pairs(make_trace(Recipe(dp=1, pp=3, vpp=2, microbatches=3, steps=1)))
    assert {("forward-send", 2), ("forward-recv", 0)} in groups
    assert {("backward-send", 0), ("backward-recv", 2)} in groups
    assert {("forward-send", 0), ("forward-recv", 1)} in groups
    assert {("embedding-grads-all-reduce", 0), ("embedding-grads-all-reduce", 2)} in groups
    assert {("optimizer-clip-main-grad", stage) for stage in range(3)} in groups


@pytest.mark.parametrize("first_left_out", [False, True])
def test_empty_transfers_of_interleaved_schedules(first_left_out: bool) -> None:
    """Transfers recorded where nothing is moved have no partner, and change neither the pairs nor the step time.

    The very first receive is sometimes not recorded: then the others still belong to the passes after it.
    """
    recipe = Recipe(dp=1, pp=2, vpp=2, microbatches=4, steps=1)
    full, lean = make_trace(replace(recipe, empty=True)), make_trace(recipe)
    if first_left_out:
        first = next(i for i, operation in enumerate(full.operations) if operation.optype == "forward-recv")
        keep = np.delete(np.arange(len(full.operations)), first)
        full = replace(
            full,
            operations=tuple(full.operations[i] for i in keep),
            sequence=full.sequence[keep],
            start=full.start[keep],
            duration=full.duration[keep],
            row=full.row[keep],
        )
    one, other = pairs(full), pairs(lean)
    assert [group for group in one if len(group) > 1] == [group for group in other if len(group) > 1]
    # Each direction has four passes (one chunk of 4 microbatches) without a source, and four without a target.
    assert len(one) - len(other) == 16 - first_left_out
    seconds = {FORWARD: 1.0, BACKWARD: 2.0}
    assert timed(full, seconds) == timed(lean, seconds)


def test_a_receive_is_launched_after_the_previous_pass() -> None:
    """compute(i-1) -> recv(i): a receive of stage 1 is launched no earlier than its previous forward pass ends."""
    trace = make_trace(Recipe(dp=1, pp=2, microbatches=3, steps=1))
    events = ends(trace, {FORWARD: 1.0, BACKWARD: 5.0})
    receives = sorted(start for operation, start, _ in events if operation.optype == "forward-recv")
    passes = sorted(end for operation, _, end in events if operation.optype == FORWARD and operation.stage == 1)
    assert receives == [0.0, *passes[:-1]]


def test_transfer_waits_for_the_last_launch() -> None:
    """Slow ranks hold up the reduce-scatter of all ranks, and no member ends before the last one has launched."""
    trace = make_trace(Recipe(dp=3, pp=1, microbatches=1, steps=1))
    graph = build_graph(trace)
    passes = np.array([1.0, 7.0, 3.0])[:, None]

    def duration(i: int) -> Any:
        return {FORWARD: passes, REDUCE_SCATTER: np.array([0.1, 0.2, 0.3])[:, None]}.get(
            trace.operations[i].optype, 0.0
        )

    events = {trace.operations[event.operation].optype: event for event in replay(graph, duration)}
    assert events[REDUCE_SCATTER].start.ravel().tolist() == [1.0, 7.0, 3.0]
    assert events[REDUCE_SCATTER].end.ravel().tolist() == [7.1, 7.2, 7.3]
    # The layer-norm all-reduce stays inside the rank: it does not wait.
    assert np.asarray(events[LAYERNORM].end).ravel().tolist() == [1.0, 7.0, 3.0]


def test_ends_are_forgotten_once_nobody_asks() -> None:
    """Every operation is let go exactly once, after its own group."""
    trace = make_trace(Recipe(dp=1, pp=3, microbatches=4, steps=1))
    graph: Graph = build_graph(trace)
    spent = [operation for group in graph.groups for operation in group.spent]
    assert sorted(spent) == list(range(len(trace.operations)))
