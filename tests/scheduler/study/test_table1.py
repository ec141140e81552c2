"""The paper's Table 1, and the sums over it."""

from __future__ import annotations

import pytest

from scheduler.study.placement_sweep import CaseResult
from scheduler.study.table1 import ALGORITHMS, Setting, cases, ratio, summary, table1


def test_nine_cases_of_the_published_sizes() -> None:
    """(i) 18 nodes and 6 x 2 cells, (ii) 438 and 12 x 8, (iii) 1,019 and 46 x 8, each at three affinities."""
    assert len(cases()) == 9
    sizes = {}
    for case in cases():
        cluster, job = case.instance()
        sizes[case.setting] = (len(cluster.level("minipod")), len(cluster), job.grid.rows, job.grid.columns)
    assert sizes == {"i": (3, 18, 6, 2), "ii": (5, 438, 12, 8), "iii": (11, 1019, 46, 8)}


def test_uneven_split_depends_on_the_seed() -> None:
    """The same number of nodes, split unevenly and otherwise by another seed."""

    def split(seed: int) -> list[int]:
        cluster, _ = Setting("iii", 0.5, unevenness=0.1, seed=seed).instance()
        domain_of = cluster.level("minipod").domain_of
        return [int((domain_of == k).sum()) for k in range(11)]

    assert sum(split(1)) == sum(split(2)) == 1019
    assert split(1) == split(1) != split(2)
    assert max(split(1)) > 93


def result(name: str, objective: float | None) -> CaseResult:
    """A result with an objective."""
    return CaseResult(
        algorithm=name,
        status="feasible",
        reason=None,
        spread=None,
        objective=objective,
        bound=None,
        solve_seconds=0.1,
    )


def test_ratios_of_a_line() -> None:
    """The best baseline is gpu-packing with 2; the paper's 1.6 and the optimum 1.0 are compared with it."""
    made = dict(zip(ALGORITHMS, (1.0, 1.6, 3.0, 9.0, 2.0, 2.0), strict=True))
    (row,) = table1(cases()[:1], [tuple(result(name, objective) for name, objective in made.items())]).settings
    assert row.best_baseline == "gpu-packing"
    assert row.baseline_to_paper == pytest.approx(1.25)
    assert row.best_fit_to_paper == pytest.approx(1.875)
    assert row.paper_to_exact == pytest.approx(1.6)
    assert row.baseline_to_exact == pytest.approx(2.0)


def test_a_ratio_needs_both_sides() -> None:
    """Where the paper's program found nothing in time, nothing is compared with it."""
    made = dict(zip(ALGORITHMS, (1.0, None, 3.0, 9.0, 2.0, 2.0), strict=True))
    (row,) = table1(cases()[:1], [tuple(result(name, objective) for name, objective in made.items())]).settings
    assert (row.baseline_to_paper, row.paper_to_exact, row.baseline_to_exact) == (None, None, 2.0)
    assert ratio(None, 1.0) is None


def test_summary_of_known_ratios() -> None:
    """Largest and mean skip what is not known; of nothing there is nothing."""
    assert (summary([1.0, None, 2.0]).largest, summary([1.0, None, 2.0]).mean) == (2.0, 1.5)
    assert (summary([None]).largest, summary([]).mean) == (None, None)
