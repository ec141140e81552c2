"""The scripts of examples/ run and say something."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))

SAYS = {
    "fragmentation": "free nodes with PP groups inside one minipod",
    "grow": "+1: largest job",
    "minipods": "minipods of 128: build",
    "power": "floor of 90%",
    "reserve": "arnold: starts 0.0 h after its arrival, others hold 0 nodes of its zone",
    "shared_data": "a cache in common: 329 s; 40,000 loads, 13,281 if they are shared",
    "spares": "published: 29 spares",
}
"""What each prints, among other things."""


def test_every_script_is_known() -> None:
    """A new script is told here what it is to say, and in the index that it exists."""
    assert {script.stem for script in SCRIPTS} == set(SAYS)
    index = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert all(f"]({script.name})" in index for script in SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_script_runs(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It ends well, warns of nothing, and prints its answer."""
    runpy.run_path(str(script), run_name="__main__")
    assert SAYS[script.stem] in capsys.readouterr().out
