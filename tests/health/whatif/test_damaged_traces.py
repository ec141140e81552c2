"""Traces with clocks that differ, with rows missing here and there, and with backward passes in two halves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import TraceFormatError
from health.whatif import Replayed, analyse, notes_on, prepare, read_trace, slow_workers
from health.whatif.optypes import BACKWARD, CLIP, WEIGHT
from health.whatif.synthetic import make_trace, trace_file
from health.whatif.trace import Trace
from tests.case_counts import examples
from tests.facts import saying, says
from tests.health.whatif.recipes import Recipe

SLOW = (1, 2)  # The slow worker: dp rank and stage
JOB = Recipe(dp=4, pp=4, slow={SLOW: 1.5})


def named(replayed: Replayed) -> list[tuple[int, int]]:
    """The workers with evidence against them."""
    return [(worker.dp, worker.stage) for worker in slow_workers(replayed, analyse(replayed))]


def skewed(trace: Trace, seed: int, spread: float) -> Trace:
    """The trace with a clock of its own for each worker."""
    skew = np.random.default_rng(seed).normal(0.0, spread, (4, 4))
    start = trace.start + skew[[operation.stage for operation in trace.operations]][:, :, None]
    return replace(trace, start=start - start.min(axis=(0, 1)))


@examples(10)
@given(st.integers(0, 999), st.sampled_from([0.02, 0.1, 2.0]))
def test_clocks_are_aligned_by_the_barrier(seed: int, spread: float) -> None:
    """Clocks that are off by 20 ms or 2 s, in steps of 4.5 s: shifted, the slowdown is that of clocks that agree."""
    trace = make_trace(JOB)
    replayed = prepare(skewed(trace, seed, spread), align=True)
    assert named(replayed) == [SLOW]
    assert analyse(replayed).slowdown == pytest.approx(analyse(prepare(trace)).slowdown, rel=0.01)


def test_clocks_that_differ_are_refused_with_the_option() -> None:
    """0.1 s in steps of 4.5 s, unless asked; without a barrier they cannot be compared."""
    trace = skewed(make_trace(JOB), 1, 0.1)
    with pytest.raises(TraceFormatError, match=saying("clocks disagree", "--align-clocks")):
        prepare(trace)
    kept = [i for i, operation in enumerate(trace.operations) if operation.optype != CLIP]
    part = replace(
        trace,
        operations=tuple(trace.operations[i] for i in kept),
        sequence=trace.sequence[kept],
        row=trace.row[kept],
        start=trace.start[kept],
        duration=trace.duration[kept],
    )
    with pytest.raises(TraceFormatError, match=saying(CLIP, "--align-clocks")):
        prepare(part, align=True)


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_missing_here_and_there_are_filled(seed: int, tmp_path: Path) -> None:
    """1 % of all rows, so that no step is whole: leniently the usual of their type is taken, and that is said."""
    path = tmp_path / "trace.parquet"
    path.write_bytes(trace_file(make_trace(JOB)))
    table = pq.read_table(path)
    gone = np.random.default_rng(seed).random(len(table)) < 0.01
    pq.write_table(table.filter(~gone), path)
    with pytest.raises(TraceFormatError, match="missing"):
        read_trace(path)
    replayed = prepare(read_trace(path, lenient=True), lenient=True)
    assert named(replayed) == [SLOW]
    assert replayed.trace.filled is not None
    # rows of steps that are left out are not filled
    assert 0 < replayed.trace.filled.sum() <= gone.sum()
    assert says(notes_on(replayed, analyse(replayed)), "Filled", str(replayed.trace.filled.sum()))


def test_an_operation_that_a_rank_never_has_is_not_filled(tmp_path: Path) -> None:
    """Rank 0 has no pass of microbatch 3 in stage 1 in any step: the other ranks are judged."""
    path = tmp_path / "trace.parquet"
    path.write_bytes(trace_file(make_trace(JOB)))
    table = pq.read_table(path)
    columns = {name: table[name].to_numpy() for name in ("dp_rank", "stage", "mb_id")}
    gone = (columns["dp_rank"] == 0) & (columns["stage"] == 1) & (columns["mb_id"] == 3)
    pq.write_table(table.filter(~gone), path)
    assert read_trace(path, lenient=True).dp_ranks == (1, 2, 3)


def test_a_backward_pass_in_two_halves_is_compute(tmp_path: Path) -> None:
    """A third of each backward pass is put off, as zero-bubble schedules do: the slow worker is slow in both."""
    path = tmp_path / "trace.parquet"
    trace = make_trace(replace(JOB, noise=0.0))
    halves = [i for i, operation in enumerate(trace.operations) if operation.optype == BACKWARD]
    first = trace.duration.copy()
    first[halves] *= 2 / 3
    late = [replace(trace.operations[i], optype=WEIGHT, stream="compute") for i in halves]
    split = replace(
        trace,
        operations=(*trace.operations, *late),
        sequence=np.concatenate([trace.sequence, trace.sequence[halves]]),
        row=np.concatenate([trace.row, trace.row[halves]]),
        start=np.concatenate([trace.start, trace.start[halves] + first[halves]]),
        duration=np.concatenate([first, trace.duration[halves] / 3]),
    )
    path.write_bytes(trace_file(split))
    replayed = prepare(read_trace(path))
    assert named(replayed) == [SLOW]
    # the gradient is sent on after the first half
    whole = analyse(prepare(trace)).step_seconds
    assert 0.9 * whole < analyse(replayed).step_seconds < whole
