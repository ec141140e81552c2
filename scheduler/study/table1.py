"""Table 1 of the Arnold paper (arXiv 2509.15940): three clusters, three affinities, Eq. 2.

Published: Arnold is at best 1.67 times below the best baseline, 1.2 times on average, and ties in (i).  "Arnold" there
is the paper's own program; how nodes were split over minipods is not published, an even split is the usual reading.
The table puts beside it what is optimal: the paper's program minimises another objective than it is scored by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ground.records import JsonRecord
from scheduler.job import Job, Parallelism
from scheduler.study.placement_sweep import CaseResult, CaseResults
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


@dataclass(frozen=True, slots=True)
class Setting:
    """One cell of the table."""

    setting: str
    alpha: float
    unevenness: float = 0.0  # minipods differ from the mean by up to this share
    seed: int = 0  # which uneven split

    @property
    def name(self) -> str:
        """``(iii) alpha 0.5``."""
        return f"({self.setting}) alpha {self.alpha:g}"

    def instance(self) -> tuple[Cluster, Job]:
        """Return the empty cluster and the job."""
        cluster = paper_cluster(self.setting, unevenness=self.unevenness, seed=self.seed)
        return cluster, Job(f"setting-{self.setting}", PARALLELISM[self.setting], alpha=self.alpha, level="minipod")


def cases(*, unevenness: float = 0.0, seed: int = 0) -> list[Setting]:
    """Return the nine cells of the table."""
    return [Setting(setting, alpha, unevenness, seed) for setting in PARALLELISM for alpha in ALPHAS]


class Table1Row(JsonRecord, kw_only=True):
    """One line of the paper's Table 1.  A ratio is null where one of its two has no placement."""

    setting: str
    """i, ii or iii."""
    alpha: float
    """DP affinity."""
    results: CaseResults
    """exact, the paper's program, its baselines."""
    best_baseline: str | None
    """The baseline with the least objective, the first of equal ones."""
    baseline_to_paper: float | None
    """Best baseline over the paper's program, what the paper published."""
    best_fit_to_paper: float | None
    """best-fit over the paper's program; the published numbers follow from this one alone."""
    paper_to_exact: float | None
    """The paper's program over exact."""
    baseline_to_exact: float | None
    """Best baseline over exact."""

    def result(self, algorithm: str) -> CaseResult:
        """Return what an algorithm made of it."""
        return next(result for result in self.results if result.algorithm == algorithm)


class RatioSummary(JsonRecord):
    """A ratio over the whole table; null where no line has it."""

    largest: float | None
    """Largest over the lines."""
    mean: float | None
    """Mean over the lines."""


PUBLISHED = RatioSummary(largest=1.67, mean=1.2)  # Published ratio of the best baseline to Arnold


class Table1(JsonRecord, kw_only=True):
    """The paper's Table 1, computed."""

    unevenness: float
    """Minipods differ from the mean by up to this share; the paper does not publish its split."""
    seed: int
    """Which uneven split; also the seed of the algorithms."""
    settings: tuple[Table1Row, ...]
    """Three settings at three affinities."""
    published: RatioSummary
    """Best baseline over Arnold as published."""
    baseline_to_paper: RatioSummary
    """Best baseline over Arnold as computed."""
    best_fit_to_paper: RatioSummary
    """best-fit alone over the paper's program."""
    paper_to_exact: RatioSummary
    """The paper's program over exact."""
    baseline_to_exact: RatioSummary
    """The best baseline over exact."""


def table1(cases: Sequence[Setting], results: Sequence[CaseResults]) -> Table1:
    """Return the table of the results of a sweep over :data:`ALGORITHMS`, on cases of one split."""
    rows = tuple(_row(case, result) for case, result in zip(cases, results, strict=True))
    return Table1(
        unevenness=cases[0].unevenness,
        seed=cases[0].seed,
        settings=rows,
        published=PUBLISHED,
        baseline_to_paper=summary([row.baseline_to_paper for row in rows]),
        best_fit_to_paper=summary([row.best_fit_to_paper for row in rows]),
        paper_to_exact=summary([row.paper_to_exact for row in rows]),
        baseline_to_exact=summary([row.baseline_to_exact for row in rows]),
    )


def _row(case: Setting, results: CaseResults) -> Table1Row:
    worth = {result.algorithm: result.objective for result in results}
    placed = {name: objective for name in BASELINES if (objective := worth[name]) is not None}
    best = min(placed, key=placed.__getitem__, default=None)
    baseline = None if best is None else placed[best]
    return Table1Row(
        setting=case.setting,
        alpha=case.alpha,
        results=results,
        best_baseline=best,
        baseline_to_paper=ratio(baseline, worth[PAPER]),
        best_fit_to_paper=ratio(worth["best-fit"], worth[PAPER]),
        paper_to_exact=ratio(worth[PAPER], worth[EXACT]),
        baseline_to_exact=ratio(baseline, worth[EXACT]),
    )


def ratio(objective: float | None, other: float | None) -> float | None:
    """Return one objective over another, where both exist."""
    return None if objective is None or other is None else objective / other


def summary(ratios: Sequence[float | None]) -> RatioSummary:
    """Return the largest and the mean of the ratios that exist."""
    existing = [value for value in ratios if value is not None]
    return RatioSummary(max(existing, default=None), fmean(existing) if existing else None)
