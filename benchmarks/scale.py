"""Large clusters: 12,500 free nodes in 50 uneven domains, 100,000 nodes, and how time grows in between."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.growth import draw_power, exponent, save
from benchmarks.instances import grid_job
from benchmarks.report import promises, section, table_of
from benchmarks.rows import watched
from scheduler.algorithm_run import run
from scheduler.outcome import Outcome
from scheduler.placement.types import ALGORITHMS, Limits
from topology.cluster import Cluster
from topology.generate import fragment, minipods

ALPHAS = (0.3, 0.5, 0.7)
COLUMNS = 16
LARGE_ROWS = (460, 480, 620, 780)
LARGE_NODES, LARGE_FREE, LARGE_DOMAINS = 15_625, 12_500, 50
LARGE_SECONDS, LARGE_LIMIT, LARGE_GAP, LARGE_PROVED = 5.0, 9.0, 0.04, 10
HUGE_NODES = 100_000
HUGE_SECONDS, HUGE_LIMIT = 30.0, 25.0
"""What we promise, and the limit the solver gets so that a run without a proof keeps it."""

SIZES = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, HUGE_NODES)
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # Affinities at 100,000 nodes
WEIGHTS_PROVED, WEIGHTS_SECONDS, GROWTH_EXPONENT = 8, 1.0, 1.3
"""What we promise there: so many of the nine proved, each by a solver below a second; and how time grows with nodes."""

DOMAIN_NODES = 250
BUSY_SHARE = 0.3
JOB_SHARE = 0.6
UNEVENNESS = 0.5


@dataclass(frozen=True, slots=True)
class Point:
    """One run."""

    nodes: int  # Nodes of the cluster
    free: int  # Free nodes
    domains: int
    rows: int
    alpha: float
    seed: int
    outcome: Outcome

    @property
    def seconds(self) -> float:
        """Solver alone."""
        return self.outcome.proposal.solve_seconds


def large_cluster(seed: int) -> Cluster:
    """50 uneven minipods with exactly 12,500 free nodes among 15,625."""
    whole = minipods(minipods=LARGE_DOMAINS, nodes=LARGE_NODES, rack_nodes=8, unevenness=UNEVENNESS, seed=seed)
    return fragment(whole, 1 - LARGE_FREE / LARGE_NODES, seed)


def growing_cluster(nodes: int, seed: int) -> Cluster:
    """Uneven minipods of 250 nodes on average, 30 % of the nodes busy in a fragmented way."""
    count = nodes // DOMAIN_NODES
    whole = minipods(minipods=count, nodes=nodes, rack_nodes=8, unevenness=UNEVENNESS, seed=seed)
    return fragment(whole, BUSY_SHARE, seed)


def measure_large(seeds: int, *, seconds: float = LARGE_LIMIT) -> list[Point]:
    """Jobs of 7,360 to 12,480 cells on the 12,500 free nodes."""
    cases = [
        (large_cluster(seed), rows, ALPHAS[(seed + i) % len(ALPHAS)], seed)
        for seed in range(1, seeds + 1)
        for i, rows in enumerate(LARGE_ROWS)
    ]
    return _measure(cases, label="12,500 nodes", seconds=seconds)


def measure_growth(seeds: int, sizes: Sequence[int] = SIZES, *, seconds: float = HUGE_LIMIT) -> list[Point]:
    """Jobs on 60 % of the free nodes of clusters of growing size."""
    cases = []
    for nodes in sizes:
        for seed in range(1, seeds + 1):
            cluster = growing_cluster(nodes, seed)
            rows = int(JOB_SHARE * np.count_nonzero(cluster.idle)) // COLUMNS
            cases.append((cluster, rows, ALPHAS[seed % len(ALPHAS)], seed))
    return _measure(cases, label="growth", seconds=seconds)


def measure_weights(seed: int = 1, *, nodes: int = HUGE_NODES, seconds: float = HUGE_LIMIT) -> list[Point]:
    """One job on 60 % of the free nodes of the largest cluster, at nine affinities."""
    cluster = growing_cluster(nodes, seed)
    rows = int(JOB_SHARE * np.count_nonzero(cluster.idle)) // COLUMNS
    return _measure([(cluster, rows, alpha, seed) for alpha in WEIGHTS], label="weights", seconds=seconds)


def _measure(cases: Sequence[tuple[Cluster, int, float, int]], *, label: str, seconds: float) -> list[Point]:
    exact = ALGORITHMS.load("exact")
    run(
        exact, growing_cluster(SIZES[0], 0), grid_job(20, COLUMNS, alpha=0.5), Limits(seconds=seconds)
    )  # imports solvers
    points = []
    for cluster, rows, alpha, seed in watched(cases, label=label, total=len(cases)):
        outcome = run(exact, cluster, grid_job(rows, COLUMNS, alpha=alpha), Limits(seconds=seconds))
        free = int(np.count_nonzero(cluster.idle))
        points.append(Point(len(cluster), free, len(cluster.levels[0]), rows, alpha, seed, outcome))
    return points


def medians(points: Sequence[Point]) -> tuple[list[int], list[float]]:
    """Sizes, and the median time of each."""
    sizes = sorted({point.nodes for point in points})
    return sizes, [float(np.median([p.seconds for p in points if p.nodes == nodes])) for nodes in sizes]


def report_large(points: Sequence[Point]) -> str:
    """Time and gap at 12,500 nodes."""
    slowest = max(point.seconds for point in points)
    gap = max(_gap(point) for point in points)
    proved = sum(point.outcome.status == "optimal" for point in points)
    lines = [
        (f"every run below {LARGE_SECONDS:g} s", f"{slowest:.2f} s", slowest < LARGE_SECONDS),
        (f"gap at most {LARGE_GAP:.0%}", f"{gap:.1%}", gap <= LARGE_GAP),
        (
            f"at least {LARGE_PROVED} of 12 proved",
            f"{proved} of {len(points)}",
            12 * proved >= LARGE_PROVED * len(points),
        ),
    ]
    return section("12,500 free nodes in 50 uneven, fragmented domains", _table(points), promises(*lines))


def report_growth(points: Sequence[Point]) -> str:
    """Time over size, with the exponent."""
    largest = [point for point in points if point.nodes == HUGE_NODES]
    lines = []
    if largest:
        slowest = max(point.seconds for point in largest)
        lines.append((f"100,000 nodes below {HUGE_SECONDS:g} s", f"{slowest:.2f} s", slowest < HUGE_SECONDS))
    sizes, seconds = medians(points)
    if len(sizes) > 1:
        power = exponent(sizes, seconds)
        lines.append((f"time grows as nodes to at most {GROWTH_EXPONENT:g}", f"{power:.2f}", power <= GROWTH_EXPONENT))
    return section("Time against nodes", _table(points), promises(*lines) if lines else "")


def report_weights(points: Sequence[Point]) -> str:
    """Time and proofs at nine affinities."""
    proved = sum(point.outcome.status == "optimal" for point in points)
    slowest = max(point.seconds for point in points)
    lines = [
        (f"at least {WEIGHTS_PROVED} proved", f"{proved} of {len(points)}", proved >= WEIGHTS_PROVED),
        (f"solver below {WEIGHTS_SECONDS:g} s", f"{slowest:.2f} s", slowest < WEIGHTS_SECONDS),
    ]
    return section(f"{points[0].nodes:,} nodes at {len(points)} affinities", _table(points), promises(*lines))


def plot(points: Sequence[Point], file: Path) -> None:
    """Draw time over nodes with the fitted power."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.loglog([p.nodes for p in points], [p.seconds for p in points], "o", color="#9aa5b1", ms=4, label="one run")
    draw_power(axes, *medians(points), what="nodes", label="median")
    axes.set(
        xlabel="nodes of the cluster",
        ylabel="seconds of the solver",
        title="Time to place a job on 60 % of the free nodes",
    )
    save(figure, file)


def _gap(point: Point) -> float:
    return 1.0 if point.outcome.gap is None else point.outcome.gap


def _table(points: Sequence[Point]) -> str:
    def pair(point: Point) -> str:
        worth = point.outcome.evaluation
        return f"({worth.dp}, {worth.pp})" if worth else "-"

    columns: dict[str, Callable[[Point], object]] = {
        "nodes": lambda point: f"{point.nodes:,}",
        "free": lambda point: f"{point.free:,}",
        "domains": lambda point: point.domains,
        "cells": lambda point: f"{point.rows}x{COLUMNS} = {point.rows * COLUMNS:,}",
        "alpha": lambda point: point.alpha,
        "seed": lambda point: point.seed,
        "(S, R)": pair,
        "status": lambda point: point.outcome.status,
        "gap": lambda point: f"{_gap(point):.1%}",
        "s": lambda point: f"{point.seconds:.2f}",
    }
    return table_of(points, columns)
