"""What is made from the program, pages of the reference, chart and dashboard, is what it says of itself today."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from docs.generate.__main__ import generated
from docs.generate.chart import MANIFESTS
from docs.generate.markdown import prose, table


@pytest.fixture(scope="module")
def files() -> Mapping[Path, str]:
    """All of them, with their texts."""
    return generated()


def test_files_are_those_of_the_program(files: Mapping[Path, str]) -> None:
    """Each file is, word for word, what its generator writes."""
    assert [file for file in files if file.read_text(encoding="utf-8") != files[file]] == [], "To fix: make reference"


def test_the_chart_has_no_file_of_its_own(files: Mapping[Path, str]) -> None:
    """What stands in the chart by hand would be lost, and says what the kustomization does not."""
    assert {file for file in (MANIFESTS / "chart").rglob("*") if file.is_file()} <= {*files}


def test_text_of_the_program_is_no_markup() -> None:
    """Signs that Markdown takes for its own are escaped, but not in code, and a cell of a table keeps its bars."""
    assert prose("a*b <c> `d*e` ``f``, of :class:`~room.Kind`") == "a\\*b \\<c> `d*e` `f`, of `room.Kind`"
    assert prose("with --json, not `--html F`") == "with `--json`, not `--html F`"
    assert table(("name", "is"), [("`a|b`", "two\nlines")]) == "| name | is |\n| --- | --- |\n| `a\\|b` | two lines |\n"


def test_no_meaning_is_missing(files: Mapping[Path, str]) -> None:
    """No table of a page has a row with an empty meaning, which is its last cell."""
    for page in (file for file in files if file.suffix == ".md"):
        rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
        assert rows
        assert [row for row in rows if row.removesuffix("|").rstrip().endswith("|")] == []
