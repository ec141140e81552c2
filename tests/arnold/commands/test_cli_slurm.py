"""`arnold slurm`: what of sbatch's words is read, and what is refused before anything is submitted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arnold.commands.slurm import Submission
from ground.errors import InvalidInput
from slurm.request import job_file_of

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
    for name in ("PARTITION", "TIMELIMIT", "CONSTRAINT", "RESERVATION", "ARRAY_INX", "CLUSTERS", "WAIT"):
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
    # to wait for its end is not left to sbatch
    assert read.words == (*(word.replace("W", "") for word in words), script, "--partition", "of the script")
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


@pytest.mark.parametrize(
    ("words", "left", "waits"),
    [
        (["--wait", "-p", "W"], ["-p", "W"], True),
        (["-W", "-J", "W"], ["-J", "W"], True),
        (["-HWQp", "W"], ["-Hp", "W"], True),
        (["-pW", "--quiet", "--comment=--wait"], ["-pW", "--comment=--wait"], False),
        (["--kill-on-invalid-dep", "yes", "--"], ["--kill-on-invalid-dep", "yes", "--"], False),
    ],
)
def test_sbatch_does_not_wait(script: str, words: list[str], left: list[str], waits: bool) -> None:
    """It would not say the number before the end, and ranks would have no order."""
    read = Submission.read([*words, script])
    assert read.words == (*left, script)
    assert ("wait" in read.options) is waits
    assert read.options["time"] == "1:00:00"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["-a", "0-1"], "--array"),
        (["--clusters=other"], "--clusters"),
        (["-M", "other"], "--clusters"),
        (["-F", "nodes.txt"], "--nodefile"),
        (["-wn1"], "--nodelist"),
        (["-p", "gpu", ":", "-p", "cpu"], "--hetjob"),
    ],
)
def test_what_no_order_can_be_right_for_is_refused(script: str, words: list[str], option: str) -> None:
    """Several jobs in one, another cluster, nodes of the user's choice: before anything is asked of Slurm."""
    with pytest.raises(InvalidInput, match=option):
        Submission.read([*words, script])


@pytest.mark.parametrize("line", ["--array=0-1", "hetjob", "--wait", "-HQ"])
def test_what_a_script_must_not_say(script: str, line: str) -> None:
    """The same in the script; and to wait or to be quiet, which no word takes back."""
    Path(script).write_text(f"#!/bin/bash\n#SBATCH {line}\nsrun hostname\n")
    with pytest.raises(InvalidInput):
        Submission.read([script])


def test_a_degree_is_named_once() -> None:
    """Of two none is right."""
    with pytest.raises(InvalidInput, match="dp is there twice"):
        job_file_of("tp=2,dp=2,dp=4")
    with pytest.raises(InvalidInput, match="dp is there twice"):
        job_file_of("tp=2,DP=2,dp=4")
    assert json.loads(job_file_of("tp=2,dp=4,alpha=.3,order=tp-dp-pp").text) == {
        "name": "job",
        "alpha": 0.3,
        "parallelism": {"tp": 2, "dp": 4, "order": "tp-dp-pp"},
    }


def test_without_slurm(arnold: Arnold, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that is missing is named."""
    monkeypatch.setenv("PATH", "/nowhere")
    ran = arnold("slurm", "submit", "--grid", "tp=2,dp=2", script)
    assert (ran.code != 0, "scontrol" in ran.err) == (True, True)
    ran = arnold("slurm", "order", "7; rm")
    assert (ran.code, "7; rm" in ran.err) == (2, True)
