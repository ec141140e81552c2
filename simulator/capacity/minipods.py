"""How large should minipods be, and what does oversubscription between them cost?

For each size of minipod a cluster of the same number of nodes is made and partly used by other jobs; a set of jobs is
placed on it, each alone, by production algorithms; and a model of communication says how much of the throughput of a
flat network each keeps under each oversubscription.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.job import Job
from scheduler.outcome import Outcome, run
from scheduler.placement.registry import load_algorithm
from scheduler.placement.types import Limits
from simulator.capacity.shape import JobShape
from simulator.confidence import half_width
from simulator.cost.alpha_beta import alpha_beta
from simulator.cost.calibration import PUBLISHED
from simulator.cost.hierarchical import hierarchical
from simulator.cost.types import CommModel, PlacedJob
from topology.cluster import Cluster
from topology.errors import InvalidInput
from topology.generate import fragment, minipods

JOBS = ((JobShape(8, 4), 16), (JobShape(8, 8), 32), (JobShape(8, 8), 75))
"""Jobs of 64, 256 and 600 nodes: shape and PP groups."""

MEASURED = PUBLISHED.send_recv_stretch
"""The ratio that the measured loss of send-recv between minipods amounts to, 3.33 (arXiv 2509.15940, section 4)."""

LEVEL = "minipod"


@dataclass(frozen=True, slots=True)
class MinipodQuestion:
    """Clusters to compare.

    :param nodes: of the whole cluster.
    :param sizes: nodes of a minipod; each is rounded so that minipods are as even as can be.
    :param ratios: oversubscription between minipods, at least 1.
    :param busy_share: nodes that other jobs use.
    :param jobs: shape and number of PP groups of each job.
    :param algorithms: names of installed placement algorithms.
    :param seeds: different states of the cluster.
    :param seconds: for each placement.
    """

    nodes: int = 2048
    sizes: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)
    ratios: tuple[float, ...] = (1.0, 2.0, MEASURED, 7.0)
    busy_share: float = 0.6
    jobs: tuple[tuple[JobShape, int], ...] = JOBS
    algorithms: tuple[str, ...] = ("exact", "best-fit")
    seeds: int = 5
    alpha: float = 0.3
    seconds: float = 0.5

    def __post_init__(self) -> None:
        largest = max(shape.row * rows for shape, rows in self.jobs)
        free = self.nodes - round(self.busy_share * self.nodes)
        if largest > free:
            raise InvalidInput(
                f"a job of {largest:,} nodes does not fit: {free:,} of {self.nodes:,} nodes are free",
                where="--job",
                fix="choose smaller jobs, a larger cluster or a smaller --busy-share",
            )
        if beyond := [size for size in self.sizes if not 1 <= size <= self.nodes]:
            raise InvalidInput(
                f"a minipod of {beyond[0]:,} nodes", where="--size", fix=f"choose from 1 to {self.nodes:,} nodes"
            )
        if wrong := [ratio for ratio in self.ratios if not ratio >= 1.0]:
            raise InvalidInput(
                f"an oversubscription of {wrong[0]:g}",
                where="--oversubscription",
                fix="a ratio is at least 1; 1 = none",
            )


@dataclass(frozen=True, slots=True)
class Cell:
    """One algorithm on clusters of one size of minipod.

    :param ratio: oversubscription; ``None`` = what was measured between minipods, on an otherwise quiet network.
    :param throughput: share of the throughput of a flat network that the jobs keep, weighted by their nodes; mean over
        the seeds.
    :param half_width: of its 95 % interval over the seeds; 0 with one seed.
    :param dp: mean DP spread of the jobs.
    :param pp: mean PP spread of the jobs.
    :param placed: share of the jobs for which the algorithm found a place.
    :param cut_short: share of the jobs for which it ran into its time limit: they may come out otherwise on a machine
        of another speed.
    """

    size: int
    minipods: int
    algorithm: str
    ratio: float | None
    throughput: float | None
    half_width: float
    dp: float | None
    pp: float | None
    placed: float
    cut_short: float


@dataclass(frozen=True, slots=True)
class MinipodAnswer:
    """The answer.

    :param cells: by algorithm, size and ratio.
    """

    question: MinipodQuestion
    cells: tuple[Cell, ...]

    def cell(self, algorithm: str, size: int, ratio: float | None) -> Cell:
        """One cell."""
        wanted = (algorithm, size, ratio)
        return next(cell for cell in self.cells if (cell.algorithm, cell.size, cell.ratio) == wanted)


def minipod_sizes(question: MinipodQuestion, *, step: Callable[[str], None] = lambda _: None) -> MinipodAnswer:
    """Answer the question.

    :param step: called with a sentence before each size.
    :raises UnknownName: an algorithm is not installed.
    :raises InvalidTopology: sizes that make no cluster.
    """
    cells: list[Cell] = []
    ratios, seconds = (*question.ratios, None), question.seconds
    for size in question.sizes:
        step(f"minipods of {size} nodes")
        count = max(1, round(question.nodes / size))
        empty = minipods(minipods=count, nodes=question.nodes)
        states = [fragment(empty, question.busy_share, seed) for seed in range(question.seeds)]
        for name in question.algorithms:
            placed = [_place_all(question, name, state) for state in states]
            cells += [_cell((size, count), name, placed, ratio, seconds=seconds) for ratio in ratios]
    order = {name: i for i, name in enumerate(question.algorithms)}
    return MinipodAnswer(question, tuple(sorted(cells, key=lambda cell: (order[cell.algorithm], cell.size))))


def _place_all(question: MinipodQuestion, name: str, cluster: Cluster) -> list[tuple[Cluster, Job, Outcome]]:
    """Every job alone on the same state."""
    limits = Limits(seconds=question.seconds, workers=1)
    found = []
    for shape, rows in question.jobs:
        job = shape.job(rows, alpha=question.alpha, level=LEVEL)
        found.append((cluster, job, run(load_algorithm(name), cluster, job, limits)))
    return found


def _cell(
    made: tuple[int, int],
    name: str,
    placed: Sequence[Sequence[tuple[Cluster, Job, Outcome]]],
    ratio: float | None,
    *,
    seconds: float,
) -> Cell:
    model = _model(ratio if made[1] > 1 else 1.0)
    by_seed = []
    valid = [
        (cluster, job, outcome) for seed in placed for cluster, job, outcome in seed if outcome.evaluation is not None
    ]
    for seed in placed:
        kept = weight = 0.0
        for cluster, job, outcome in seed:
            if outcome.proposal.nodes is None or outcome.evaluation is None:
                continue
            relative = model.relative_step_time(PlacedJob(job, cluster, outcome.proposal.nodes))
            kept += job.grid.cells / relative
            weight += job.grid.cells
        if weight:
            by_seed.append(kept / weight)
    evaluations = [outcome.evaluation for _, _, outcome in valid if outcome.evaluation is not None]
    return Cell(
        size=made[0],
        minipods=made[1],
        algorithm=name,
        ratio=ratio,
        throughput=float(np.mean(by_seed)) if by_seed else None,
        half_width=half_width(by_seed),
        dp=float(np.mean([one.dp for one in evaluations])) if evaluations else None,
        pp=float(np.mean([one.pp for one in evaluations])) if evaluations else None,
        placed=len(valid) / sum(map(len, placed)),
        cut_short=float(np.mean([one.proposal.solve_seconds >= seconds for runs in placed for _, _, one in runs])),
    )


def _model(ratio: float | None) -> CommModel:
    if ratio is None:
        return alpha_beta()
    return hierarchical(oversubscription={LEVEL: ratio} if ratio > 1.0 else {})


def assumptions(answer: MinipodAnswer) -> tuple[str, ...]:
    """What the answer takes for granted."""
    q = answer.question
    jobs = ", ".join(f"{rows} x {shape.name} ({rows * shape.row} nodes)" for shape, rows in q.jobs)
    return (
        f"{q.nodes:,} nodes of 8 GPUs in racks of 4, minipods as even as can be; {q.busy_share:.0%} of the nodes are "
        f"used by other jobs, whole gangs and scattered small ones, in {q.seeds} states made by seeds.",
        f"Jobs (PP groups x tp x pp): {jobs}; each is placed alone on the same state, with alpha {q.alpha:g}.",
        "The other jobs hold nodes; what they send is in the model's assumption about a busy network, not counted one "
        "by one.",
        "Throughput is 1 over the predicted relative step time, a mean weighted by nodes: 100 % = a flat network.",
        "What larger minipods cost in switches and cables is not weighed.",
        *_of_time(answer),
        *_of_models(),
    )


def _of_time(answer: MinipodAnswer) -> Iterator[str]:
    """Which algorithms ran out of time, and how often."""
    q = answer.question
    for name in q.algorithms:
        share = float(np.mean([answer.cell(name, size, None).cut_short for size in q.sizes]))
        if share:
            yield (
                f"{name} was stopped after {q.seconds:g} s in {share:.1%} of its placements; these may come out a "
                "little better or worse on a machine of another speed."
            )


def _of_models() -> tuple[str, ...]:
    """What the two models of communication assume, said once where they agree."""
    tiers, measured = hierarchical(oversubscription={}), alpha_beta()
    own = [line for line in tiers.assumptions if not line.startswith("Oversubscription")]
    other = [line for line in measured.assumptions if line not in own]
    return tuple(
        " ".join(line.split()) for line in (*(f"A ratio (model {tiers.name}): {line}" for line in own[:2]), *own[2:])
    ) + tuple(" ".join(f"As measured (model {measured.name}): {line}".split()) for line in other)
