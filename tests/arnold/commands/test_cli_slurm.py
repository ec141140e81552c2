"""`arnold slurm`: what of sbatch's words is read, and what is refused before anything is submitted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arnold.commands.slurm import Submission

Arnold = Callable[..., Any]

SCRIPT = """#!/bin/bash
#SBATCH --partition=debug --time 1:00:00
#SBATCH -C "a100&fast"   # features
srun python train.py
#SBATCH --reservation=late
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A batch script, and no wishes of sbatch in the environment."""
    for name in ("PARTITION", "TIMELIMIT", "CONSTRAINT", "RESERVATION"):
        monkeypatch.delenv(f"SBATCH_{name}", raising=False)
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT)
    return str(path)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {"partition": "debug", "time": "1:00:00", "constraint": "a100&fast"}),
        (["-p", "gpu"], {"partition": "gpu", "time": "1:00:00"}),
        (["-pgpu", "--time=30"], {"partition": "gpu", "time": "30"}),
        (["--exclusive", "-q", "high", "-HW", "-x", "n1"], {"partition": "debug", "qos": "", "exclude": "n1"}),
        (["--comment", "--parsable", "--nodes=4"], {"comment": "--parsable", "nodes": "4"}),
    ],
)
def test_words_as_sbatch_reads_them(script: str, words: list[str], expected: dict[str, str]) -> None:
    """Long and short, with the value behind or beside; words win over the script, which ends at its first command."""
    read = Submission.read([*words, script, "--partition", "of the script"])
    assert read.words == (*words, script, "--partition", "of the script")
    assert {name: read.options.get(name, "") for name in expected} == expected
    assert "reservation" not in read.options
    assert read.starts_at_once is ("-HW" not in words)


def test_the_environment_wins_over_the_script(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As sbatch says: words, then SBATCH_PARTITION, then the script."""
    monkeypatch.setenv("SBATCH_PARTITION", "night")
    assert Submission.read([script]).options["partition"] == "night"
    assert Submission.read(["-p", "gpu", script]).options["partition"] == "gpu"


@pytest.mark.parametrize(
    "words",
    [["--grid", "tp=2,dp=2"], ["--grid", "tp=2,dp=2", "-p", "gpu"], ["nothing.sh"], ["--grid", "tp", "nothing.sh"]],
)
def test_without_a_script_or_a_grid(arnold: Arnold, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked of Slurm."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert arnold("slurm", "submit", *words).code == 2


def test_without_slurm(arnold: Arnold, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that is missing is named."""
    monkeypatch.setenv("PATH", "/nowhere")
    ran = arnold("slurm", "submit", "--grid", "tp=2,dp=2", script)
    assert (ran.code != 0, "scontrol" in ran.err) == (True, True)
    ran = arnold("slurm", "order", "7; rm")
    assert (ran.code, "7; rm" in ran.err) == (2, True)
