"""The op trace on disk: Parquet, metadata in YAML, and what the conversion could not recover.

The last travels inside the Parquet file, so that the analysis heeds it.
"""

from __future__ import annotations

import io
import json
from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from health.whatif.analysis_result import Analysis
from health.whatif.converters.rank_layout import RankLayout, layout_of
from health.whatif.converters.rows import Conversion, Op
from health.whatif.metadata import JobSizes
from health.whatif.optypes import BACKWARD, FORWARD, GC
from health.whatif.writer import write_metadata
from topology.errors import InvalidInput
from topology.files import write_file

KEY = b"arnold.conversion"
"""Key of the statement in the metadata of the Parquet schema."""


def statement_of(conversion: Conversion) -> dict[str, Any]:
    """Return the statement as plain data."""
    return {
        "source": conversion.source,
        "recovered": conversion.counts(),
        "missing": [asdict(entry) for entry in conversion.missing],
        "untold": list(conversion.untold),
        "notes": list(conversion.notes),
    }


def read_statement(path: str | Path) -> dict[str, Any] | None:
    """Return the statement of a converted trace; ``None`` for a trace that was recorded as such, and for standard
    input.
    """
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


TRACE, META, STATEMENT = "trace.parquet", "meta.yaml", "conversion.json"
"""Names of the files in the output folder."""


def write_conversion(conversion: Conversion, sizes: JobSizes, folder: str | Path) -> list[Path]:
    """Write the three files and say where they are.

    :raises InvalidInput: the folder cannot be made or written to.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"cannot be made: {error.strerror}", where=str(folder), fix="choose another folder"
        ) from None
    statement = json.dumps(statement_of(conversion), indent=2) + "\n"
    write_file(target / TRACE, _parquet(conversion, layout_of(sizes), statement))
    write_metadata(target / META, sizes)
    write_file(target / STATEMENT, statement)
    return [target / TRACE, target / META, target / STATEMENT]


def _parquet(conversion: Conversion, layout: RankLayout, statement: str) -> bytes:
    """Return the rows as Parquet, columns and their order as in the public traces; times in double precision."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = _numbered(conversion, layout)
    columns = list(zip(*rows, strict=True))
    whole, real = pa.int32(), pa.float64()
    fields = [
        ("dp_rank", whole), ("stage", whole), ("rank", whole), ("step", pa.int64()), ("optype", pa.string()),
        ("start_ts", real), ("duration", real), ("seq_id", whole), ("mc", whole), ("mb_id", whole), ("gmc", whole),
    ]  # fmt: skip
    schema = pa.schema(fields, metadata={KEY: statement.encode()})
    table = pa.table([pa.array(column, kind) for column, (_, kind) in zip(columns, fields, strict=True)], schema=schema)
    out = io.BytesIO()
    pq.write_table(table, out, use_dictionary=["optype"])
    return out.getvalue()


Row = tuple[int, int, int, int, str, float, float, int, int, int, int]


def _numbered(conversion: Conversion, layout: RankLayout) -> list[Row]:
    """Return rows with times from the start of their step, and ``seq_id`` by time within worker, step and type."""
    groups: dict[tuple[int, int, str], list[Op]] = defaultdict(list)
    first: dict[int, float] = {}
    for op in conversion.ops:
        groups[op.step, op.rank, op.optype].append(op)
        first[op.step] = min(first.get(op.step, op.start), op.start)
    rows: list[Row] = []
    for (step, rank, optype), group in sorted(groups.items()):
        dp, stage = layout.worker(rank)
        for number, op in enumerate(sorted(group, key=lambda each: (each.start, each.microbatch))):
            start, duration = op.start - first[step], op.end - op.start
            microbatch = 0 if optype == GC else op.microbatch
            compute = optype in (FORWARD, BACKWARD)
            chunk_of_job = op.chunk * layout.pp + stage if compute else -1
            rows.append((dp, stage, rank, step, optype, start, duration, number, op.chunk, microbatch, chunk_of_job))
    return rows
