"""Table 1 of the Arnold paper (arXiv 2509.15940): three clusters, three affinities, Eq. 2.

Published: Arnold is at best 1.67 times below the best baseline, 1.2 times on average, and ties in (i).  "Arnold" there
is the paper's own program; how nodes were split over minipods is not published, an even split is the usual reading.
The table puts beside it what is optimal: the paper's program minimises another objective than it is scored by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from scheduler.job import Job, Parallelism
from scheduler.study.sweep import Result
from topology.cluster import Cluster
from topology.generate import paper_cluster

EXACT = "exact"
PAPER = "arnold-mip"
BASELINES = ("best-fit", "random-fit", "gpu-packing", "topo-aware")
ALGORITHMS = (EXACT, PAPER, *BASELINES)

PARALLELISM: Mapping[str, Parallelism] = {
    "i": Parallelism(tp=4, dp=12, pp=2),
    "ii": Parallelism(tp=4, dp=24, pp=8),
    "iii": Parallelism(tp=8, dp=46, pp=8),
}
"""The job of each setting; its cluster is :func:`topology.generate.paper_cluster`."""

ALPHAS = (0.2, 0.5, 0.8)

PUBLISHED_BEST = 1.67
"""Largest published ratio of the best baseline to Arnold."""

PUBLISHED_MEAN = 1.2
"""Mean published ratio of the best baseline to Arnold."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One cell of the table.

    :param unevenness: minipods differ from the mean by up to this share.
    :param seed: which uneven split.
    """

    setting: str
    alpha: float
    unevenness: float = 0.0
    seed: int = 0

    @property
    def name(self) -> str:
        """``(iii) alpha 0.5``."""
        return f"({self.setting}) alpha {self.alpha:g}"

    def instance(self) -> tuple[Cluster, Job]:
        """The empty cluster and the job."""
        cluster = paper_cluster(self.setting, unevenness=self.unevenness, seed=self.seed)
        return cluster, Job(f"setting-{self.setting}", PARALLELISM[self.setting], alpha=self.alpha, level="minipod")


def cases(*, unevenness: float = 0.0, seed: int = 0) -> list[Setting]:
    """The nine cells of the table."""
    return [Setting(setting, alpha, unevenness, seed) for setting in PARALLELISM for alpha in ALPHAS]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.  A ratio is ``None`` where one of its two has no placement.

    :param best_baseline: the baseline with the least objective, the first of equal ones.
    :param baseline_to_paper: best baseline over the paper's program: what the paper published.
    :param best_fit_to_paper: best-fit over the paper's program; the published numbers follow from this one alone.
    :param paper_to_exact: the paper's program over the optimum.
    :param baseline_to_exact: best baseline over the optimum.
    """

    case: Setting
    results: Mapping[str, Result]
    best_baseline: str | None
    baseline_to_paper: float | None
    best_fit_to_paper: float | None
    paper_to_exact: float | None
    baseline_to_exact: float | None


def rows(cases: Sequence[Setting], results: Sequence[Result]) -> list[Row]:
    """Lines of the table from the results of a sweep."""
    return [
        _row(case, {result.algorithm: result for result in results if result.case == number})
        for number, case in enumerate(cases)
    ]


def _row(case: Setting, results: Mapping[str, Result]) -> Row:
    worth = {name: result.objective for name, result in results.items()}
    placed = {name: objective for name in BASELINES if (objective := worth[name]) is not None}
    best = min(placed, key=placed.__getitem__, default=None)
    baseline = None if best is None else placed[best]
    return Row(
        case,
        results,
        best,
        baseline_to_paper=ratio(baseline, worth[PAPER]),
        best_fit_to_paper=ratio(worth["best-fit"], worth[PAPER]),
        paper_to_exact=ratio(worth[PAPER], worth[EXACT]),
        baseline_to_exact=ratio(baseline, worth[EXACT]),
    )


def ratio(one: float | None, other: float | None) -> float | None:
    """One objective over another, where both exist."""
    return None if one is None or other is None else one / other


@dataclass(frozen=True, slots=True)
class Summary:
    """Largest and mean value of a ratio over the table; ``None`` where no line has it."""

    largest: float | None
    mean: float | None


def summary(ratios: Sequence[float | None]) -> Summary:
    """Largest and mean of the ratios that exist."""
    known = [value for value in ratios if value is not None]
    return Summary(max(known, default=None), fmean(known) if known else None)
