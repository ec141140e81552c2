"""Every split of a cache at every point of the inputs: how long a node takes until it has a sample ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simulator.capacity.question import InputPoints
from simulator.shared_data import all_splits, samples_by_form, seconds_a_sample
from topology.cluster import FloatArray

GB, KB = 1e9, 1e3


@dataclass(frozen=True)
class CacheModel:
    """The splits of one cache; the last is no cache at all."""

    where: InputPoints
    """The inputs, by the names of the options of the question."""
    cache_gb: float
    samples: float
    """Different samples that are read."""
    fresh: bool
    """Whether each use needs a newly augmented sample."""
    steps: int
    """In how many parts a cache is split."""

    @cached_property
    def splits(self) -> FloatArray:
        """Shape [3, splits]: shares augmented, decoded, encoded."""
        return np.hstack([all_splits(self.steps), np.zeros((3, 1))])

    def at(self, *shares: float) -> int:
        """Return which of the splits of the cache has these shares."""
        return int(np.abs(self.splits[:, :-1] - np.array(shares)[:, None]).sum(axis=0).argmin())

    @cached_property
    def seconds(self) -> FloatArray:
        """Shape [points of the inputs, splits], mean seconds until a node has a sample ready."""
        return np.array([self.seconds_at(point) for point in self.where.points])

    def seconds_at(self, point: Mapping[str, float], *, times: float = 1.0) -> FloatArray:
        """Return these seconds at one point, shape [splits], of a cache so many times as large."""
        encoded, prepared = point["encoded_kb"] * KB, point["prepared_kb"] * KB
        cached, stored = point["cache_bandwidth"] * GB, point["storage_bandwidth"] * GB
        miss = min(stored / encoded, point["decode_rate"])
        rates = (
            miss if self.fresh else cached / prepared,
            min(cached / prepared, point["augment_rate"]),
            min(cached / encoded, point["decode_rate"]),
            miss,
        )
        return seconds_a_sample(self.counts(point, times=times), rates)

    def counts(self, point: Mapping[str, float], *, times: float = 1.0) -> tuple[FloatArray, ...]:
        """Return samples by form, each of shape [splits], the last those that are not in the cache."""
        return samples_by_form(
            self.splits,
            cache=times * self.cache_gb * GB,
            samples=self.samples,
            encoded=point["encoded_kb"] * KB,
            prepared=point["prepared_kb"] * KB,
        )
