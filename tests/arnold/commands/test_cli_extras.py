"""Without an extra: the command that needs it says which, and the others work."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from arnold.commands.run import EXTRAS
from tests.conftest import Arnold
from tests.facts import says

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_table_is_that_of_the_project() -> None:
    """Every library of these extras is known by the name of its import."""
    extras = {
        re.split("[^a-z-]", line)[0].replace("-", "_"): extra
        for extra in ("kubernetes", "plots", "tables")
        for line in PROJECT["optional-dependencies"][extra]
    }
    assert extras == EXTRAS


def test_locks_agree() -> None:
    """What runtime.lock pins, the other two pin too, with the same hashes; docs.lock has the versions of the tests."""
    runtime, whole, docs = (_pins(ROOT / name) for name in ("runtime.lock", "requirements.lock", "docs.lock"))
    assert len(runtime) > len(PROJECT["dependencies"])
    assert runtime.items() < whole.items()
    assert runtime.items() < docs.items()
    versions = [{name: re.split(r"[ \\]", pin)[0] for name, pin in lock.items()} for lock in (docs, whole)]
    assert {name for name in docs.keys() & whole.keys() if versions[0][name] != versions[1][name]} == set()


def _pins(lock: Path) -> dict[str, str]:
    """Return what a lock says of each distribution: version, platforms, hashes."""
    text = lock.read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)(==.*?)(?=^[a-z]|\Z)", text, flags=re.MULTILINE | re.DOTALL))


def test_the_extra_is_named(
    arnold: Arnold, cluster_file: Path, job_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture without matplotlib, a demo that saves Parquet without pyarrow; a job is placed without either."""
    for library in ("matplotlib", "pyarrow"):
        for name in [one for one in sys.modules if one.partition(".")[0] == library]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, library, None)
    drawn = arnold("topology", "show", cluster_file, "--figure", tmp_path / "cluster.png")
    assert drawn.code == 2
    assert says(drawn.err, "Error:", "matplotlib", "the extra 'plots'", "To fix:")
    assert "pip install '.[plots]'" in drawn.err
    assert not (tmp_path / "cluster.png").exists()
    assert arnold("place", "--cluster", cluster_file, "--job", job_file).code == 0
