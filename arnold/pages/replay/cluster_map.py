"""The map of a replay's page: the cluster drawn, and at some instants which job each node mainly belongs to."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arnold.pages.replay.job_tables import job_data
from simulator.results import size_class
from simulator.run_history import RunHistory, Spans
from topology.cluster import FloatArray, IntArray
from topology.drawing.layout import DETAIL, Layout, layout
from topology.drawing.renderers import node_data, svg_drawing

MOST_FRAMES, LEAST_FRAMES = 480, 60
MOST_CELLS = 1_200_000  # Nodes times instants that a page holds; larger clusters have fewer instants
AWAY = 255  # The share of a node that no job may use
OTHERS = 254  # The share of a node that others have in use all along
FULL = 100  # The share of a node of which everything is in use
MOST_NAMED = 20_000  # Jobs of which the page knows more than their size: the largest


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """The drawing, and what the script of the page knows of it."""

    drawing: str = ""
    jobs: int = 0  # how many are on it at some instant
    nodes: Mapping[str, Any] = field(default_factory=dict)  # by square
    instants: Mapping[str, Any] = field(default_factory=dict)
    why_none: str = ""  # why there is no map


def cluster_map(past: RunHistory) -> ClusterMap:
    """Return the map of a run, or why there is none."""
    cluster = past.cluster
    if cluster is None:
        return ClusterMap(why_none="GPUs were only counted in this run (--algorithm none): there is no map.")
    if len(cluster) > DETAIL:
        return ClusterMap(why_none="The cluster has too many nodes to draw each of them: there is no map.")
    found = frames(past)
    plan = layout(cluster)
    nodes = node_data(cluster, plan)
    drawing = svg_drawing(
        cluster,
        plan,
        np.zeros(len(cluster), dtype=np.int32),
        ["idle"],
        title="The cluster over time",
        note=lambda shape: f"{len(shape.nodes):,}",
    )
    return ClusterMap(drawing, len(found.jobs), nodes, _instants(past, plan, found))


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """The cluster over time."""

    times: FloatArray  # shape [frames], seconds since the first submission
    owner: IntArray  # int [frames, nodes], place in jobs + 1 of the job with most GPUs on the node; 0 = none
    # uint8 [frames, nodes], percent of the node in use, rounded up; OTHERS; AWAY
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
        share[row, past.usable <= 0] = OTHERS
        share[row, away_at(past.away, time)] = AWAY
    jobs = np.unique(owner)
    jobs = jobs[jobs > 0]
    return Frames(
        times, np.searchsorted(jobs, owner, side="right").astype(np.int32), share, (jobs - 1).astype(np.int32)
    )


def away_at(away: Spans, time: float) -> IntArray:
    """Return nodes that no job may use at a time."""
    return away.number[(away.begin <= time) & (away.end > time)]


def _instants(past: RunHistory, plan: Layout, found: Frames) -> dict[str, Any]:
    """Return what the script knows of each instant."""
    gpus = np.array([past.jobs[key].record.gpus for key in found.jobs])
    kept = np.sort(np.argsort(-gpus, kind="stable")[:MOST_NAMED])
    jobs = [past.jobs[key] for key in found.jobs[kept].tolist()]
    owner, share = found.owner[:, plan.nodes], found.share[:, plan.nodes]
    square = {node: place for place, node in enumerate(plan.nodes.tolist())}
    # owners as differences from the frame before, int32 little-endian, then shares
    change = np.diff(owner, axis=0, prepend=np.zeros((1, owner.shape[1]), dtype=np.int32))
    return {
        "times": [round(time, 1) for time in found.times.tolist()],
        # the page begins at the first instant at which most jobs are seen
        "slow": [[square[one.node], one.begin, one.end, one.slowdown] for one in past.slow if one.node in square],
        "start": int(np.argmax([len(np.unique(row)) for row in found.owner])),
        "cells": _packed(change.astype("<i4").tobytes() + share.tobytes()),
        "classes": packed_json(size_class(gpus).tolist()),
        "named": packed_json({"place": kept.tolist(), **job_data(jobs, past.origin)}),
    }


def packed_json(value: Any) -> str:
    """Return a value as JSON in little text, as the script of the page unpacks it."""
    return _packed(json.dumps(value, allow_nan=False, separators=(",", ":")).encode())


def _packed(data: bytes) -> str:
    """Return much data in little text: deflated and in base64; ``unpack`` in simulation.js reads it."""
    return b64encode(zlib.compress(data, 9)).decode("ascii")
