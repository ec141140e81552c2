"""Traces made from a seed: a job that never ran, with slow workers of one's choice; nothing here is evidence.

Times come from a replay of the job's own graph.  ``trace_file`` gives the Parquet file of a trace, ``table_columns``
its columns.
"""

from collections.abc import Iterator, Mapping, Sequence
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


@dataclass(frozen=True)
class Recipe:
    """A job and what is wrong with it."""

    dp: int = 4
    pp: int = 4
    tp: int = 1
    microbatches: int = 8  # of each step and rank
    steps: int = 10
    seed: int = 0
    noise: float = 0.01  # standard deviation of every duration, relative
    # (dp rank, stage) -> factor on the compute time of this worker
    slow: Mapping[tuple[int, int], float] = field(default_factory=dict)

    @property
    def sizes(self) -> JobSizes:
        """What the metadata file would say."""
        return JobSizes(self.dp, self.pp, self.tp, world=self.dp * self.pp * self.tp, source="recipe")

    def operations(self, stage: int) -> Iterator[Operation]:
        """Yield operations of a stage, in the order of each of its streams."""

        def made(optype: str, chunk: int = -1, microbatch: int = -1) -> Operation:
            return Operation(optype, stage, chunk, microbatch, stream_of(optype))

        yield made(optypes.ALL_GATHER, 0)
        passes = one_forward_one_backward(stage=stage, stages=self.pp, microbatches=self.microbatches)
        for forward, _, microbatch in passes:
            begin, end = (0, self.pp - 1) if forward else (self.pp - 1, 0)
            if stage != begin:
                yield made(optypes.FORWARD_RECV if forward else optypes.BACKWARD_RECV)
            yield made(FORWARD if forward else BACKWARD, 0, microbatch)
            if stage != end:
                yield made(optypes.FORWARD_SEND if forward else optypes.BACKWARD_SEND)
        yield made(optypes.GC)
        yield made(optypes.LAYERNORM)
        if stage in (0, self.pp - 1) and self.pp > 1:
            yield made(optypes.EMBEDDING)
        yield made(optypes.REDUCE_SCATTER, 0)
        yield made(optypes.CLIP)
        yield made(optypes.OPTIMIZER)

    def seconds(self, operations: Sequence[Operation]) -> NDArray[np.float64]:
        """Return [operations, dp, steps], without waiting."""
        random = np.random.default_rng(self.seed)
        usual = np.array([SECONDS[operation.optype] for operation in operations])[:, None, None]
        shape = (len(operations), self.dp, self.steps)
        seconds: NDArray[np.float64] = usual * np.maximum(1.0 + self.noise * random.standard_normal(shape), 0.1)
        for place, operation in enumerate(operations):
            for (rank, stage), factor in self.slow.items():
                if stage == operation.stage and operation.optype in (FORWARD, BACKWARD):
                    seconds[place, rank] *= factor
        return seconds


def make_trace(recipe: Recipe) -> Trace:
    """Return a trace after a recipe: same recipe, same trace.  Times are float64."""
    operations = tuple(operation for stage in range(recipe.pp) for operation in recipe.operations(stage))
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
    seconds = recipe.seconds(operations)
    start, duration = np.empty(shape), np.empty(shape)
    for event in replay(build_graph(draft), seconds.__getitem__):
        start[event.operation] = event.start
        duration[event.operation] = event.end - event.start
    return replace(draft, start=start, duration=duration)


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
