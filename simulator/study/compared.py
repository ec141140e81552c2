"""Several runs side by side: what a study found, in the form in which pages and tables show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Literal, NamedTuple

import numpy as np
from annotated_types import Ge

from simulator.confidence import half_width
from topology.cluster import FloatArray
from topology.json_record import JsonRecord
from topology.quantities import Kind


class ComparedMetric(NamedTuple):
    """A number of a run that is worth comparing.

    :param column: of the study's rows.
    :param better: which way is better.
    """

    column: str
    title: str
    kind: Kind
    better: Literal["less", "more"]


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


@dataclass(frozen=True, slots=True)
class Band(JsonRecord):
    """A number over seeds."""

    mean: float
    """Over the runs of the group."""
    half: Annotated[float, Ge(0)]
    """Half of the 95 % interval of the mean, by Student's t; 0 with one run."""

    @staticmethod
    def of(values: Sequence[float]) -> Band | None:
        """Of the runs of a group; ``None`` = no run has the number."""
        return Band(fmean(values), half_width(values)) if values else None


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """The same over time, shape [buckets]; NaN = no run has a value."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray

    @staticmethod
    def of(runs: Sequence[FloatArray]) -> Bands:
        """Of runs over the same buckets."""
        means, halves = [], []
        for column in np.array(runs, dtype=np.float64).T:
            known = column[~np.isnan(column)].tolist()
            means.append(fmean(known) if known else np.nan)
            halves.append(half_width(known) if known else np.nan)
        mean, half = np.array(means), np.array(halves)
        return Bands(mean, np.maximum(mean - half, 0.0), mean + half)


@dataclass(frozen=True, slots=True, eq=False)
class RunGroup:
    """Runs that differ in their seed alone.

    :param name: what tells it from the others of its load: policy, algorithm, cluster, as far as they vary.
    :param seeds: runs that came to an end.
    :param diverged: runs that did not.
    :param bands: by column of :data:`METRICS`.
    :param against: the same for the differences from the first group of this load, seed by seed: runs of one seed have
        the same jobs, so these are known better than the means; empty in the first group.
    :param waiting: jobs that wait, over time; ``None`` = no run came to an end.
    :param allocation: share of GPUs held, over time.
    """

    name: str
    policy: str
    algorithm: str
    cluster: str
    load: float
    seeds: int
    diverged: int
    bands: Mapping[str, Band | None]
    against: Mapping[str, Band | None]
    waiting: Bands | None
    allocation: Bands | None


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """A study.

    :param groups: in the order of the study.
    :param windows: load -> seconds that its time series span.
    """

    title: str
    groups: Sequence[RunGroup]
    windows: Mapping[float, float]

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
        bands = [band for group in self.groups if (band := group.bands.get(metric.column)) is not None]
        return {round(end, 9) for band in bands for end in (band.mean - band.half, band.mean + band.half)}

    @property
    def names(self) -> list[str]:
        """Names of groups, without the load."""
        return list(dict.fromkeys(group.name for group in self.groups))
