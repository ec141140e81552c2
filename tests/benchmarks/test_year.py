"""The benchmark of a year: a day of it, every call checked."""

from __future__ import annotations

from benchmarks.year import measure, report


def test_calls_have_the_pairs_of_the_whole_search() -> None:
    """A few hundred calls of the year's workload: the same (S, R), all objectives proved, and the report says so."""
    run = measure(1.5, "exact", check=300)
    assert run.checked is not None
    assert run.checked.calls == 300
    assert (run.checked.same, run.checked.dearer, run.checked.cheaper, run.checked.unproved) == (300, 0, 0, 0)
    assert "300 of 300" in report(run)
