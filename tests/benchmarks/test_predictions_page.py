"""The predictions of docs/simulation-cost.md are those of the code."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

from benchmarks.predictions.corrected import corrected, over_unaligned

from benchmarks.predictions.cases import cases, ratios
from benchmarks.predictions.table import SHARES, Line, lines_of
from scheduler.placement.types import Limits

PAGE = Path(__file__).parents[2] / "docs" / "simulation-cost.md"


def times_on_the_page(line: Line) -> int:
    """In how many tables of the page the line stands with every gain that the code prints."""
    cells = [f"{middle:+.1%} ({low:+.1%} .. {high:+.1%})" for low, middle, high in line.gains.values()]
    rows = [row for row in PAGE.read_text(encoding="utf-8").splitlines() if row.startswith(f"| {line.case.name} ")]
    return sum(all(cell in row for cell in cells) for row in rows)


def test_the_page_says_what_the_code_predicts() -> None:
    """The runs on 96 GPUs, which are quick: each stands once, beside what was measured."""
    for line in lines_of(list(islice(cases(10.0), 4))):
        assert times_on_the_page(line) == 1, f"{line.case.name}, {line.overlap:.0%} hidden"


def test_the_page_says_what_comes_of_the_papers_own_comparison() -> None:
    """The same runs over placements in which all groups cross; those who are unaligned cross in both families."""
    for line in lines_of(list(over_unaligned(Limits(seconds=10.0)))):
        assert times_on_the_page(line) == 1, f"{line.case.name}, {line.overlap:.0%} hidden"


def test_a_job_has_one_alpha_and_one_baseline() -> None:
    """Aligning PP groups of 96 GPUs takes R from 2 to 1 and leaves S at 2, aligning DP groups the other way round."""
    for case in over_unaligned(Limits(seconds=10.0)):
        (pair,) = case.pairs
        assert (pair.before.evaluation.dp, pair.before.evaluation.pp) == (2, 2)
        assert ratios(pair) == ((1.0, 2.0) if "PP groups" in case.name else (2.0, 1.0))
        assert pair.before.placed.job == pair.after.placed.job


def test_runs_that_were_compared_rightly_stay_as_they_are() -> None:
    """Of the first cases those on 96 GPUs, four, are compared anew in two ways each; that on 208 GPUs is taken over."""
    (aligned,) = islice(cases(10.0), 1)
    kept = replace(aligned, name="208 GPUs")
    found = list(islice(corrected([aligned, kept], 10.0), 9))
    assert found[8] is kept
    assert aligned not in found


def test_aligning_pp_groups_trades_one_unit_of_spread_for_another() -> None:
    """The two placements of 96 GPUs are the corners that the paper compares, (1, 2) and (2, 1)."""
    (case,) = islice(cases(10.0), 1)
    assert [ratios(pair) for pair in case.pairs] == [(0.5, 2.0)]


def test_a_share_without_range_is_the_middle() -> None:
    """The prediction is at the middle of what is published, with its ends beside it."""
    assert SHARES[1] == (SHARES[0] + SHARES[2]) / 2
