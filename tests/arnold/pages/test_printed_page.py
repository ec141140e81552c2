"""What commands without drawings print, as pages."""

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Arnold
from tests.markup import tags


@pytest.fixture
def question(tmp_path: Path) -> tuple[object, ...]:
    """Where backups of four machines go: two rows of two stages, each machine in a rack of its own."""
    nodes = [f"n{i},p{i // 2},r{i}" for i in range(4)]
    (tmp_path / "cluster.csv").write_text("\n".join(["node,pod,rack", *nodes]) + "\n")
    rows = [{"node": f"n{i}", "dp": i % 2, "pp": i // 2, "node_rank": i} for i in range(4)]
    job = {"name": "small", "parallelism": {"tp": 8, "dp": 2, "pp": 2}, "alpha": 0.5}
    (tmp_path / "placement.json").write_text(json.dumps({"job": job, "assignment": rows}))
    files = ("--cluster", tmp_path / "cluster.csv", "--placement", tmp_path / "placement.json")
    return ("health", "backups", *files)


def test_the_page_says_what_is_printed(arnold: Arnold, question: tuple[object, ...], tmp_path: Path) -> None:
    """Verdict, table and notes of the text are on the page, with --json too; numbers are aligned right.

    The only machine in another row and stage is the one diagonally across: 0 with 3, and 1 with 2.
    """
    page, other = tmp_path / "backups.html", tmp_path / "other.html"
    printed = arnold(*question, "--html", page).out
    assert arnold(*question, "--html", other, "--json").code == 0
    text = page.read_text()
    assert other.read_text() == text
    assert tags(text)
    assert re.findall("<h1[^>]*>(.*?)</h1>", text) == [" ".join(printed.partition("\n\n")[0].split())]
    assert re.findall("<h2>(.*?)</h2>", text)[0] == "Checkpoint peers"
    ranks = re.findall('<th scope="row"[^>]*>(.*?)</th><td class="r nowrap">(.*?)</td>', text)
    assert ranks == [(f"n{i}", str(i)) for i in range(4)]
    assert all(f"n{i}" in line and f"n{3 - i}" in line for i, line in enumerate(_rows(printed)))


def _rows(printed: str) -> list[str]:
    """Lines of the nodes in what was printed."""
    return [line for line in printed.splitlines() if re.match(r"n\d ", line)]


def test_a_page_that_cannot_be_written_is_an_error(
    arnold: Arnold, question: tuple[object, ...], tmp_path: Path
) -> None:
    """Then nothing is printed."""
    ran = arnold(*question, "--html", tmp_path / "missing" / "page.html")
    assert (ran.code, ran.out) == (2, "")
    assert "page.html" in ran.err
