"""Seeded placement problems in six families: free nodes per domain, a grid of cells, an affinity.

Instance ``number`` of a seed is always the same, however many are drawn: runs can stop, resume and share work.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.job import Job, Parallelism
from topology.build import build_cluster
from topology.cluster import Cluster, Node

FAMILIES = ("even", "fragmented", "tight", "few", "mixed", "many-tiny")
"""even: equal domains; fragmented: 4-80 free nodes each; tight: the same, 97-100 % of them used; few: 2-5 large
domains; mixed: powers of two; many-tiny: 1-9 free nodes each.  All but ``tight`` use 25-95 % of the free nodes."""

STAGES = (2, 4, 8, 8, 12, 16)
ALPHAS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9)
MAX_CELLS = 1200
MAX_DOMAINS = 32
RACK_NODES = 8
GPUS = 8


@dataclass(frozen=True, slots=True)
class Instance:
    """One placement problem."""

    number: int
    family: str
    free: tuple[int, ...]  # Free nodes of each domain
    rows: int  # PP groups of the job
    columns: int  # Pipeline stages
    alpha: float

    def cluster(self) -> Cluster:
        """The domains as minipods of racks, with busy nodes (a third as many as the free ones) strewn among them."""
        rng = random.Random(f"cluster {self.number} {self.free}")
        nodes: list[Node] = []
        for k, count in enumerate(self.free):
            states = [GPUS] * count + [rng.choice([0, GPUS // 2]) for _ in range(count // 3 + 1)]
            rng.shuffle(states)
            for i, free_gpus in enumerate(states):
                path = (f"mp{k:02d}", f"mp{k:02d}-r{i // RACK_NODES}")
                nodes.append(Node(f"n{len(nodes):05d}", path, GPUS, free_gpus))
        return build_cluster(["minipod", "rack"], nodes)

    def job(self) -> Job:
        """The job whose cells are rows x columns nodes."""
        return grid_job(self.rows, self.columns, alpha=self.alpha)


def grid_job(rows: int, columns: int, *, alpha: float) -> Job:
    """A job of rows x columns cells whose spread counts at the level of minipods."""
    parallelism = Parallelism(tp=GPUS, dp=rows, pp=columns)
    return Job(f"grid-{rows}x{columns}", parallelism, alpha=alpha, gpus_per_node=GPUS, level="minipod")


def draw(number: int, *, seed: int) -> Instance:
    """One instance of a seed."""
    rng = random.Random(f"instance {seed} {number}")
    while True:
        family = rng.choice(FAMILIES)
        columns, domains = rng.choice(STAGES), rng.randint(3, MAX_DOMAINS)
        free = _free_nodes(family, domains, rng)
        used = rng.uniform(0.97, 1.0) if family == "tight" else rng.uniform(0.25, 0.95)
        rows = int(sum(free) * used) // columns
        if rows >= 2 and rows * columns <= MAX_CELLS:
            return Instance(number, family, free, rows, columns, rng.choice(ALPHAS))


def instances(n: int, *, seed: int) -> Iterator[Instance]:
    """The first n instances of a seed."""
    return (draw(number, seed=seed) for number in range(n))


def _free_nodes(family: str, domains: int, rng: random.Random) -> tuple[int, ...]:
    match family:
        case "even":
            return (rng.randint(24, 64),) * domains
        case "few":
            return tuple(rng.randint(10, 200) for _ in range(rng.randint(2, 5)))
        case "mixed":
            return tuple(rng.choice((8, 16, 32, 64, 128)) for _ in range(domains))
        case "many-tiny":
            return tuple(rng.randint(1, 9) for _ in range(domains))
        case _:
            return tuple(rng.randint(4, 80) for _ in range(domains))
