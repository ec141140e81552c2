"""What the rows of a study say together: runs that differ in the seed alone, with means and intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.study.compared import METRICS, Band, Bands, Comparison, RunGroup
from simulator.study.run_row import Row

Key = tuple[str, str, str, float]


def compare(rows: Sequence[Row], *, title: str) -> Comparison:
    """Return groups in order of policy, algorithm, cluster and load as they first appear."""
    by_key: dict[Key, list[Row]] = {}
    for row in rows:
        by_key.setdefault((row["policy"], row["algorithm"], row["cluster"], row["load"]), []).append(row)
    varies = [len({key[i] for key in by_key}) > 1 for i in range(3)]
    first: dict[float, list[Row]] = {}
    for key, members in by_key.items():
        first.setdefault(key[3], members)
    groups = [_group(key, members, varies, first[key[3]]) for key, members in by_key.items()]
    windows: dict[float, float] = {}
    for row in rows:
        windows.setdefault(row["load"], row["window_seconds"] or 1.0)
    return Comparison(title, groups, windows)


def _group(key: Key, rows: Sequence[Row], varies: Sequence[bool], first: Sequence[Row]) -> RunGroup:
    ended = [row for row in rows if row["outcome"] == "ended"]
    parts = [part for part, several in zip(key[:3], varies, strict=True) if several]
    bands = {
        metric.column: Band.of([row[metric.column] for row in ended if row[metric.column] is not None])
        for metric in METRICS
    }
    return RunGroup(
        name=", ".join(parts) or key[0],
        policy=key[0],
        algorithm=key[1],
        cluster=key[2],
        load=key[3],
        seeds=len(ended),
        diverged=len(rows) - len(ended),
        bands=bands,
        against={} if first is rows else {metric.column: _against(rows, first, metric.column) for metric in METRICS},
        waiting=_bands(ended, "waiting"),
        allocation=_bands(ended, "allocation"),
    )


def _against(rows: Sequence[Row], first: Sequence[Row], column: str) -> Band | None:
    """Return differences of runs with the same seed."""
    other = {row["seed"]: row[column] for row in first if row["outcome"] == "ended" and row[column] is not None}
    return Band.of(
        [
            row[column] - other[row["seed"]]
            for row in rows
            if row["outcome"] == "ended" and row[column] is not None and row["seed"] in other
        ]
    )


def _bands(rows: Sequence[Row], column: str) -> Bands | None:
    return Bands.of([np.array(row[column], dtype=np.float64) for row in rows]) if rows else None
