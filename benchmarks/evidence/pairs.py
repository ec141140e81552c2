"""Bandwidth tests of pairs on simulated clusters: is the slow node, uplink or domain named, in how few rounds."""

from collections.abc import Iterator, Sequence
from statistics import mean

import numpy as np

from benchmarks.evidence.naming import HEADER, Naming, rows
from benchmarks.evidence.tested_pairs import Fault, search, tree
from benchmarks.report import section
from benchmarks.report import table as markdown
from topology.cluster import Cluster

SHAPES = {"8 leaves of 16": (8, 16), "4 minipods of 4 leaves of 8": (4, 4, 8), "16 leaves of 8": (16, 8)}
KINDS: tuple[tuple[str, ...], ...] = (
    (),
    ("node",),
    ("link",),
    ("domain",),
    ("node", "node"),
    ("node", "link"),
    ("link", "link"),
)
FACTORS = (1.2, 1.5, 2.0, 4.0)
ROUNDS = {0: 3, 1: 3, 2: 5}  # Faults -> most rounds
RUNS = 10  # For each seed of the options


def table(*, seeds: int, **_: object) -> str:
    """Faults of 1.2 to 4 times at 3 % noise, rounds planned one by one from what was measured before."""
    sections = []
    for title, shape in SHAPES.items():
        cluster = tree(*shape)
        lines, took = [], {}
        for kinds in KINDS:
            name = " and ".join(kinds) or "none"
            found = list(searches(cluster, kinds, seeds * RUNS))
            took[name] = mean(rounds for rounds, _ in found)
            lines += list(rows("Arnold", (Naming(name, right, named) for _, (right, named) in found)))
        lines = [[*line, f"{took[line[0]]:.1f}"] for line in lines]
        sections.append(section(title, markdown(["slow", "tool", *HEADER, "rounds"], lines)))
    return "\n".join(["# Pairs of 128 nodes: node, uplink or domain named\n", *sections])


def searches(
    cluster: Cluster, kinds: Sequence[str], runs: int
) -> Iterator[tuple[int, tuple[frozenset[object], frozenset[object]]]]:
    """For each run how many rounds it took, what is slow, and what is named."""
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        faults: dict[Fault, float] = {}
        for kind in kinds:
            level = cluster.levels[rng.integers(len(cluster.levels))]
            name = str(rng.choice(cluster.names if kind == "node" else level.domains))
            faults[kind, name] = float(rng.choice(FACTORS))
        named, rounds = search(cluster, faults, rng, most=ROUNDS[len(kinds)])
        yield rounds, (frozenset(faults), frozenset(named))
