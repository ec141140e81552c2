"""The published traces, and small traces that a test can spoil."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ground.files import read_source, write_file
from health.whatif import Analysis, Replayed, analyse, prepare, read_metadata, read_trace
from health.whatif.optypes import OPTYPES
from health.whatif.synthetic import make_trace, table_columns
from health.whatif.trace import metadata_file
from tests.health.whatif.recipes import Recipe

SMALL = Recipe(dp=2, pp=2, tp=2, microbatches=4, steps=3, seed=7)
"""2 x 2 workers, 4 microbatches, 3 steps: 288 rows or so."""


@dataclass(frozen=True)
class Published:
    """A published trace, what was published of it, and our analysis."""

    trace: Path
    meta: Path
    replayed: Replayed
    analysis: Analysis
    result: dict[str, Any]
    worker: dict[str, float]
    stage: dict[str, float]


@pytest.fixture(scope="session", params=["AR", "ST"])
def published(request: pytest.FixtureRequest) -> Published:
    """Both published traces in turn."""
    return published_trace(request.param)


def published_trace(name: str) -> Published:
    """One of the published traces."""
    folder = os.environ.get("ARNOLD_DATA")
    if not folder:
        pytest.skip("ARNOLD_DATA is not set: the published traces are not part of the project")
    data = Path(folder) / "straggler"
    trace, meta = data / f"trace-{name}.parquet", data / f"meta-{name}.yaml"
    replayed = prepare(read_trace(trace, sizes=read_metadata(read_source(meta))))
    result, worker, stage = (json.loads((data / f"{kind}-{name}.json").read_text()) for kind in ("result", "mw", "ms"))
    return Published(trace, meta, replayed, analyse(replayed), result, worker, stage)


Columns = dict[str, Any]
Spoil = Callable[[Columns], None]


def small_columns() -> Columns:
    """Columns of the small trace; ``optype`` as names."""
    columns = {key: np.array(values) for key, values in table_columns(make_trace(SMALL)).items()}
    columns["optype"] = np.array(OPTYPES)[columns["optype"]].astype(object)
    return columns


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """Write the small trace after spoiling its columns: (trace, metadata)."""

    def call(spoil: Spoil | None = None) -> tuple[Path, Path]:
        columns = small_columns()
        if spoil is not None:
            spoil(columns)
        trace, meta = tmp_path / "trace.parquet", tmp_path / "meta.yaml"
        pq.write_table(pa.table(columns), trace)
        write_file(meta, metadata_file(SMALL.sizes))
        return trace, meta

    return call
