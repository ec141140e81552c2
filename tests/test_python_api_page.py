"""The Python API: the blocks of its page run on the demo's files, and nothing heavy is imported too early."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from arnold.demonstration import demo_files, demo_instance
from tests.page_blocks import blocks_of

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "python-api.md"


def test_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Load, place, explain, replay: each block runs as it stands, and says what the commands would."""
    for name, content in demo_files(*demo_instance(0), 0).items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    for block in blocks_of(PAGE.read_text(encoding="utf-8")):
        if block.language == "python":
            exec(compile(block.text, str(PAGE), "exec"), {})
    told = capsys.readouterr().out
    assert "proved optimal: DP spread 8, PP spread 2, objective 3.8" in told  # as README shows of these files
    assert "(10, 1) at 3.7: not even (15, 1) can be had" in told
    # eight nodes on minipods of four: pipelines whole in one and two minipods a stage, 0.3 * 2 + 0.7 * 1
    assert "proved optimal: DP spread 2, PP spread 1, objective 1.3" in told
    assert told.splitlines()[-2].startswith("fifo-backfill ")


@pytest.mark.parametrize("package", ["scheduler", "simulator"])
def test_packages_import_nothing_heavy(package: str) -> None:
    """A package alone brings neither numpy nor the solver."""
    code = f"import sys, {package}; print(sorted({{'numpy', 'ortools', 'pydantic'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelled function is told as Python tells it."""
    import scheduler

    with pytest.raises(AttributeError, match="has no attribute 'plac'"):
        _ = scheduler.plac  # type: ignore[attr-defined]
