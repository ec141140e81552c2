"""What the rows of a study say together: runs that differ in the seed alone, with means and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import numpy as np
from annotated_types import Gt

from ground.quantities import Kind
from ground.records import Count, JsonRecord
from simulator.confidence import Band, half_width
from topology.cluster import FloatArray

if TYPE_CHECKING:
    from simulator.study.study_run import Row


class ComparedMetric(NamedTuple):
    """A number of a run that is worth comparing."""

    column: str  # of the study's rows
    title: str
    kind: Kind
    better: Literal["less", "more"]  # which way is better


METRICS = (
    ComparedMetric("wait_mean", "Mean wait", "seconds", "less"),
    ComparedMetric("wait_p95", "Wait, 95th percentile", "seconds", "less"),
    ComparedMetric("jct_mean", "Mean completion time", "seconds", "less"),
    ComparedMetric("makespan_seconds", "Makespan", "seconds", "less"),
    ComparedMetric("utilization", "Utilisation", "share", "more"),
    ComparedMetric("fragmentation", "Fragmentation", "share", "less"),
    ComparedMetric("dp_spread", "Mean DP spread", "count", "less"),
    ComparedMetric("throughput_lost", "Throughput lost to slower steps", "share", "less"),
    ComparedMetric("ettr", "ETTR", "share", "more"),
)
"""In the order in which they are shown."""


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """The same over time, shape [buckets]; NaN = no run has a value."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray

    @staticmethod
    def of(runs: Sequence[FloatArray]) -> Bands:
        """Return the bands of runs over the same buckets."""
        means, halves = [], []
        for column in np.array(runs, dtype=np.float64).T:
            known = column[~np.isnan(column)].tolist()
            means.append(fmean(known) if known else np.nan)
            halves.append(half_width(known) if known else np.nan)
        mean, half = np.array(means), np.array(halves)
        return Bands(mean, np.maximum(mean - half, 0.0), mean + half)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRuns(JsonRecord):
    """Runs that differ in their seed alone."""

    name: str
    """What tells it from the others of its load."""
    policy: str
    """Queue policy."""
    algorithm: str
    """Placement algorithm; `none` = GPUs were only counted."""
    cluster: str
    """Name of its file, without folder and suffix where that tells it from the others."""
    load: Annotated[float, Gt(0)]
    """Scale of the load."""
    runs: Count
    """Runs that came to an end."""
    diverged: Count
    """Runs that were ended because they would not end."""
    metrics: Mapping[str, Band]
    """Column of the rows -> mean with its band; a number that no run has is left out."""
    against: Mapping[str, Band]
    """Differences from the first group of this load, seed by seed; empty in the first group."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunGroup(ComparedRuns):
    """The same runs, with their curves."""

    waiting: Bands | None  # jobs that wait, over time; None = no run came to an end
    allocation: Bands | None  # share of GPUs held, over time


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyDocument(JsonRecord):
    """Many replays of a trace."""

    title: str
    """Name of the trace."""
    runs: Count
    """Runs that were asked for."""
    made: Count
    """Runs that were made now; the others were there."""
    groups: tuple[ComparedRuns, ...]
    """In order of policy, algorithm, cluster, load."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What a study found."""

    title: str
    groups: tuple[RunGroup, ...]  # in order of policy, algorithm, cluster and load as they first appear
    windows: Mapping[float, float]  # load -> seconds that its time series span

    @property
    def loads(self) -> list[float]:
        """Scales of load, ascending."""
        return sorted({group.load for group in self.groups})

    @property
    def differing(self) -> list[ComparedMetric]:
        """Metrics that are not the same in all groups."""
        return [metric for metric in METRICS if len(self._values(metric)) > 1]

    @property
    def same(self) -> list[tuple[ComparedMetric, float]]:
        """Metrics that are, with what they are."""
        values = [(metric, self._values(metric)) for metric in METRICS]
        return [(metric, next(iter(found))) for metric, found in values if len(found) == 1]

    def _values(self, metric: ComparedMetric) -> set[float]:
        """Return different values of a metric, those on the ends of its intervals included."""
        bands = [band for group in self.groups if (band := group.metrics.get(metric.column)) is not None]
        return {round(end, 9) for band in bands for end in (band.mean - band.half, band.mean + band.half)}

    @property
    def names(self) -> list[str]:
        """Names of groups, without the load."""
        return list(dict.fromkeys(group.name for group in self.groups))


def compare(rows: Sequence[Row], *, title: str) -> Comparison:
    """Return what rows of a study say together."""
    by_key: dict[tuple[str, str, str, float], list[Row]] = {}
    for row in rows:
        by_key.setdefault((row["policy"], row["algorithm"], row["cluster"], row["load"]), []).append(row)
    varies = [len({key[i] for key in by_key}) > 1 for i in range(3)]
    first: dict[float, list[Row]] = {}
    groups = []
    for key, members in by_key.items():
        name = ", ".join(part for part, several in zip(key[:3], varies, strict=True) if several)
        groups.append(_group(key, name or key[0], members, first.setdefault(key[3], members)))
    windows: dict[float, float] = {}
    for row in rows:
        windows.setdefault(row["load"], row["window_seconds"] or 1.0)
    return Comparison(title, tuple(groups), windows)


def _group(key: tuple[str, str, str, float], name: str, rows: Sequence[Row], first: Sequence[Row]) -> RunGroup:
    """Return a group, compared with the rows of the first group of the same load."""
    ended = [row for row in rows if row["outcome"] == "ended"]
    metrics, against = dict[str, Band](), dict[str, Band]()
    for column in (metric.column for metric in METRICS):
        found = {row["seed"]: row[column] for row in ended if row[column] is not None}
        # runs of one seed have the same jobs: differences are known better than means
        other = {row["seed"]: row[column] for row in first if row["outcome"] == "ended" and row[column] is not None}
        differences = [found[seed] - other[seed] for seed in found if seed in other]
        if found:
            metrics[column] = Band.of([*found.values()])
        if differences and first is not rows:
            against[column] = Band.of(differences)
    curves = {
        name: Bands.of([np.array(row[name], dtype=np.float64) for row in ended]) if ended else None
        for name in ("waiting", "allocation")
    }
    return RunGroup(
        name=name,
        policy=key[0],
        algorithm=key[1],
        cluster=key[2],
        load=key[3],
        runs=len(ended),
        diverged=len(rows) - len(ended),
        metrics=metrics,
        against=against,
        **curves,
    )
