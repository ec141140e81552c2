"""Traces made from a seed: a job that never ran, with stragglers of one's choice; nothing here is evidence.

Times come from a replay of the job's own graph.  ``trace_file`` gives the Parquet file of a trace, ``table_columns``
its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from health.whatif import optypes
from health.whatif.analysis_result import Operation
from health.whatif.graph import build_graph
from health.whatif.optypes import BACKWARD, CODE, FORWARD, OPTYPES, one_forward_one_backward, stream_of
from health.whatif.replay import replay
from health.whatif.trace import JobSizes, Trace

# Usual duration of each operation
SECONDS: Mapping[str, float] = {
    FORWARD: 0.1,
    BACKWARD: 0.2,
    optypes.GC: 0.0,
    optypes.OPTIMIZER: 0.02,
    **dict.fromkeys(optypes.PIPELINE, 0.001),
    optypes.ALL_GATHER: 0.05,
    optypes.REDUCE_SCATTER: 0.05,
    optypes.LAYERNORM: 0.003,
    optypes.EMBEDDING: 0.01,
    optypes.SEPARATE: 0.005,
    optypes.CLIP: 0.005,
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """A job and what is wrong with it."""

    dp: int = 4
    pp: int = 4
    tp: int = 1
    vpp: int = 1
    microbatches: int = 8  # of each step and rank; a multiple of pp where vpp is above 1
    steps: int = 10
    seed: int = 0
    noise: float = 0.01  # standard deviation of every duration, relative
    # (dp rank, stage) -> factor on the compute time of this worker
    slow: Mapping[tuple[int, int], float] = field(default_factory=dict)
    slow_from: int = 0  # place of the first step in which they are slow
    # (dp rank, stage) -> factor on the transfers between this stage and the next one
    slow_links: Mapping[tuple[int, int], float] = field(default_factory=dict)
    last_stage: float = 1.0  # factor on the compute time of the last stage
    uneven: float = 0.0  # standard deviation of the work of a microbatch, relative: sequence lengths
    pauses: float = 0.0  # probability that a forward pass has a pause of pause seconds
    pause: float = 0.5
    overlap: bool = False  # reduce-scatters overlap with backward passes
    # with several chunks a stage: transfers are also recorded where the model begins or ends and nothing is moved, as
    # profilers do
    empty: bool = False

    @property
    def sizes(self) -> JobSizes:
        """What the metadata file would say."""
        return JobSizes(self.dp, self.pp, self.tp, self.vpp, world=self.dp * self.pp * self.tp, source="recipe")


def make_trace(recipe: Recipe) -> Trace:
    """Return a trace after a recipe: same recipe, same trace.  Times are float64."""
    operations = tuple(operation for stage in range(recipe.pp) for operation in _operations(recipe, stage))
    shape = (len(operations), recipe.dp, recipe.steps)
    numbers: dict[tuple[int, str], int] = {}
    sequence = np.empty(len(operations), dtype=np.int64)
    for place, operation in enumerate(operations):
        key = (operation.stage, operation.optype)
        sequence[place] = numbers[key] = numbers.get(key, -1) + 1
    order = np.arange(len(operations), dtype=np.float64)[:, None, None]
    draft = Trace(
        source="recipe",
        sizes=recipe.sizes,
        dp_ranks=tuple(range(recipe.dp)),
        steps=tuple(range(recipe.steps)),
        operations=operations,
        sequence=sequence,
        row=np.arange(np.prod(shape), dtype=np.int32).reshape(shape),
        start=np.broadcast_to(order, shape),
        duration=np.broadcast_to(np.zeros(()), shape),
    )
    seconds = _durations(recipe, operations)
    start, duration = np.empty(shape), np.empty(shape)
    for event in replay(build_graph(draft), seconds.__getitem__):
        start[event.operation] = event.start
        duration[event.operation] = event.end - event.start
    return replace(draft, start=start, duration=duration)


def _operations(recipe: Recipe, stage: int) -> Iterator[Operation]:
    """Yield operations of a stage, in the order of each of its streams."""
    first, last = (0, 0), (recipe.pp - 1, recipe.vpp - 1)
    passes = list(
        one_forward_one_backward(stage=stage, stages=recipe.pp, microbatches=recipe.microbatches, chunks=recipe.vpp)
    )

    def made(optype: str, chunk: int = -1, microbatch: int = -1) -> Operation:
        return Operation(optype, stage, chunk, microbatch, stream_of(optype))

    for chunk in range(recipe.vpp):
        yield made(optypes.ALL_GATHER, chunk)
    for i, (forward, chunk, microbatch) in enumerate(passes):
        optype, begin, end = (FORWARD, first, last) if forward else (BACKWARD, last, first)
        if recipe.pp > 1 and (recipe.empty or (stage, chunk) != begin):
            yield made(optypes.FORWARD_RECV if forward else optypes.BACKWARD_RECV)
        yield made(optype, chunk, microbatch)
        if recipe.pp > 1 and (recipe.empty or (stage, chunk) != end):
            yield made(optypes.FORWARD_SEND if forward else optypes.BACKWARD_SEND)
        if recipe.overlap and not forward and (False, chunk) not in {later[:2] for later in passes[i + 1 :]}:
            yield made(optypes.REDUCE_SCATTER, chunk)
    yield made(optypes.GC)
    yield made(optypes.LAYERNORM)
    if stage in (0, recipe.pp - 1) and recipe.pp > 1:
        yield made(optypes.EMBEDDING)
    if recipe.overlap:
        yield made(optypes.SEPARATE)
    else:
        yield from (made(optypes.REDUCE_SCATTER, chunk) for chunk in range(recipe.vpp))
    yield made(optypes.CLIP)
    yield made(optypes.OPTIMIZER)


def _durations(recipe: Recipe, operations: tuple[Operation, ...]) -> NDArray[np.float64]:
    """Return [operations, dp, steps], seconds, without waiting."""
    random = np.random.default_rng(recipe.seed)
    usual = np.array([SECONDS[operation.optype] for operation in operations])[:, None, None]
    shape = (len(operations), recipe.dp, recipe.steps)
    seconds = usual * np.maximum(1.0 + recipe.noise * random.standard_normal(shape), 0.1)
    work = np.maximum(1.0 + recipe.uneven * random.standard_normal((recipe.microbatches, *shape[1:])), 0.1)
    for place, operation in enumerate(operations):
        for (rank, stage), factor in recipe.slow_links.items():
            # the stage and type of the operations that transfer between a stage and the next one
            here, there = (optypes.FORWARD_SEND, optypes.BACKWARD_RECV), (optypes.FORWARD_RECV, optypes.BACKWARD_SEND)
            if (operation.stage, operation.optype) in (
                (*((stage, optype) for optype in here), *((stage + 1, optype) for optype in there))
            ):
                seconds[place, rank] *= factor
        if operation.optype not in (FORWARD, BACKWARD):
            continue
        seconds[place] *= work[operation.microbatch]
        if operation.stage == recipe.pp - 1:
            seconds[place] *= recipe.last_stage
        for (rank, stage), factor in recipe.slow.items():
            if stage == operation.stage:
                seconds[place, rank, recipe.slow_from :] *= factor
        if recipe.pauses and operation.optype == FORWARD:
            seconds[place] += recipe.pause * (random.random(shape[1:]) < recipe.pauses)
    return seconds


def trace_file(trace: Trace) -> bytes:
    """Return the Parquet file, one row for each operation, rank and step."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = table_columns(trace)
    types = pa.DictionaryArray.from_arrays(pa.array(columns.pop("optype")), pa.array(OPTYPES))
    buffer = BytesIO()
    pq.write_table(pa.table({**{key: pa.array(values) for key, values in columns.items()}, "optype": types}), buffer)
    return buffer.getvalue()


