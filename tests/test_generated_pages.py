"""The generated pages of the reference are what the program says of itself today."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate.__main__ import PAGES
from docs.generate.markdown import prose, table

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_those_of_the_program(page: str) -> None:
    """Each page is, word for word, what its generator writes."""
    assert (REFERENCE / page).read_text(encoding="utf-8") == PAGES[page](), "To fix: make reference"


def test_text_of_the_program_is_no_markup() -> None:
    """Signs that Markdown takes for its own are escaped, but not in code, and a cell of a table keeps its bars."""
    assert prose("a*b <c> `d*e` ``f``, of :class:`~room.Kind`") == "a\\*b \\<c> `d*e` `f`, of `room.Kind`"
    assert prose("with --json, not `--html F`") == "with `--json`, not `--html F`"
    assert table(("name", "is"), [("`a|b`", "two\nlines")]) == "| name | is |\n| --- | --- |\n| `a\\|b` | two lines |\n"


@pytest.mark.parametrize("page", PAGES)
def test_no_meaning_is_missing(page: str) -> None:
    """No table of a page has a row with an empty meaning, which is its last cell."""
    rows = [line for line in (REFERENCE / page).read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert rows
    assert [row for row in rows if row.removesuffix("|").rstrip().endswith("|")] == []
