"""A trace as files: what converters and generators end with."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np

from health.whatif.metadata import JobSizes
from health.whatif.optypes import BACKWARD, CODE, FORWARD, OPTYPES
from health.whatif.trace import Trace


def trace_file(trace: Trace) -> bytes:
    """Return the Parquet file, one row for each operation, rank and step."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = table_columns(trace)
    types = pa.DictionaryArray.from_arrays(pa.array(columns.pop("optype")), pa.array(OPTYPES))
    buffer = BytesIO()
    pq.write_table(pa.table({**{key: pa.array(values) for key, values in columns.items()}, "optype": types}), buffer)
    return buffer.getvalue()


def metadata_file(sizes: JobSizes) -> str:
    """Return the metadata file, in YAML."""
    names = ("dp", "dsp", "pp", "tp", "vpp")
    world = sizes.world or sizes.dp * sizes.dsp * sizes.pp * sizes.tp
    return "".join(f"{name}_size: {getattr(sizes, name)}\n" for name in names) + f"world_size: {world}\n"


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
