"""Which jobs read what near which cache while a run goes on, and the pace of jobs that wait for their data.

A cache holds what the jobs that run in its domain read, and nothing else; it is full as soon as they run.
"""

from __future__ import annotations

import numpy as np

from scheduler.job import DataSet, near_shared_data, union_size
from simulator.shared_data.data_plan import NODE, DataPlan
from simulator.shared_data.loading_rate import samples_by_form, seconds_a_sample
from simulator.sim_job import SimJob
from topology.cluster import Cluster, FloatArray, IntArray


def cache_of(plan: DataPlan, cluster: Cluster) -> IntArray:
    """Return the number of the cache that each node uses, shape [nodes]."""
    if plan.cache.level == NODE:
        return np.arange(len(cluster), dtype=np.int32)
    return cluster.level(plan.cache.level).domain_of


class DataCaches:
    """The caches of a cluster, and the jobs that read data near them."""

    def __init__(self, plan: DataPlan, cluster: Cluster) -> None:
        self._plan, self._cluster = plan, cluster
        self._cache_of = cache_of(plan, cluster)
        self._running: dict[int, SimJob] = {}
        self._there: dict[int, set[int]] = {}  # Cache -> keys of the jobs that read near it

    def near(self, job: SimJob) -> FloatArray:
        """Return shape [nodes]: the affinity of a job with those that read near the same cache."""
        if not job.record.data_sets:
            return np.zeros(len(self._cluster))
        running = [(self._plan.read_by(one.record), np.array(one.places)) for one in self._running.values()]
        data = self._plan.read_by(job.record)
        return near_shared_data(data, self._cache_of, running, whole=self._plan.whole)

    def paces(self, job: SimJob, runs: bool) -> dict[int, float]:
        """Let a job that has its places read, or read no more; return the paces of those that read near its caches."""
        if not job.record.data_sets:
            return {}
        touched = [self._there.setdefault(cache, set()) for cache in self._caches(job)]
        if runs:
            self._running[job.key] = job
        else:
            del self._running[job.key]
        for keys in touched:
            keys.add(job.key) if runs else keys.discard(job.key)
        return {key: self._pace(key) for key in set().union(*touched)}

    def _caches(self, job: SimJob) -> list[int]:
        return sorted(set(self._cache_of[list(job.places)].tolist()))

    def _pace(self, key: int) -> float:
        """Return the relative step time of a job that reads, as its slowest node loads: 1 = it never waits for data."""
        job = self._running[key]
        data = self._plan.read_by(job.record)
        works = sum(one.size / self._plan.data_sets[one.name].demand for one in data)
        loads = max(sum(one.size * self._seconds(one, cache) for one in data) for cache in self._caches(job))
        return max(1.0, loads / works)

    def _seconds(self, data: DataSet, cache: int) -> float:
        """Return how long a node near a cache takes for a sample of what a job reads of a data set."""
        stored, plan = self._plan.data_sets[data.name], self._plan
        read: dict[str, list[float]] = {}
        for key in self._there[cache]:
            for one in plan.read_by(self._running[key].record):
                read.setdefault(one.name, []).append(one.size)
        unions = {
            name: union_size(sizes, plan.data_sets[name].samples) if plan.cache.shared else sum(sizes)
            for name, sizes in read.items()
        }
        # data sets, or the copies of each job, have parts of the cache by their bytes
        total = sum(samples * plan.data_sets[name].encoded_bytes for name, samples in unions.items())
        samples = unions[data.name] if plan.cache.shared else data.size
        counts = samples_by_form(
            np.array(plan.cache.split),
            cache=plan.cache.bytes * samples * stored.encoded_bytes / total,
            samples=samples,
            encoded=stored.encoded_bytes,
            prepared=stored.prepared_bytes,
        )
        return float(seconds_a_sample(counts, stored.rates))
