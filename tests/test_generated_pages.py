"""What is made from the program, pages of the reference, chart and dashboard, is what it says of itself today."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate.__main__ import generated
from docs.generate.chart import MANIFESTS
from docs.generate.markdown import prose, table

ROOT = Path(__file__).parents[1]
FILES = generated()
PAGES = [file for file in FILES if file.suffix == ".md"]


def place(file: Path) -> str:
    """Where a file stands in the checkout."""
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", FILES, ids=place)
def test_files_are_those_of_the_program(file: Path) -> None:
    """Each file is, word for word, what its generator writes."""
    assert file.read_text(encoding="utf-8") == FILES[file], "To fix: make reference"


def test_the_chart_has_no_file_of_its_own() -> None:
    """What stands in the chart by hand would be lost, and says what the kustomization does not."""
    assert {file for file in (MANIFESTS / "chart").rglob("*") if file.is_file()} <= {*FILES}


def test_text_of_the_program_is_no_markup() -> None:
    """Signs that Markdown takes for its own are escaped, but not in code, and a cell of a table keeps its bars."""
    assert prose("a*b <c> `d*e` ``f``, of :class:`~room.Kind`") == "a\\*b \\<c> `d*e` `f`, of `room.Kind`"
    assert prose("with --json, not `--html F`") == "with `--json`, not `--html F`"
    assert table(("name", "is"), [("`a|b`", "two\nlines")]) == "| name | is |\n| --- | --- |\n| `a\\|b` | two lines |\n"


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_no_meaning_is_missing(page: Path) -> None:
    """No table of a page has a row with an empty meaning, which is its last cell."""
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert rows
    assert [row for row in rows if row.removesuffix("|").rstrip().endswith("|")] == []
