"""Pages of the site of the documentation, looked at by axe-core in a browser."""

from __future__ import annotations

import re
import subprocess
import sys
from base64 import b64encode
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.axe import axe_script, violations

ROOT = Path(__file__).parents[1]
PAGES = (
    "docs/index",
    "docs/how-to/slurm",
    "docs/how-to/plan-in-python",
    "docs/reference/cluster-files",
    "docs/reference/glossary",
    "docs/how-it-works/architecture",
    "docs/how-it-works/capacity",
)
"""One of each kind: the index, steps, a notebook, tables, terms, diagrams, figures."""

LOADED = re.compile(
    r'<link rel="stylesheet"[^>]*href="(?P<style>[^"?]+)[^>]*>'
    r'|<script src="(?P<script>[^"?]+)[^>]*></script>'
    r'|(?<= src=")(?P<image>[^":?]+)(?=")'
)
TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def standalone(page: Path) -> str:
    """Return a page with the styles, scripts and images that it loads from files beside it."""

    def inside(found: re.Match[str]) -> str:
        assert found.lastgroup is not None
        file = page.parent / found[found.lastgroup]
        if found.lastgroup == "image":
            return f"data:{TYPES[file.suffix]};base64,{b64encode(file.read_bytes()).decode()}"
        return f"<{found.lastgroup}>{file.read_text(encoding='utf-8')}</{found.lastgroup}>"

    return LOADED.sub(inside, page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` builds it; skips where Sphinx is not installed."""
    if find_spec("sphinx") is None:
        pytest.skip("Sphinx is not installed: `make site` installs it")
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--fail-on-warning", "--conf-dir", "docs", "-d", str(folder / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, ".", str(folder / "pages")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert built.returncode == 0, built.stderr
    return folder / "pages"


@pytest.mark.accessibility
def test_no_page_of_the_site_has_a_violation(site: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """No rule of axe-core is broken on a page of each kind, at each width in each theme."""
    axe = axe_script(request.config.cache.mkdir("axe-core"))
    pages = {name: standalone(site / f"{name}.html") for name in PAGES}
    assert [str(one) for one in violations(pages, tmp_path, axe)] == []


@pytest.mark.accessibility
def test_diagrams_say_what_they_show(site: Path) -> None:
    """Every image of a page has a text, and that of a diagram is a sentence."""
    text = (site / "docs/how-it-works/architecture.html").read_text(encoding="utf-8")
    described = re.findall(r'<img class="diagram" alt="([^"]*)"', text)
    assert len(described) == 3
    assert all(len(words.split()) > 10 for words in described)
