"""The cluster at some instants: which job each node mainly belongs to, and how much of it is in use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.results.run_history import RunHistory, Spans
from topology.cluster import FloatArray, IntArray

MOST_FRAMES, LEAST_FRAMES = 480, 60
MOST_CELLS = 1_200_000  # Nodes times instants that a page holds; larger clusters have fewer instants
AWAY = 255  # The share of a node that no job may use
FULL = 100  # The share of a node of which everything is in use


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """The cluster over time."""

    times: FloatArray  # shape [frames], seconds since the first submission
    owner: IntArray  # int [frames, nodes], place in jobs + 1 of the job with most GPUs on the node; 0 = none
    # uint8 [frames, nodes], percent of the node in use, rounded up; AWAY
    share: np.ndarray[tuple[int, int], np.dtype[np.uint8]]
    jobs: IntArray  # keys of the jobs that own a node at some instant, ascending


def frame_count(nodes: int) -> int:
    """Return instants for a cluster of so many nodes."""
    return int(min(MOST_FRAMES, max(LEAST_FRAMES, MOST_CELLS // max(nodes, 1))))


def frames(past: RunHistory, count: int | None = None) -> Frames:
    """Return the cluster at equal distances, in the middle of each part of the run; a job counts from its begin to its
    end.

    :param count: of instants; ``None`` = :func:`frame_count`.
    """
    nodes = len(past.usable)
    count = count or frame_count(nodes)
    times = (np.arange(count) + 0.5) * past.length / count
    attempts = past.attempts
    sizes = np.diff(attempts.first)
    size = np.where(past.usable > 0, past.usable, 1.0)
    # the job with most GPUs on a node comes last, and so is the one that is written
    order = np.lexsort((-attempts.begin, attempts.each, attempts.gpus))
    begin, end = attempts.begin[order], attempts.end[order]
    owner = np.zeros((count, nodes), dtype=np.int32)
    share = np.zeros((count, nodes), dtype=np.uint8)
    for row, time in enumerate(times):
        live = order[(begin <= time) & (end > time)]
        length = sizes[live]
        within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
        places = attempts.places[np.repeat(attempts.first[live], length) + within]
        owner[row, places] = np.repeat(attempts.job[live] + 1, length)
        used = np.bincount(places, weights=np.repeat(attempts.each[live], length), minlength=nodes)
        # rounded up, but not where sums of shares of a GPU are a hair too large
        share[row] = np.minimum(np.ceil(100.0 * used / size - 1e-6), FULL)
        share[row, away_at(past.away, time)] = AWAY
    jobs = np.unique(owner)
    jobs = jobs[jobs > 0]
    return Frames(
        times, np.searchsorted(jobs, owner, side="right").astype(np.int32), share, (jobs - 1).astype(np.int32)
    )


def away_at(away: Spans, time: float) -> IntArray:
    """Return nodes that no job may use at a time."""
    return away.number[(away.begin <= time) & (away.end > time)]
