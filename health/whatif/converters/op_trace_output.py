"""The op trace on disk: Parquet, metadata in YAML, and what the conversion could not recover.

The last travels inside the Parquet file, so that the analysis heeds it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from health.whatif.analysis_result import Analysis
from health.whatif.converters.rank_layout import RankLayout, layout_of
from health.whatif.converters.rows import Conversion, Op
from health.whatif.metadata import JobSizes
from health.whatif.optypes import BACKWARD, FORWARD, GC
from health.whatif.writer import metadata_file
from topology.errors import InvalidInput
from topology.files import write_file

KEY = b"arnold.conversion"  # Key of the statement in the metadata of the Parquet schema
COLUMNS = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id", "mc", "mb_id", "gmc")
"""Names and order of the columns, as in the public traces."""


def read_statement(path: str | Path) -> dict[str, Any] | None:
    """Return the statement of a converted trace; ``None`` of one that was recorded as such, and of standard input."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        text = (pq.read_schema(path).metadata or {}).get(KEY)
        data = json.loads(text) if text else None
    except (OSError, pa.ArrowException, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def heed(analysis: Analysis, statement: dict[str, Any] | None) -> tuple[Analysis, list[str]]:
    """Return the analysis without a cause that the source cannot tell, and what to know about the source."""
    if statement is None:
        return analysis, []
    source = str(statement.get("source", "another trace"))
    notes = [f"The trace was made from {source}."] + [
        f"Not in it: {entry.get('optype')}; that disables {entry.get('disables')}."
        for entry in _list(statement.get("missing"))
        if isinstance(entry, dict)
    ]
    if analysis.cause in _list(statement.get("untold")):
        why = f"{analysis.why}; but a trace made from {source} cannot tell that"
        return replace(analysis, cause="unknown", why=why), notes
    return analysis, notes


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def write_conversion(conversion: Conversion, sizes: JobSizes, folder: str | Path) -> list[Path]:
    """Write the trace, its metadata and the statement of the conversion, and say where they are.

    :raises InvalidInput: the folder cannot be made or written to.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"cannot be made: {error.strerror}", where=str(folder), fix="choose another folder"
        ) from None
    stated = {
        "source": conversion.source,
        "recovered": conversion.counts(),
        "missing": [asdict(entry) for entry in conversion.missing],
        "untold": conversion.untold,
        "notes": conversion.notes,
    }
    statement = json.dumps(stated, indent=2) + "\n"
    files: dict[str, str | bytes] = {
        "trace.parquet": _parquet(conversion, layout_of(sizes), statement),
        "meta.yaml": metadata_file(sizes),
        "conversion.json": statement,
    }
    for name, content in files.items():
        write_file(target / name, content)
    return [target / name for name in files]


def _parquet(conversion: Conversion, layout: RankLayout, statement: str) -> bytes:
    """Return the rows as Parquet; times in double precision."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"step": pa.int64(), "optype": pa.string(), "start_ts": pa.float64(), "duration": pa.float64()}
    fields = [(name, kinds.get(name, pa.int32())) for name in COLUMNS]
    schema = pa.schema(fields, metadata={KEY: statement.encode()})
    columns = zip(*_numbered(conversion, layout), strict=True)
    table = pa.table(dict(zip(COLUMNS, columns, strict=True)), schema=schema)
    out = BytesIO()
    pq.write_table(table, out, use_dictionary=["optype"])
    return out.getvalue()


def _numbered(conversion: Conversion, layout: RankLayout) -> list[tuple[int | float | str, ...]]:
    """Return rows with times from the start of their step, and ``seq_id`` by time within worker, step and type."""
    groups: dict[tuple[int, int, str], list[Op]] = defaultdict(list)
    first: dict[int, float] = {}
    for op in conversion.ops:
        groups[op.step, op.rank, op.optype].append(op)
        first[op.step] = min(first.get(op.step, op.start), op.start)
    rows: list[tuple[int | float | str, ...]] = []
    for (step, rank, optype), group in sorted(groups.items()):
        dp, stage = layout.worker(rank)
        for number, op in enumerate(sorted(group, key=lambda each: (each.start, each.microbatch))):
            start, duration = op.start - first[step], op.end - op.start
            microbatch = 0 if optype == GC else op.microbatch
            chunk_of_job = op.chunk * layout.pp + stage if optype in (FORWARD, BACKWARD) else -1
            rows.append((dp, stage, rank, step, optype, start, duration, number, op.chunk, microbatch, chunk_of_job))
    return rows
