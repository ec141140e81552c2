"""Placements of a job with a chosen DP and PP spread: its grid cut into rectangles, each in one minipod."""

from collections.abc import Iterable

import numpy as np

from scheduler.job import Job
from scheduler.objective import evaluate
from topology.cluster import Cluster, IntArray

Spreads = tuple[int, int]  # Largest number of minipods of a DP group (S) and of a PP group (R)


def rectangles(cluster: Cluster, job: Job, level: str) -> dict[Spreads, IntArray]:
    """Placements by their spreads, shape [rows, columns] each, of which the cluster's minipods have nodes for.

    Columns are cut into R bands as even as can be, rows into bands of as many as a minipod holds beside the widest of
    these, R minipods for each; the rows left over go in further bands to one minipod each, so that S is what is chosen.
    """
    rows, columns = job.grid.rows, job.grid.columns
    domains = cluster.level(level).domain_of
    nodes = [np.flatnonzero(domains == domain) for domain in range(int(domains.max()) + 1)]
    size = min(map(len, nodes))
    found = {}
    for wide in range(1, columns + 1):
        bands = np.array_split(np.arange(columns), wide)
        tall = size // len(bands[0])
        for whole in range(1, rows // tall + 1):
            tops = [(top, band) for top in np.split(np.arange(whole * tall), whole) for band in bands]
            left = np.arange(whole * tall, rows)
            for further in range(-(-len(left) // (size // columns)), min(len(left), len(nodes) - len(tops)) + 1):
                rest = [(band, np.arange(columns)) for band in np.array_split(left, further)] if further else []
                placed = np.empty((rows, columns), dtype=np.int32)
                for cell, pod in zip([*tops, *rest], nodes, strict=False):
                    placed[np.ix_(*cell)] = pod[: len(cell[0]) * len(cell[1])].reshape(len(cell[0]), -1)
                spread = evaluate(cluster, job, placed)
                found[spread.dp, spread.pp] = placed
    return found


def published_ratios(found: Iterable[Spreads]) -> list[tuple[Spreads, Spreads]]:
    """Pairs of spreads, before and after, that go down 1.5x and 1.3x, to the digit that is published."""
    return [
        (before, after)
        for before in sorted(found)
        for after in sorted(found)
        if (1.45 <= before[0] / after[0] < 1.55) and (1.25 <= before[1] / after[1] < 1.35)
    ]
