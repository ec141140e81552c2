"""Without an extra: the command that needs it says which, and the others work."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from arnold.commands.run import EXTRAS
from tests.conftest import Arnold

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_table_is_that_of_the_project() -> None:
    """Every library of these extras is known by the name of its import, but uvloop: a server runs without it too."""
    extras = {
        re.split("[^a-z-]", line)[0].replace("-", "_"): extra
        for extra in ("kubernetes", "plots", "tables")
        for line in PROJECT["optional-dependencies"][extra]
    }
    assert extras.pop("uvloop") == "kubernetes"
    assert extras == EXTRAS


def test_a_lock_is_part_of_the_other() -> None:
    """What runtime.lock pins, requirements.lock pins too, in the same version with the same hashes."""
    pins = []
    for name in ("runtime.lock", "requirements.lock"):
        text = (ROOT / name).read_text(encoding="utf-8")
        pins.append(set(re.findall(r"^[a-z0-9-]+==.*?(?=^[a-z]|\Z)", text, flags=re.MULTILINE | re.DOTALL)))
    runtime, whole = pins
    assert len(runtime) > len(PROJECT["dependencies"])
    assert runtime < whole


def test_the_extra_is_named(
    arnold: Arnold, cluster_file: Path, job_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture without matplotlib, a demo that saves Parquet without pyarrow; a job is placed without either."""
    for library in ("matplotlib", "pyarrow"):
        for name in [one for one in sys.modules if one.partition(".")[0] == library]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, library, None)
    drawn = arnold("topology", "show", cluster_file, "--output", tmp_path / "cluster.png")
    assert drawn.code == 2
    assert drawn.err.startswith("Error: needs matplotlib, which comes with the extra 'plots'\nTo fix: ")
    assert "arnold-scheduler[plots]" in drawn.err
    assert not (tmp_path / "cluster.png").exists()
    assert arnold("place", "--cluster", cluster_file, "--job", job_file).code == 0