def table_columns(trace: Trace) -> dict[str, Any]:
    """Return the columns of the format; ``optype`` as places in ``OPTYPES``."""
    shape, sizes, operations = trace.start.shape, trace.sizes, trace.operations
    of_rank = np.broadcast_to(np.array(trace.dp_ranks, dtype=np.int32)[None, :, None], shape).ravel()
    of_step = np.broadcast_to(np.array(trace.steps, dtype=np.int64)[None, None, :], shape).ravel()

    def spread(values: Any, kind: type[np.signedinteger[Any]]) -> Any:
        return np.repeat(np.array(values, dtype=kind), shape[1] * shape[2])

    stage = spread([operation.stage for operation in operations], np.int16)
    chunks = [
        operation.chunk * sizes.pp + operation.stage if operation.optype in (FORWARD, BACKWARD) else -1
        for operation in operations
    ]
    return {
        "dp_rank": of_rank,
        "stage": stage,
        "rank": ((stage.astype(np.int32) * sizes.dp + of_rank) * sizes.tp).astype(np.int32),
        "step": of_step,
        "optype": spread([CODE[operation.optype] for operation in operations], np.int8),
        "start_ts": trace.start.ravel(),
        "duration": trace.duration.ravel(),
        "seq_id": spread(trace.sequence, np.int32),
        "mc": spread([operation.chunk for operation in operations], np.int16),
        "mb_id": spread([operation.microbatch for operation in operations], np.int32),
        "gmc": spread(chunks, np.int16),
    }
