"""Tables on terminals of any width: the names in the first column stand in full, other columns go first."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from arnold.console.fitted_table import FittedTable
from arnold.console.output import print_rows
from scheduler.placement.types import ALGORITHMS
from tests.facts import says

Arnold = Callable[..., Any]

NAMES = ("exact", "arnold-mip-highs", "volcano-partition-d", "volcano-partition-p")


def printed(rows: FittedTable, width: int) -> list[str]:
    """Lines of a table on a terminal of some width, without its title."""
    out = StringIO()
    Console(file=out, width=width).print(rows)
    return [line.rstrip() for line in out.getvalue().splitlines()][1:]


def sample() -> FittedTable:
    """A name, two numbers, one of which can be spared, and a status of two words."""
    rows = [(name, str(i), "1.234", "proved optimal") for i, name in enumerate(NAMES)]
    return FittedTable("Sample", ("name", "DP spread", "seconds", "status"), rows, left=["status"], spare=["seconds"])


def test_a_wide_terminal_shows_everything() -> None:
    """Four columns, 19 + 9 + 7 + 14 characters and three gaps of two: one line each in 80."""
    lines = printed(sample(), 80)
    assert lines[0].split() == ["name", "DP", "spread", "seconds", "status"]
    assert lines[1] == f"{'exact':19}  {0:9}  {'1.234':>7}  proved optimal"


def test_headers_break_before_columns_go() -> None:
    """In 54 columns the row fits once "DP spread" takes two lines: 19 + 6 + 7 + 14 and the gaps."""
    lines = printed(sample(), 54)
    assert lines[0].split() == ["DP"]
    assert lines[1].split() == ["name", "spread", "seconds", "status"]
    assert lines[2].split() == ["exact", "0", "1.234", "proved", "optimal"]


def test_what_can_be_spared_goes_before_cells_break() -> None:
    """In 50 columns the seconds are gone and every row is one line still."""
    lines = printed(sample(), 50)
    assert "seconds" not in " ".join(lines)
    assert lines[-1].split() == ["volcano-partition-p", "3", "proved", "optimal"]
    assert len(lines) == 1 + len(NAMES)


@given(width=st.integers(24, 130), words=st.lists(st.text("ab ", min_size=1, max_size=60), min_size=1, max_size=4))
def test_names_are_never_cut(width: int, words: list[str]) -> None:
    """Whatever stands beside them and however narrow it is, all names stand in full, and nothing ends in dots."""
    headers = ("algorithm", *(f"column {i}" for i in range(len(words))))
    lines = printed(FittedTable("Any", headers, [(name, *words) for name in NAMES], left=["column 0"]), width)
    assert [name for name in NAMES if any(line.split()[:1] == [name] for line in lines)] == list(NAMES)
    assert not any("…" in line for line in lines)


@pytest.mark.parametrize(("most", "shown", "last"), [(None, 1200, "1199"), (40, 40, "... 1160 more")])
def test_a_table_is_cut_only_where_its_command_says_so(most: int | None, shown: int, last: str) -> None:
    """Of 1,200 rows all are printed; told to show 40, the table ends in how many more there are: 1,160."""
    out = StringIO()
    rows = [(str(i),) for i in range(1200)]
    print_rows(Console(file=out, width=80), ("number",), rows, title="Numbers", most=most)
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert sum(line.isdecimal() for line in lines) == shown
    assert lines[-1] == last


@pytest.fixture
def terminal(arnold: Arnold, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Sequence[object]], str]:
    """Run a command as if its output went to a terminal of some width."""

    def call(width: int, args: Sequence[object]) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("LINES", "50")
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        out: str = arnold(*args).out
        return re.sub(r"\x1b\[[\d;]*m", "", out)

    return call


@pytest.mark.parametrize("width", [60, 80])
def test_compare_tells_all_algorithms_apart(
    terminal: Callable[..., str], cluster_file: Path, job_file: Path, width: int
) -> None:
    """Every installed algorithm is named in full, in the table, among those without a placement and in the list."""
    args = ["compare", "--cluster", cluster_file, "--job", job_file, "--time-limit", "2", "-v"]
    compared, listed = terminal(width, args), terminal(width, ["compare", "--list"])
    for name in ALGORITHMS.names():
        assert re.search(rf"^(  - )?{name}[ :]", compared, re.MULTILINE)
        assert re.search(rf"^{name} ", listed, re.MULTILINE)
    # the command to go on with is one line, whatever the width: it is typed as it stands
    assert max(len(line) for line in compared.splitlines() if not line.startswith("Next: ")) <= width


@pytest.mark.parametrize(("columns", "widest"), [("70", 70), ("", 120), ("0", 120), ("wide", 120)])
def test_columns_holds_for_pipes_too(
    arnold: Arnold, monkeypatch: pytest.MonkeyPatch, columns: str, widest: int
) -> None:
    """Text that goes to no terminal is 120 characters wide at most, or as wide as COLUMNS says."""
    monkeypatch.setenv("COLUMNS", columns)
    out = arnold("compare", "--list").out
    assert widest - 40 < max(map(len, out.splitlines())) <= widest


def test_studies_tell_all_algorithms_apart(terminal: Callable[..., str]) -> None:
    """The table of fragmented clusters is by algorithm too, on the narrowest terminal."""
    names = "gpu-packing,volcano-partition-d,volcano-partition-p,kueue-preferred,slurm-segment-p"
    args = ["study", "fragmented", "--clusters", "1", "--algorithm", names, "--time-limit", "0.2", "--workers", "1"]
    out = terminal(60, args)
    for name in names.split(","):
        assert re.search(rf"^{name} ", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= 60


@given(width=st.integers(60, 130), words=st.lists(st.text("ab ", min_size=1, max_size=60), max_size=3))
def test_all_columns_that_tell_rows_apart_stand_in_full(width: int, words: list[str]) -> None:
    """Where names repeat, the column after them is a key as well: it is neither cut, nor broken, nor spared."""
    policies = ("priority-preempt", "gavel-finish-time")
    headers = ("algorithm", "policy", "n", *(f"column {i}" for i in range(len(words))))
    pairs = [(name, policy) for name in NAMES for policy in policies]
    rows = [(*pair, "1", *words) for pair in pairs]
    lines = [tuple(line.split()[:2]) for line in printed(FittedTable("Any", headers, rows, spare=["policy"]), width)]
    assert [pair for pair in pairs if pair not in lines] == []


@pytest.mark.usefixtures("fakes")
def test_what_was_stopped_by_its_limit_says_so(arnold: Arnold, cluster_file: Path, job_file: Path) -> None:
    """In the table, below it, and in the document, whose status stays what it was; a heuristic was not stopped."""
    names = "exact,first,stopped,late,helpless"
    args = ["compare", "--cluster", cluster_file, "--job", job_file, "--algorithm", names, "--time-limit", "3"]
    results = {row["algorithm"]: row for row in arnold(*args, "--json").json["results"]}
    assert {name: (row["status"], row["stopped_at"]) for name, row in results.items()} == {
        "exact": ("optimal", None),
        "first": ("feasible", None),
        "stopped": ("feasible", 3.0),
        "late": ("timeout", 3.0),
        "helpless": ("gave-up", None),
    }
    out = arnold(*args).out
    lines = {line.split()[0]: line.rstrip() for line in out.splitlines() if line.strip()}
    assert lines["exact"].endswith(" proved optimal")
    assert lines["first"].endswith(" feasible")
    assert lines["stopped"].endswith(" stopped at 3 s")
    assert says(out, "late: stopped at 3 s", "time ran out")
    assert says(out, "helpless: gave up", "no placement")


@pytest.mark.usefixtures("fakes")
def test_the_verdict_of_one_placement_uses_the_same_words(arnold: Arnold, cluster_file: Path, job_file: Path) -> None:
    """`arnold place` says how far a stopped search got, in the words of the tables."""
    args = ["place", "--cluster", cluster_file, "--job", job_file, "--time-limit", "0.25", "--algorithm"]
    assert "stopped at 0.25 s, gap 50.0%: DP spread 2" in arnold(*args, "stopped").out
    assert "feasible, gap 50.0%: DP spread 2" in arnold(*args, "first").out
