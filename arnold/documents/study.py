"""What the studies print with ``--json``."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from arnold.documents.common import Document, SpreadDoc
from scheduler.outcome import Status
from scheduler.study import fragmented, table1
from scheduler.study.sweep import Case, Result


class ResultDoc(Document):
    """What one algorithm made of one case.  Numbers of a placement are null when there is none."""

    algorithm: str
    """Name of the algorithm."""
    status: Status
    """optimal, feasible, infeasible, timeout, gave-up, refused."""
    reason: str | None
    """Why there is no placement."""
    spread: SpreadDoc | None
    """Spread at minipod level."""
    objective: float | None
    """Eq. 2."""
    bound: float | None
    """What this algorithm proved: no placement has a smaller objective."""
    solve_seconds: float = Field(ge=0.0)
    """Wall time of the algorithm alone."""


class SettingDoc(Document):
    """One line of the paper's Table 1."""

    setting: str
    """i, ii or iii."""
    alpha: float
    """DP affinity."""
    results: list[ResultDoc]
    """exact, the paper's program, its baselines."""
    best_baseline: str | None
    """The baseline with the least objective."""
    baseline_to_paper: float | None
    """Best baseline over the paper's program, what the paper published."""
    best_fit_to_paper: float | None
    """best-fit over the paper's program."""
    paper_to_exact: float | None
    """The paper's program over exact."""
    baseline_to_exact: float | None
    """Best baseline over exact."""


class RatioDoc(Document):
    """A ratio over the whole table."""

    largest: float | None
    """Largest over the lines."""
    mean: float | None
    """Mean over the lines."""


class Table1Document(Document):
    """The paper's Table 1, computed."""

    unevenness: float
    """Minipods differ from the mean by up to this share; the paper does not publish its split."""
    seed: int
    """Which uneven split; also the seed of the algorithms."""
    settings: list[SettingDoc]
    """Three settings at three affinities."""
    published: RatioDoc
    """Best baseline over Arnold as published."""
    baseline_to_paper: RatioDoc
    """The same, computed."""
    best_fit_to_paper: RatioDoc
    """best-fit alone over the paper's program."""
    paper_to_exact: RatioDoc
    """What the paper's program leaves on the table."""
    baseline_to_exact: RatioDoc
    """What the best baseline leaves on the table."""


class LineDoc(Document):
    """What one algorithm made of all clusters.  Null = of none of them."""

    algorithm: str
    """Name of the algorithm, or of a system with its best mode chosen by hand for each job."""
    placed: int
    """Clusters on which it found a valid placement."""
    infeasible: int
    """Clusters on which its rule refuses the job, though there are nodes enough."""
    unsolved: int
    """Clusters on which it ran out of time, gave up, or broke a rule."""
    proved: int
    """Placements proved optimal."""
    objective: float | None
    """Mean objective of its placements."""
    mean_ratio: float | None
    """Mean of objective over that of exact, where both have one."""
    largest_ratio: float | None
    """Largest of the same."""
    level_with_exact: int
    """Clusters on which it is no worse than exact."""
    mean_seconds: float = Field(ge=0.0)
    """Mean wall time of the algorithm alone."""
    median_seconds: float = Field(ge=0.0)
    """Median of the same."""


class CaseDoc(Document):
    """One cluster and all that was made of it."""

    cluster: str
    """Its name."""
    results: list[ResultDoc]
    """One for each algorithm."""


class FragmentedDocument(Document):
    """Fragmented clusters, all algorithms side by side."""

    seed: int
    """Seed of clusters, jobs and algorithms."""
    clusters: int
    """How many."""
    time_limit: float
    """Seconds for each algorithm on each cluster."""
    lines: list[LineDoc]
    """One for each algorithm."""
    best_modes: list[LineDoc]
    """One for each system with several modes."""
    cases: list[CaseDoc]
    """Every single result."""


def table1_document(rows: Sequence[table1.Row], *, unevenness: float, seed: int) -> Table1Document:
    """The document of a finished table."""
    return Table1Document(
        unevenness=unevenness,
        seed=seed,
        settings=[
            SettingDoc(
                setting=row.case.setting,
                alpha=row.case.alpha,
                results=[_result(result) for result in row.results.values()],
                best_baseline=row.best_baseline,
                baseline_to_paper=row.baseline_to_paper,
                best_fit_to_paper=row.best_fit_to_paper,
                paper_to_exact=row.paper_to_exact,
                baseline_to_exact=row.baseline_to_exact,
            )
            for row in rows
        ],
        published=RatioDoc(largest=table1.PUBLISHED_BEST, mean=table1.PUBLISHED_MEAN),
        baseline_to_paper=_ratio([row.baseline_to_paper for row in rows]),
        best_fit_to_paper=_ratio([row.best_fit_to_paper for row in rows]),
        paper_to_exact=_ratio([row.paper_to_exact for row in rows]),
        baseline_to_exact=_ratio([row.baseline_to_exact for row in rows]),
    )


def fragmented_document(
    cases: Sequence[Case],
    results: Sequence[Result],
    lines: Sequence[fragmented.Line],
    systems: Sequence[fragmented.Line],
    *,
    seed: int,
    time_limit: float,
) -> FragmentedDocument:
    """The document of a finished study.

    :param lines: of the algorithms.
    :param systems: of systems in their best mode.
    """
    return FragmentedDocument(
        seed=seed,
        clusters=len(cases),
        time_limit=time_limit,
        lines=[_line(line) for line in lines],
        best_modes=[_line(line) for line in systems],
        cases=[
            CaseDoc(cluster=case.name, results=[_result(result) for result in results if result.case == number])
            for number, case in enumerate(cases)
        ],
    )


def _line(line: fragmented.Line) -> LineDoc:
    return LineDoc(**{name: getattr(line, name) for name in LineDoc.model_fields})


def _ratio(ratios: Sequence[float | None]) -> RatioDoc:
    known = table1.summary(ratios)
    return RatioDoc(largest=known.largest, mean=known.mean)


def _result(result: Result) -> ResultDoc:
    return ResultDoc(
        algorithm=result.algorithm,
        status=result.status,
        reason=result.reason or None,
        spread=None if result.dp is None or result.pp is None else SpreadDoc(dp=result.dp, pp=result.pp),
        objective=result.objective,
        bound=result.bound,
        solve_seconds=result.seconds,
    )
