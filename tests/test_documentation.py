"""What the documentation says is there, is there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import click
import pytest

from arnold.commands.command_table import arnold
from arnold.main import PACKAGES
from benchmarks.__main__ import main as run_benchmark
from ground.plugins import OWN
from tests.source_names import docstrings, exists, known_in

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"\]\(([^)\s#:]*)#([^)\s]+)\)")
MAKE = re.compile(r"\bmake ([a-z]+)\b")

ROOMS = (*PACKAGES, "benchmarks", "tests")
SOURCES = sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py"))
FILES = [file.relative_to(ROOT) for room in ROOMS for file in (ROOT / room).rglob("*.*") if file.suffix != ".pyc"]
PATHS = {str(path) for file in FILES for path in (file, *file.parents) if "__pycache__" not in path.parts}
LONGEST = 140  # letters of a line of prose that editors and reviews show whole
NOT_PROSE = re.compile(r"^```.*?^```|^ *\|.*?$|(?<=\])\([^)]*\)", flags=re.MULTILINE | re.DOTALL)
"""Code, rows of tables, which no line break may cut, and where links lead, which nobody reads."""

MOST_WORDS = 35_000
GENERATED = {"commands.md", "formats.md", "predictions.md", "schemas.md"}
NO_WORDS = re.compile(r"^```.*?^```|^ *\|[-:| ]+\|$|\|", flags=re.MULTILINE | re.DOTALL)
"""Code, and the lines of tables."""

NOW = [page for page in PAGES if page.name != "CHANGELOG.md"]
"""All pages but the one that tells what was."""

DOTTED = re.compile(rf"`((?:{'|'.join(ROOMS)})(?:\.\w+)+)(?:\(\))?`")
PATH = re.compile(r"`([\w/-]+(?:\.py|/))`")
IMPORT = re.compile(rf"^from ((?:{'|'.join(ROOMS)})[\w.]*) import ([\w, ]+)$", flags=re.MULTILINE)
ROLE = re.compile(r":\w+:`[~.]?([\w.]+)`")
COMMAND = re.compile(r"(?:`|^(?:\$ )?)arnold ((?:[a-z][a-z0-9-]*[ `\n])+)", flags=re.MULTILINE)
NO_MODULES = {"slurm.conf", "topology.conf", "topology.yaml", "arnold.studies", "arnold.files", *OWN}
"""Slurm's files, and groups of entry points: those of ours, and those that only other packages fill."""

THIRD_PARTY = {"docs/reference/op-traces.md"}
"""Pages that name files of Megatron and PyTorch."""

MADE_BY_RUNS = {"benchmarks/results/"}
"""Folders that git does not keep."""


def test_links_lead_somewhere() -> None:
    """Every relative link of a page names a file that exists."""
    links = [(page, link) for page, text in TEXTS.items() for link in LINK.findall(text) if "://" not in link]
    assert [(str(page), link) for page, link in links if not (page.parent / link).exists()] == []


def test_prose_is_wrapped() -> None:
    """The sources of pages read well: no line of prose is longer than :data:`LONGEST`."""
    lines = [(str(page), line) for page, text in TEXTS.items() for line in NOT_PROSE.sub("", text).splitlines()]
    assert [(page, line) for page, line in lines if len(line) > LONGEST] == []


def test_words_are_few() -> None:
    """README and docs stay short enough to be read: pages that people write, tables counted, code not."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    texts = [TEXTS[page] for page in pages if page.name not in GENERATED]
    assert sum(len(NO_WORDS.sub(" ", text).split()) for text in texts) <= MOST_WORDS


def test_links_lead_to_headings() -> None:
    """What stands behind the # of a relative link is a heading of the page it leads to."""
    for page, text in TEXTS.items():
        for link, anchor in ANCHOR.findall(text):
            assert anchor in _anchors((page.parent / link).resolve() if link else page), f"{page}: {link}#{anchor}"


@cache
def _anchors(page: Path) -> set[str]:
    """Return the headings of a page as GitHub writes them in links: small letters, hyphens, no other signs."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_index_leads_to_every_folder_of_pages() -> None:
    """Every folder of pages is listed whole in docs/index.md; that no page is missed, `make site` checks strictly."""
    listed = re.findall(
        r"^([a-z-/]+)/\*$", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    folders = {page.parent for page in (ROOT / "docs").rglob("*.md")} - {ROOT / "docs"}
    assert {ROOT / "docs" / folder for folder in listed} == folders


def test_readme_leads_with_the_two_commands() -> None:
    """The first block of code of the README is the two commands, and the Makefile has them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = text.split("```")[1]
    assert MAKE.findall(first) == ["demo", "test"]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {"demo", "test"} <= set(targets)


def test_pages_name_what_exists() -> None:
    """Every dotted name and import of a page is a module or an attribute of one, every path the end of a path here.

    `bounds.py` is enough where a page is about one room: stems are unique in the tree.
    """
    missing = []
    for page in NOW:
        imported = [
            f"{module}.{name.strip()}" for module, names in IMPORT.findall(TEXTS[page]) for name in names.split(",")
        ]
        names = {*DOTTED.findall(TEXTS[page]), *imported} - NO_MODULES
        missing += [(str(page), name) for name in sorted(names) if not exists(name)]
        if str(page.relative_to(ROOT)) not in THIRD_PARTY:
            paths = {*PATH.findall(TEXTS[page])} - MADE_BY_RUNS
            missing += [(str(page), path) for path in sorted(paths) if not _is_there(path)]
    assert missing == []


def _is_there(path: str) -> bool:
    """Return whether a file or folder of the source ends like this."""
    return any(f"/{known}".endswith(f"/{path.rstrip('/')}") for known in PATHS) or (ROOT / path).exists()


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_name_what_exists(room: str) -> None:
    """Every module, class, function or constant that a docstring refers to is there, or in the docstring's module."""
    missing = []
    for file in (file for file in SOURCES if file.relative_to(ROOT).parts[0] == room):
        whole = file.read_text(encoding="utf-8")
        if DOTTED.search(whole) or ROLE.search(whole):  # only then is there something to look for in its syntax
            text = "\n".join(docstrings(file))
            names = {name for name in DOTTED.findall(text) if name not in NO_MODULES and not exists(name)}
            names |= {name for name in ROLE.findall(text) if not (exists(name) or known_in(file, name))}
            missing += [f"{file.relative_to(ROOT)}: {name}" for name in sorted(names)]
    assert missing == []


def test_pages_name_commands_that_exist() -> None:
    """Every `arnold NAME` of a page, and the name below a group, is a command."""
    missing = []
    for words in {words for page in NOW for words in COMMAND.findall(TEXTS[page])}:
        command: click.Command | None = arnold
        for word in words.rstrip("`").split():
            if not isinstance(command, click.Group):
                break
            command = command.get_command(click.Context(command), word)
            if command is None:
                missing.append(f"arnold {words}")
    assert missing == []


def test_benchmarks_page_and_help_agree(capsys: pytest.CaptureFixture[str]) -> None:
    """The table of benchmarks/README.md has a row for each command of `python -m benchmarks`, and no other."""
    with pytest.raises(SystemExit):
        run_benchmark(["--help"])
    offered = set(re.findall(r"^    ([a-z0-9-]+)\b", capsys.readouterr().out, flags=re.MULTILINE))
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z0-9-]+)", page, flags=re.MULTILINE)) == offered
