"""A trace as files: what converters and generators end with."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from health.whatif.metadata import JobSizes
from health.whatif.optypes import BACKWARD, CODE, FORWARD, OPTYPES
from health.whatif.trace import Trace
from topology.files import write_file


def write_trace(path: str | Path, trace: Trace) -> None:
    """Write the Parquet file of :func:`trace_file`.

    :raises InvalidInput: the place cannot be written to.
    """
    write_file(path, trace_file(trace))


def trace_file(trace: Trace) -> bytes:
    """Return the Parquet file, one row for each operation, rank and step."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = table_columns(trace)
    types = pa.DictionaryArray.from_arrays(pa.array(columns.pop("optype")), pa.array(OPTYPES))
    table = pa.table({**{key: pa.array(values) for key, values in columns.items()}, "optype": types})
    buffer = BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def write_metadata(path: str | Path, sizes: JobSizes) -> None:
    """Write the metadata file of :func:`metadata_file`.

    :raises InvalidInput: the place cannot be written to.
    """
    write_file(path, metadata_file(sizes))


def metadata_file(sizes: JobSizes) -> str:
    """Return the metadata file, in YAML."""
    lines = {
        "dp_size": sizes.dp,
        "dsp_size": sizes.dsp,
        "pp_size": sizes.pp,
        "tp_size": sizes.tp,
        "vpp_size": sizes.vpp,
        "world_size": sizes.world or sizes.dp * sizes.dsp * sizes.pp * sizes.tp,
    }
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


def table_columns(trace: Trace) -> dict[str, Any]:
    """Return the columns of the format; ``optype`` as places in ``OPTYPES``."""
    shape = trace.start.shape
    sizes = trace.sizes
    of_rank = np.broadcast_to(np.array(trace.dp_ranks, dtype=np.int32)[None, :, None], shape).ravel()
    of_step = np.broadcast_to(np.array(trace.steps, dtype=np.int64)[None, None, :], shape).ravel()

    def spread(values: list[int], kind: type[np.signedinteger[Any]]) -> Any:
        return np.repeat(np.array(values, dtype=kind), shape[1] * shape[2])

    operations = trace.operations
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
        "seq_id": np.repeat(trace.sequence.astype(np.int32), shape[1] * shape[2]),
        "mc": spread([operation.chunk for operation in operations], np.int16),
        "mb_id": spread([operation.microbatch for operation in operations], np.int32),
        "gmc": spread(chunks, np.int16),
    }
