"""How often samples were loaded in a run, and how often if jobs near a cache had loaded together.

Joader's dependent sampling lets jobs that run at the same time choose the same samples: a load serves every job that
wants the sample, so that of samples which several jobs read, the fastest of them decides how often they are loaded.
With equal speeds that is one load for each sample of the union.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum, isfinite
from typing import NamedTuple

from ground.records import Count, JsonRecord, NotNegative
from simulator.results.run_history import RunHistory
from simulator.shared_data.data_caches import cache_of
from simulator.shared_data.data_plan import DataPlan


@dataclass(frozen=True, slots=True)
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
        works = sum(one.size / plan.data_sets[one.name].demand for one in read)
        for name, size in read if isfinite(pace) else ():
            jobs[name].add(key)
            for number, there in Counter(cache[nodes].tolist()).items():
                share = size / plan.data_sets[name].samples
                readers[name][number].append(Reader(begin, end, there / works / pace, share))
    return tuple(
        SharedLoads(
            name,
            len(jobs[name]),
            fsum(plan.data_sets[name].samples * _alone(some) for some in near.values()),
            fsum(plan.data_sets[name].samples * _together(some) for some in near.values()),
        )
        for name, near in sorted(readers.items())
    )


def _alone(readers: Iterable[Reader]) -> float:
    return fsum(one.share * one.passes * (one.end - one.begin) for one in readers)


def _together(readers: list[Reader]) -> float:
    """Return how often the whole data set is loaded by jobs near one cache."""
    events = sorted((time, i) for i, one in enumerate(readers) for time in (one.begin, one.end))
    there: set[int] = set()
    loads, before = 0.0, 0.0
    for time, i in events:
        loads += (time - before) * _rate([readers[k] for k in there]) if there else 0.0
        before = time
        there ^= {i}
    return loads


def _rate(readers: list[Reader]) -> float:
    """Return how often the whole data set is loaded in a second: each sample as often as its fastest reader has it."""
    rate, unread = 0.0, 1.0
    for one in sorted(readers, key=lambda one: -one.passes):
        rate += one.passes * one.share * unread
        unread *= 1.0 - one.share
    return rate
