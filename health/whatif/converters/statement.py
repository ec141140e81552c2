"""What a conversion could not recover travels inside the Parquet file, so that the analysis heeds it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from health.whatif.converters.rows import Conversion
from health.whatif.result import Analysis

KEY = b"arnold.conversion"
"""Key of the statement in the metadata of the Parquet schema."""


def statement_of(conversion: Conversion) -> dict[str, Any]:
    """The statement as plain data."""
    return {
        "source": conversion.source,
        "recovered": conversion.counts(),
        "missing": [asdict(entry) for entry in conversion.missing],
        "untold": list(conversion.untold),
        "notes": list(conversion.notes),
    }


def read_statement(path: str | Path) -> dict[str, Any] | None:
    """The statement of a converted trace; ``None`` for a trace that was recorded as such, and for standard input."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        text = (pq.read_schema(path).metadata or {}).get(KEY)
        data = json.loads(text) if text else None
    except (OSError, pa.ArrowException, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def heed(analysis: Analysis, statement: dict[str, Any] | None) -> tuple[Analysis, list[str]]:
    """The analysis without a cause that the source cannot tell, and what to know about the source."""
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
