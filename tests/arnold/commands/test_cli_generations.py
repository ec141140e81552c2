"""Throughputs and policies in rounds on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arnold.commands.run import run

CLUSTER = "node,site,gpus,gpu_type\n" + "".join(
    f"{name}-{i},s,8,{name}\n" for i in range(2) for name in ("H100", "A100")
)
TRACE = "job_id,submit,duration,gpus,model\nsmall,0,7200,8,cnn\nlarge,0,7200,16,llm\nlate,600,3600,16,llm\n"
THROUGHPUTS = """\
model,gpus,gpu_type,throughput
cnn,8,H100,10
cnn,8,A100,9
llm,16,H100,3
llm,16,A100,1
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Options that name a mixed cluster, its jobs, and how fast these are."""
    texts = {"cluster": CLUSTER, "trace": TRACE, "throughputs": THROUGHPUTS}
    for name, text in texts.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return [word for name in texts for word in (f"--{name}", str(tmp_path / f"{name}.csv"))]


def answered(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> dict[str, object]:
    """The JSON that a command prints."""
    assert run([*args, "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_types_set_the_pace_under_every_policy(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Fifo knows no types: the small job comes first, on a node of the type of which the cluster's first node is, and
    the large gang is left A100, three times as slow: 21,600 s.  gavel gives the gang both H100 nodes from its round on.
    """
    blind = answered(capsys, "simulate", *files, "--policy", "fifo", "--cost-model", "none")
    aware = answered(capsys, "simulate", *files, "--policy", "gavel", "--cost-model", "none", "--resume-seconds", "0")
    assert blind["makespan_seconds"] == pytest.approx(21_600)
    assert aware["makespan_seconds"] < 15_000


def test_goodput_is_work_at_the_pace_of_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A gang of 7,200 s, alone on GPUs three times as fast, takes 2,400 s: three times the work of its GPU time; the
    same after it waited 2,400 s for another of its kind, which the ETTR leaves out.
    """
    rows = "".join(f"{job},0,7200,16,llm\n" for job in "ab")
    texts = {
        "cluster": "node,site,gpus,gpu_type\nh0,s,8,H100\nh1,s,8,H100\n",
        "trace": f"job_id,submit,duration,gpus,model\n{rows}",
        "throughputs": "model,gpus,gpu_type,throughput\nllm,16,A100,1\nllm,16,H100,3\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.csv").write_text(text)
    files = [word for name in texts for word in (f"--{name}", str(tmp_path / f"{name}.csv"))]
    found = answered(capsys, "simulate", *files, "--cost-model", "none")
    assert found["makespan_seconds"] == pytest.approx(4_800)
    assert (found["goodput"], found["utilization"], found["ettr"]) == (pytest.approx(3.0), pytest.approx(1.0), 1.0)


def test_what_rounds_need_is_said(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Without throughputs, and where GPUs are only counted, a policy in rounds has nothing to choose by."""
    error = answered(capsys, "simulate", *files[:4], "--policy", "gavel", code=2)["error"]
    assert isinstance(error, dict)
    assert "--throughputs" in error["fix"]
    error = answered(capsys, "simulate", *files, "--policy", "hadar", "--algorithm", "none", code=2)["error"]
    assert isinstance(error, dict)
    assert "--algorithm" in error["fix"]


def test_the_study(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A small run with own throughputs: an answer as JSON, a page and a picture."""
    small = ["--trace-jobs", "4", "--seeds", "2", "--load", "1", "--gpus", "16", "--policy", "fifo,hadar"]
    saved = ["--html", str(tmp_path / "page.html"), "--svg", str(tmp_path / "figure.svg")]
    found = answered(capsys, "study", "generations", *small, *files[4:], *saved)
    assert found["types"] == ["H100", "A100"]
    assert "<svg" in (tmp_path / "page.html").read_text()
    assert (tmp_path / "figure.svg").read_text().startswith("<svg")
    assert run(["study", "generations", *small, *files[4:]]) == 0
    assert "instead of" in capsys.readouterr().out
