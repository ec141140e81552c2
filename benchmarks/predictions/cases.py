"""The runs to predict: clusters, jobs, and the two placements whose steps are compared.

The paper publishes sizes, not clusters, models or degrees of parallelism; what is assumed is said of each case.  Which
clusters count is decided by their spread alone, never by a gain.  A job has the alpha and the gains of one record of
the characterisation, whatever its placement.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.predictions.rectangles import published_ratios, rectangles
from scheduler.affinity import RECORDS, Model, Record, affinity
from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.objective import Evaluation, evaluate
from scheduler.placement.baselines import tightest_first
from scheduler.placement.heuristic import Heuristic
from scheduler.placement.types import ALGORITHMS, Limits, PlacementAlgorithm
from simulator.cost.step import PlacedJob
from topology.build import build_cluster
from topology.cluster import Cluster, IntArray, Node
from topology.generate import fragment, minipods

LEVEL = "minipod"
LLAMA3_8B = Model(hidden=4096, layers=32, vocab=128_256, sequence_length=8192, gpu="L20")
DENSE, MOE = RECORDS[0], RECORDS[3]

RANK_ORDER = Heuristic(
    "bin-pack", "best-fit that hands its nodes to the job's ranks in order, blind to groups", tightest_first
)


@dataclass(frozen=True, slots=True)
class Placed:
    """One placement with its spreads."""

    placed: PlacedJob
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class Pair:
    """The same job, placed by the baseline and by us."""

    before: Placed
    after: Placed

    @property
    def ratios(self) -> tuple[float, float]:
        """By what DP and PP spread go down."""
        before, after = self.before.evaluation, self.after.evaluation
        return before.dp / after.dp, before.pp / after.pp


@dataclass(frozen=True, slots=True)
class Case:
    """One run to predict."""

    name: str
    setup: str  # What is assumed, in a sentence
    baseline: str  # The placement to compare with, in words
    # Gain in throughput that was measured (arXiv 2509.15940, sections 4 and 7); `None` = none is
    published: float | None
    pairs: tuple[Pair, ...]
    # Any one of the pairs may have been what ran; else they are a sample, of which the mean counts
    any_pair: bool = False
    production: bool = True  # A run of the evaluation, of which nothing is in any calibration


def cases(seconds: float) -> Iterator[Case]:
    """All cases, in the order of the table.

    :param seconds: time limit of each solve.
    """
    limits = Limits(seconds=seconds)
    yield from over_unaligned(limits)
    yield from _208(limits)
    yield on_9600()
    yield from _l20(limits)


def job_of(record: Record, name: str, parallelism: Parallelism) -> Job:
    """A job of the kind of a record: its alpha, and what spread over two minipods was measured to cost."""
    return Job(name, parallelism, alpha=record.alpha, level=LEVEL, spread_cost=record.spread_cost)


def over_unaligned(limits: Limits) -> Iterator[Case]:
    """96 GPUs over two minipods: PP groups aligned, and DP groups aligned, each over groups that all cross.

    No gain of DP alignment is published: that it is nothing for the dense model and 0.77 % for the mixture of experts
    is read from alpha 0 and 0.3.
    """
    cluster = minipods(minipods=2, nodes=12)
    for record in RECORDS[:4]:
        job = job_of(record, "96 GPUs", record.parallelism)
        before = at(cluster, job, record.model, _crossing(cluster, job))
        for family, alpha, published in (("PP", 0.0, record.pp_gain / 100), ("DP", 1.0, None)):
            found = best_nodes(cluster, job.replace(alpha=alpha), limits)
            yield Case(
                f"96 GPUs, {record.name.removesuffix(' on H800')}, {family} groups aligned",
                f"12 nodes in 2 minipods of 6; tp 4, pp 2, dp 12; the shapes of the characterisation table, alpha "
                f"{job.alpha:g}",
                "all groups cross",
                published,
                (Pair(before, at(cluster, job, record.model, found)),),
                production=False,
            )


def _crossing(cluster: Cluster, job: Job) -> IntArray:
    """Half of the rows begin in one minipod and end in the other, half the other way: every group touches both."""
    one, other = (np.flatnonzero(cluster.level(LEVEL).domain_of == domain) for domain in (0, 1))
    rows = job.grid.rows // 2
    halves = [np.stack([one[:rows], other[:rows]], axis=1), np.stack([other[rows:], one[rows:]], axis=1)]
    return np.concatenate(halves).astype(np.int32)


def at(cluster: Cluster, job: Job, model: Model, nodes: IntArray) -> Placed:
    """A job on given nodes."""
    return Placed(PlacedJob(job, cluster, nodes, model), evaluate(cluster, job, nodes))


def _nodes(algorithm: PlacementAlgorithm, cluster: Cluster, job: Job, limits: Limits) -> IntArray:
    """Where an algorithm puts a job.

    :raises RuntimeError: nowhere.
    """
    outcome = run(algorithm, cluster, job, limits)
    if outcome.proposal.nodes is None:
        raise RuntimeError(f"{algorithm.name} does not place {job.name}: {outcome.reason}")
    return outcome.proposal.nodes


def best_nodes(cluster: Cluster, job: Job, limits: Limits) -> IntArray:
    """Where the exact algorithm puts a job; raises as :func:`_nodes`."""
    return _nodes(ALGORITHMS.load("exact"), cluster, job, limits)


def _pair(baseline: PlacementAlgorithm, cluster: Cluster, job: Job, model: Model, limits: Limits) -> Pair:
    both = (_nodes(baseline, cluster, job, limits), best_nodes(cluster, job, limits))
    before, after = (at(cluster, job, model, nodes) for nodes in both)
    return Pair(before, after)


def _208(limits: Limits) -> Iterator[Case]:
    """The same placements for either kind of model: which one it was is not published."""
    job = job_of(MOE, "208 GPUs", Parallelism(tp=8, pp=2, dp=13))
    clusters = (fragment(minipods(), 0.97, seed) for seed in range(40))
    placed = [_pair(RANK_ORDER, cluster, job, MOE.model, limits) for cluster in clusters]
    placed = [pair for pair in placed if pair.ratios == (3.0, 2.0)]
    for record, words in ((DENSE, "24B dense"), (MOE, "24B MoE")):
        kind = job_of(record, "208 GPUs", job.parallelism)
        sides = ((pair.before.placed, pair.after.placed) for pair in placed)
        pairs = (Pair(*(at(one.cluster, kind, record.model, one.nodes) for one in both)) for both in sides)
        yield Case(
            f"208 GPUs as {words}",
            "22 minipods of 93 nodes, 97 % in use, 40 seeds, those whose spreads go down 3x and 2x as published; tp 8, "
            f"pp 2, dp 13; alpha {kind.alpha:g}",
            "bin-packed in rank order",
            0.057,
            tuple(pairs),
        )


def on_9600() -> Case:
    """Every pair of placements in rectangles whose spreads go down as published, 1.5x and 1.3x."""
    cluster, job = minipods(), job_of(MOE, "9,600 GPUs", Parallelism(tp=8, pp=8, dp=150))
    found = rectangles(cluster, job, LEVEL)
    sides = {spreads: at(cluster, job, MOE.model, nodes) for spreads, nodes in found.items()}
    return Case(
        "9,600 GPUs",
        "22 minipods of 93 nodes; tp 8, pp 8, dp 150; 24B MoE, alpha 0.3; every pair of whole numbers S and R that go "
        "down 1.5x and 1.3x as published, of placements in rectangles",
        "the published ratios",
        0.106,
        tuple(Pair(sides[before], sides[after]) for before, after in published_ratios(sides)),
        any_pair=True,
    )


def _l20(limits: Limits) -> Iterator[Case]:
    parallelism = Parallelism(tp=4, pp=2, dp=12)
    nearest = affinity(LLAMA3_8B, parallelism, RECORDS).record or MOE
    job = job_of(nearest, "Llama3-8B", parallelism)
    packing = ALGORITHMS.load("gpu-packing")
    readings = (("bin-packed in rank order", RANK_ORDER, 3.86 / 3.80), ("GPU-packed", packing, 3.86 / 3.82))
    for words, baseline, petaflops in readings:
        yield Case(
            "Llama3-8B, 12 L20 nodes",
            f"18 nodes in 3 minipods, every split in which none holds the job; tp 4, pp 2, dp 12; alpha {job.alpha:g} "
            "from the nearest record",
            words,
            petaflops - 1.0,
            tuple(_pair(baseline, _split(sizes), job, LLAMA3_8B, limits) for sizes in _splits(18, 12)),
        )


def _splits(nodes: int, too_many: int) -> Iterator[tuple[int, int, int]]:
    """Sizes of three minipods, none empty, the largest first and below ``too_many``."""
    for a in range(1, too_many):
        for b in range(1, a + 1):
            if 1 <= (c := nodes - a - b) <= b:
                yield a, b, c


def _split(sizes: tuple[int, int, int]) -> Cluster:
    """Minipods of these sizes, all nodes free."""
    pods = [f"mp{i + 1}" for i, size in enumerate(sizes) for _ in range(size)]
    return build_cluster([LEVEL], [Node(f"n{i + 1:02d}", (pod,), 8, 8) for i, pod in enumerate(pods)])
