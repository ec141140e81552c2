"""Training data that jobs share: how fast a cache loads it, what caches hold over a replay, what sharing saves.

A sample is found *augmented*, *decoded* or *encoded* in the cache, or is a *miss* and comes from storage; each way has
its own time until it is ready.  The forms are those of Seneca (FAST '26; docs: shared-data.md).  A cache holds what the
jobs that run in its domain read, and nothing else; it is full as soon as they run.

Joader's dependent sampling lets jobs that run at the same time choose the same samples: a load serves every job that
wants the sample, so that of samples which several jobs read, the fastest of them decides how often they are loaded.
With equal speeds that is one load for each sample of the union.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import fsum, isfinite
from typing import NamedTuple

import numpy as np

from ground.groups import grouped
from ground.records import Count, JsonRecord, NotNegative
from scheduler.job import DataSet, near_shared_data, union_size
from simulator.data_plan import IN_CACHE, NODE, DataPlan
from simulator.history import RunHistory
from simulator.sim_job import SimJob
from topology.cluster import Cluster, FloatArray, IntArray


def samples_by_form(
    split: FloatArray, *, cache: float, samples: float, encoded: float, prepared: float
) -> tuple[FloatArray, ...]:
    """Return how many samples the cache has augmented, decoded and encoded, and how many not at all.

    The cache is filled form by form, and no sample is held twice: what a form has no more samples for is left empty.

    :param split: shares of the cache for augmented, decoded and encoded samples, shape [3] or [3, splits].
    :param cache: bytes of it.
    :param encoded: bytes of a sample as it is stored; ``prepared``: of a decoded one, and of an augmented one.
    """
    left = np.full(split.shape[1:], samples)
    counts = []
    for share, size in zip(split, (prepared, prepared, encoded), strict=True):
        counts.append(np.minimum(left, share * cache / size))
        left = left - counts[-1]
    return (*counts, left)


def seconds_a_sample(counts: Sequence[FloatArray], rates: Sequence[float]) -> FloatArray:
    """Return the mean time until a sample is ready, ``sum of p_f / r_f``: one over the loading rate.

    :param counts: samples of each form; ``rates``: samples of the form that are ready in a second.
    """
    seconds: FloatArray = np.tensordot(1.0 / np.array(rates), np.array(counts), axes=1) / np.sum(counts, axis=0)
    return seconds


def all_splits(steps: int = 100) -> FloatArray:
    """Return every split of a cache in equal steps, shape [3, splits]: shares augmented, decoded, encoded."""
    augmented, decoded = np.mgrid[: steps + 1, : steps + 1].reshape(2, -1)
    kept = augmented + decoded <= steps
    shares: FloatArray = np.stack([augmented, decoded, steps - augmented - decoded])[:, kept] / steps
    return shares


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

    def affinity(self, job: SimJob) -> FloatArray:
        """Return shape [nodes]: the affinity of a job with those that read near the same cache."""
        if not job.record.data_sets:
            return np.zeros(len(self._cluster))
        running = [(self._plan.read_by(other.record), np.array(other.places)) for other in self._running.values()]
        data = self._plan.read_by(job.record)
        return near_shared_data(data, self._cache_of, running, whole=self._plan.whole)

    def paces(self, job: SimJob, runs: bool) -> dict[int, float]:
        """Let a job that has its places read, or read no more; return the relative step times of those that read near
        its caches.
        """
        if not job.record.data_sets:
            return {}
        touched = [self._there.setdefault(cache, set()) for cache in self._caches(job)]
        if runs:
            self._running[job.key] = job
        else:
            del self._running[job.key]
        for keys in touched:
            keys.add(job.key) if runs else keys.discard(job.key)
        paces = {}
        for key in set().union(*touched):
            other = self._running[key]
            read = self._plan.read_by(other.record)
            works = sum(data.size / self._plan.data_sets[data.name].demand for data in read)
            # as its slowest node loads; of one that never waits for data the pace is 1
            loads = max(sum(data.size * self._seconds(data, cache) for data in read) for cache in self._caches(other))
            paces[key] = max(1.0, loads / works)
        return paces

    def _caches(self, job: SimJob) -> list[int]:
        return sorted(set(self._cache_of[list(job.places)].tolist()))

    def _seconds(self, data: DataSet, cache: int) -> float:
        """Return how long a node near a cache takes for a sample of what a job reads of a data set."""
        stored, plan = self._plan.data_sets[data.name], self._plan
        read = grouped(part for key in self._there[cache] for part in plan.read_by(self._running[key].record))
        unions = {
            name: union_size(sizes, plan.data_sets[name].samples) if plan.cache.shared else sum(sizes)
            for name, sizes in read.items()
        }
        # data sets, or the copies of each job, have parts of the cache by their bytes
        total = sum(samples * plan.data_sets[name].encoded_bytes for name, samples in unions.items())
        samples = unions[data.name] if plan.cache.shared else data.size
        counts = samples_by_form(
            np.array(plan.cache.shares_by_form),
            cache=plan.cache.bytes * samples * stored.encoded_bytes / total,
            samples=samples,
            encoded=stored.encoded_bytes,
            prepared=stored.prepared_bytes,
        )
        return float(seconds_a_sample(counts, [getattr(stored, form) for form in (*IN_CACHE, "miss")]))


class SharedLoads(JsonRecord):
    """Loads of one data set; what a cache held of it is not deducted."""

    data_set: str
    """Name of the data set."""
    jobs: Count
    """Jobs that read it and started."""
    loads: NotNegative
    """Samples that were loaded, each job for itself."""
    shared: NotNegative
    """Samples that jobs near one cache would have loaded with dependent sampling, each load for all that want it."""


class Reader(NamedTuple):
    """A job that reads a data set near a cache for a while."""

    begin: float
    end: float
    passes: float  # over all that it reads, a second
    share: float  # of the data set that it reads


def shared_loads(past: RunHistory, plan: DataPlan) -> tuple[SharedLoads, ...]:
    """Return the loads of each data set that was read, by name; GPUs must not only have been counted."""
    assert past.cluster is not None
    cache, tried = cache_of(plan, past.cluster), past.attempts
    readers: dict[str, dict[int, list[Reader]]] = defaultdict(lambda: defaultdict(list))
    jobs: dict[str, set[int]] = defaultdict(set)
    for i, key in enumerate(tried.job.tolist()):
        nodes = tried.places[tried.first[i] : tried.first[i + 1]]
        begin, end, pace = (float(column[i]) for column in (tried.works, tried.end, tried.pace))
        read = plan.read_by(past.jobs[key].record)
        works = sum(size / plan.data_sets[name].demand for name, size in read)
        for name, size in read if isfinite(pace) else ():
            jobs[name].add(key)
            for number, there in Counter(cache[nodes].tolist()).items():
                share = size / plan.data_sets[name].samples
                readers[name][number].append(Reader(begin, end, there / works / pace, share))
    loads = []
    for name, near in sorted(readers.items()):
        samples = plan.data_sets[name].samples
        each = (fsum(job.share * job.passes * (job.end - job.begin) for job in there) for there in near.values())
        alone, together = fsum(samples * times for times in each), fsum(samples * _together(at) for at in near.values())
        loads.append(SharedLoads(name, len(jobs[name]), alone, together))
    return tuple(loads)


def _together(readers: list[Reader]) -> float:
    """Return how often the whole data set is loaded by jobs near one cache."""
    events = sorted((time, i) for i, reader in enumerate(readers) for time in (reader.begin, reader.end))
    there: set[int] = set()
    loads = before = 0.0
    for time, i in events:
        # each sample is loaded as often as its fastest reader has it
        rate, unread = 0.0, 1.0
        for reader in sorted((readers[k] for k in there), key=lambda reader: -reader.passes):
            rate += reader.passes * reader.share * unread
            unread *= 1.0 - reader.share
        loads += (time - before) * rate
        before = time
        there ^= {i}
    return loads
