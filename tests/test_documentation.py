"""What the documentation says is there, is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
MAKE = re.compile(r"\bmake ([a-z]+)\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file that exists."""
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_index_names_every_page() -> None:
    """docs/README.md leads to every page of docs, decisions to every decision."""
    for index in (ROOT / "docs" / "README.md", ROOT / "docs" / "adr" / "README.md"):
        linked = {(index.parent / link).resolve() for link in LINK.findall(index.read_text(encoding="utf-8"))}
        pages = {page.resolve() for page in index.parent.glob("*.md")} - {index.resolve()}
        assert pages - linked == set()


def test_readme_leads_with_the_two_commands() -> None:
    """The first block of code of the README is the two commands, and the Makefile has them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = text.split("```")[1]
    assert MAKE.findall(first) == ["demo", "test"]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
