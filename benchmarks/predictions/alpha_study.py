"""Which alpha each model of communication asks for: placements by several alphas, priced with the same job."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.predictions.cases import DENSE, LEVEL, MOE, Placed, at, best_nodes, job_of
from benchmarks.predictions.table import MODELS
from benchmarks.report import section, table
from scheduler.affinity import Record
from scheduler.job import Job, Parallelism
from scheduler.placement.types import Limits
from simulator.cost.calibration import PUBLISHED
from topology.generate import fragment, minipods

ALPHAS = (0.0, 0.3, 0.5, 1.0)
SHAPES = ((16, 4), (32, 4), (16, 8), (30, 8))  # Rows and columns of the jobs


@dataclass(frozen=True, slots=True)
class AlphaRow:
    """Jobs of one record, placed by one alpha."""

    record: Record
    alpha: float
    placed: Sequence[Placed]

    @property
    def lost(self) -> dict[str, float]:
        """By model: mean of what placements add to the step, as a share of it."""
        models = {name: make(PUBLISHED) for name, make in MODELS.items()}
        return {
            name: fmean(model.relative_step_time(one.placed) for one in self.placed) - 1.0
            for name, model in models.items()
        }


def rows(seconds: float, *, seeds: int = 6, shapes: Sequence[tuple[int, int]] = SHAPES) -> Iterator[AlphaRow]:
    """Both kinds of model by every alpha, on clusters of 2,046 nodes of which 85 % are in use.

    :param seconds: time limit of each solve.
    """
    clusters = [fragment(minipods(), 0.85, seed) for seed in range(seeds)]
    limits = Limits(seconds=seconds)
    for alpha in ALPHAS:
        found = []
        for cluster in clusters:
            for depth, stages in shapes:
                job = Job("study", Parallelism(tp=8, dp=depth, pp=stages), alpha=alpha, level=LEVEL)
                found.append((cluster, job, best_nodes(cluster, job, limits)))
        for record in (DENSE, MOE):
            placed = [
                at(cluster, job_of(record, "study", job.parallelism), record.model, nodes)
                for cluster, job, nodes in found
            ]
            yield AlphaRow(record, alpha, placed)


def report(found: Sequence[AlphaRow]) -> str:
    """One table, the records one below the other."""
    lines = [
        [
            row.record.name.removesuffix(" on H800"),
            f"{row.alpha:g}",
            ", ".join(f"{fmean(getattr(one.evaluation, family) for one in row.placed):.2f}" for family in ("dp", "pp")),
            *(f"{lost:.2%}" for lost in row.lost.values()),
        ]
        for row in sorted(found, key=lambda row: (row.record is MOE, row.alpha))
    ]
    return section(
        "What a step loses by the alpha that jobs are placed with",
        table(["model trained", "alpha", "mean S, R", *MODELS], lines),
    )
