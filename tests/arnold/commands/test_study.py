"""``arnold study``: tables for people, one document for programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest

from ground.plugins import OWN
from scheduler.placement.baselines import gpu_packing
from scheduler.study import table1

Arnold = Callable[..., Any]


@pytest.fixture
def quick_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a quick rule stand in for ``exact``, whose own tests say what it finds."""
    quick = "scheduler.placement.baselines.quick_exact"
    monkeypatch.setattr(quick, lambda: replace(gpu_packing(), name="exact"), raising=False)
    monkeypatch.setitem(OWN, "arnold.placement", {**OWN["arnold.placement"], "exact": ":".join(quick.rsplit(".", 1))})


@pytest.mark.usefixtures("quick_exact")
def test_table1_in_numbers(arnold: Arnold) -> None:
    """Nine lines with every algorithm; the summary of a ratio is its largest value and its mean over them.

    The paper's program stops early here, and what it has by then depends on the machine: the values themselves are
    those of ``python -m benchmarks table1``.
    """
    ran = arnold("study", "table1", "--time-limit", "0.2", "--json")
    assert ran.code == 0
    assert len(ran.json["settings"]) == 9
    assert [row["algorithm"] for row in ran.json["settings"][0]["results"]] == list(table1.ALGORITHMS)
    assert ran.json["published"] == {"largest": 1.67, "mean": 1.2}
    ratios = [row["best_fit_to_paper"] for row in ran.json["settings"] if row["best_fit_to_paper"] is not None]
    assert ran.json["best_fit_to_paper"] == pytest.approx({"largest": max(ratios), "mean": fmean(ratios)})


@pytest.mark.usefixtures("quick_exact")
def test_table1_in_words(arnold: Arnold, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table names what was published beside what was computed, and fits a page."""
    monkeypatch.setattr(table1, "ALPHAS", (0.5,))
    ran = arnold("study", "table1", "--time-limit", "0.5")
    assert ran.code == 0
    assert "(iii)" in ran.out
    assert "published" in ran.out
    assert "3.0 (4,2)" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 120


@pytest.mark.usefixtures("quick_exact")
def test_fragmented_in_numbers(arnold: Arnold) -> None:
    """Exact is always there to compare with; every line counts all clusters; every result is kept."""
    names = "best-fit,kueue-preferred,kueue-required"
    ran = arnold("study", "fragmented", "--clusters", "3", "--algorithm", names, "--json")
    assert ran.code == 0
    lines = {line["algorithm"]: line for line in ran.json["lines"]}
    assert list(lines) == ["exact", *names.split(",")]
    assert all(line["placed"] + line["infeasible"] + line["unsolved"] == 3 for line in lines.values())
    assert [line["algorithm"] for line in ran.json["best_modes"]] == ["kueue, best of 2 modes"]
    assert [len(case["results"]) for case in ran.json["cases"]] == [4, 4, 4]


@pytest.mark.usefixtures("quick_exact")
def test_fragmented_in_words(arnold: Arnold) -> None:
    """The best come first, those that refuse jobs last, and the table fits a page."""
    ran = arnold("study", "fragmented", "--clusters", "2", "--algorithm", "kueue-required,random-fit")
    rows = [line.split()[0] for line in ran.out.splitlines()[2:5]]
    assert rows == ["exact", "random-fit", "kueue-required"]
    assert max(map(len, ran.out.splitlines())) <= 120


@pytest.mark.usefixtures("quick_exact")
def test_same_seed_same_study(arnold: Arnold) -> None:
    """Two runs differ in times only."""

    def study() -> list[Any]:
        ran = arnold("study", "fragmented", "--clusters", "2", "--seed", "9", "--algorithm", "random-fit", "--json")
        return [[row["objective"] for row in case["results"]] for case in ran.json["cases"]]

    assert study() == study()


@pytest.mark.usefixtures("quick_exact")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["study", "tabel1"], "table1"),
        (["study", "table1", "--unevenness", "nan"], "not a finite number"),
        (["study", "fragmented", "--clusters", "0"], "clusters"),
        (["study", "fragmented", "--algorithm", "exact,nothing"], "nothing"),
    ],
)
def test_bad_usage(arnold: Arnold, arguments: list[str], said: str) -> None:
    """Exit 2 and what to do, on stderr."""
    ran = arnold(*arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""


@pytest.mark.parametrize("study", ["table1", "fragmented"])
def test_the_time_limit_says_what_it_limits(arnold: Arnold, study: str) -> None:
    """A study runs many searches: the help says that the limit is one search's, not the study's."""
    assert "for each placement" in " ".join(arnold("study", study, "--help").out.split())
