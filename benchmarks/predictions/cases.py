"""The runs to predict: clusters, jobs, and the two placements whose steps are compared.

The paper publishes sizes, not clusters, models or degrees of parallelism; what is assumed is said of each case.  Which
clusters count is decided by their spread alone, never by a gain.  These are the cases as they were predicted first;
some do not compare what the paper compares, which ``corrected`` puts right beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.affinity import RECORDS, Model, affinity
from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.objective import Evaluation
from scheduler.placement.baselines import tightest_first
from scheduler.placement.heuristic import Heuristic
from scheduler.placement.types import ALGORITHMS, Limits, PlacementAlgorithm
from simulator.cost.types import PlacedJob
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.generate import fragment, minipods

LEVEL = "minipod"
LLAMA3_8B = Model(hidden=4096, layers=32, vocab=128_256, sequence_length=8192, gpu="L20")
DENSE_24B = RECORDS[0].model
ON_96 = "12 nodes in 2 minipods of 6; tp 4, pp 2, dp 12"

RANK_ORDER = Heuristic(
    "bin-pack",
    "best-fit that hands its nodes to the job's ranks in order, blind to groups",
    tightest_first,
)


@dataclass(frozen=True, slots=True)
class Placed:
    """One placement with its spreads."""

    placed: PlacedJob
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class Pair:
    """The same job on the same cluster, placed by the baseline and by us."""

    before: Placed
    after: Placed


@dataclass(frozen=True, slots=True)
class Case:
    """One run to predict.

    :param setup: what is assumed, in a sentence.
    :param baseline: the placement to compare with, in words.
    :param published: gain in throughput that was measured (arXiv 2509.15940, sections 4 and 7); ``None`` = none is.
    """

    name: str
    setup: str
    baseline: str
    published: float | None
    pairs: tuple[Pair, ...]


def cases(seconds: float) -> Iterator[Case]:
    """All cases, in the order of the table.

    :param seconds: time limit of each solve.
    """
    limits = Limits(seconds=seconds)
    yield from _two_minipods(limits)
    yield _208(limits)
    yield from on_9600(limits, alpha=0.5, model=DENSE_24B, trained="24B dense")
    yield from _l20(limits)


def place(algorithm: PlacementAlgorithm, cluster: Cluster, job: Job, model: Model, limits: Limits) -> Placed:
    """Where an algorithm puts a job.

    :raises RuntimeError: nowhere.
    """
    outcome = run(algorithm, cluster, job, limits)
    if outcome.evaluation is None or outcome.proposal.nodes is None:
        raise RuntimeError(f"{algorithm.name} does not place {job.name}: {outcome.reason}")
    return Placed(PlacedJob(job, cluster, outcome.proposal.nodes, model), outcome.evaluation)


def _pair(baseline: PlacementAlgorithm, cluster: Cluster, job: Job, model: Model, limits: Limits) -> Pair:
    exact = ALGORITHMS.load("exact")
    return Pair(place(baseline, cluster, job, model, limits), place(exact, cluster, job, model, limits))


def _two_minipods(limits: Limits) -> Iterator[Case]:
    exact = ALGORITHMS.load("exact")
    cluster = minipods(minipods=2, nodes=12)
    for record in RECORDS[:4]:  # on H800; their pp_gain is the published gain of aligning PP groups
        job = Job("96 GPUs", record.parallelism, level=LEVEL)
        placed = [place(exact, cluster, job.replace(alpha=alpha), record.model, limits) for alpha in (1.0, 0.0)]
        yield Case(
            f"96 GPUs, {record.name.removesuffix(' on H800')}",
            f"{ON_96}; the shapes of the characterisation table",
            "DP groups aligned",
            record.pp_gain / 100,
            (Pair(*placed),),
        )


def _208(limits: Limits) -> Case:
    job = Job("208 GPUs", Parallelism(tp=8, pp=2, dp=13), alpha=0.5, level=LEVEL)
    clusters = (fragment(minipods(), 0.97, seed) for seed in range(40))
    pairs = (_pair(RANK_ORDER, cluster, job, DENSE_24B, limits) for cluster in clusters)
    return Case(
        "208 GPUs",
        "22 minipods of 93 nodes, 97 % in use, 40 seeds, those whose spreads go down 3x and 2x as published; tp 8, "
        "pp 2, dp 13; 24B dense, alpha 0.5",
        "bin-packed in rank order",
        0.057,
        tuple(pair for pair in pairs if ratios(pair) == (3.0, 2.0)),
    )


def on_9600(limits: Limits, *, alpha: float, model: Model, trained: str) -> Iterator[Case]:
    """The run on 9,600 GPUs, by either reading of bin-packing.

    :param trained: the model in words.
    """
    job = Job("9,600 GPUs", Parallelism(tp=8, pp=8, dp=150), alpha=alpha, level=LEVEL)
    clusters = [fragment(minipods(), 0.3, seed) for seed in range(8)]
    readings = (("bin-packed in rank order", RANK_ORDER), ("bin-packed by PP groups", ALGORITHMS.load("gpu-packing")))
    for words, baseline in readings:
        yield Case(
            "9,600 GPUs",
            f"22 minipods of 93 nodes, 30 % in use, 8 seeds; tp 8, pp 8, dp 150; {trained}, alpha {alpha:g}",
            words,
            0.106,
            tuple(_pair(baseline, cluster, job, model, limits) for cluster in clusters),
        )


def _l20(limits: Limits) -> Iterator[Case]:
    parallelism = Parallelism(tp=4, pp=2, dp=12)
    alpha = affinity(LLAMA3_8B, parallelism, RECORDS).alpha
    job = Job("Llama3-8B", parallelism, alpha=alpha, level=LEVEL)
    packing = ALGORITHMS.load("gpu-packing")
    readings = (("bin-packed in rank order", RANK_ORDER, 3.86 / 3.80), ("GPU-packed", packing, 3.86 / 3.82))
    for words, baseline, petaflops in readings:
        yield Case(
            "Llama3-8B, 12 L20 nodes",
            f"18 nodes in 3 minipods, every split in which none holds the job; tp 4, pp 2, dp 12; alpha {alpha:g} from "
            "the nearest record",
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


def ratios(pair: Pair) -> tuple[float, float]:
    """By what DP and PP spread go down."""
    before, after = pair.before.evaluation, pair.after.evaluation
    return before.dp / after.dp, before.pp / after.pp
