"""``arnold anonymise``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arnold.commands.run import run
from ground.errors import InvalidInput
from tests.facts import says

JOBS = "job_id,submit_time,duration,gpus,user,group\na,0,10,8,ada,vision\nb,1,10,8,ada,nlp\n"


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A trace with names."""
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "key").write_text("a secret\n")
    return tmp_path


def test_a_trace_without_names_is_written(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same key gives the same file; counts are of different names."""
    for output in ("one.csv", "two.csv"):
        words = ["--output", str(jobs / output), "--key-file", str(jobs / "key"), "--json"]
        assert run(["anonymise", str(jobs / "jobs.csv"), *words]) == 0
    document = json.loads(capsys.readouterr().out.split("\n}\n")[0] + "}")
    assert document["replaced"] == {"user": 1, "group": 2, "job": 0, "text": 0}
    assert document["kept_key"]
    text = (jobs / "one.csv").read_text()
    assert text == (jobs / "two.csv").read_text()
    assert text.splitlines()[0] == JOBS.splitlines()[0]
    assert not any(name in text for name in ("ada", "vision", "nlp"))


def test_without_a_key_it_is_another_each_time(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the text says so."""
    for output in ("one.csv", "two.csv"):
        assert run(["anonymise", str(jobs / "jobs.csv"), "--output", str(jobs / output)]) == 0
    assert (jobs / "one.csv").read_text() != (jobs / "two.csv").read_text()
    assert "--key-file keeps them" in capsys.readouterr().out


def test_an_empty_key_is_refused(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be one that everybody can guess."""
    (jobs / "key").write_text("\n")
    words = ["--output", str(jobs / "out.csv"), "--key-file", str(jobs / "key")]
    assert run(["anonymise", str(jobs / "jobs.csv"), *words]) == InvalidInput.exit_code
    assert "the key is empty" in capsys.readouterr().err
    assert not (jobs / "out.csv").exists()


def test_a_name_in_what_is_kept_is_said(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An id that holds a user's name stays, since others may refer to it: the user is named."""
    (jobs / "jobs.csv").write_text(JOBS.replace("\nb,", "\nb-ada,"))
    assert run(["anonymise", str(jobs / "jobs.csv"), "--output", str(jobs / "out.csv")]) == 0
    assert says(capsys.readouterr().out, "kept", "ada")


SCONTROL = """\
JobId=7 JobName=merger UserId=ada(1000) Account=vision Priority=3 JobState=RUNNING TimeLimit=1-00:00:00 \
StartTime=2026-11-28T12:00:00 NodeList=dgx-[1-2] WorkDir=/home/ada Comment=arnold: tp=8
JobId=8 JobName=secret UserId=bob(2) Account=nlp Priority=9 JobState=PENDING NumNodes=1 SubmitTime=2026-11-28T13:00:00
"""
NODES = """\
NodeName=dgx-0 State=IDLE+DRAIN Gres=gpu:8 Reason=ada looks at it [root@2026-11-28T12:00:00]
NodeName=dgx-1 State=ALLOCATED Gres=gpu:8
NodeName=dgx-2 State=ALLOCATED Gres=gpu:8
"""
FLAGS = "- {node: dgx-1, slowdown: 1.5, source: bob, evidence: bob saw it}\n"


def test_a_snapshot_without_names_is_the_same_cluster(
    arnold: Callable[..., Any], jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No name of a user, account, job, node or domain is left; states, jobs and what can be asked are as they were."""
    monkeypatch.setenv("TZ", "UTC")
    rows = [f"dgx-{i},oslo,8" for i in range(3)]
    texts = {"c.csv": "\n".join(["node,rack,gpus", *rows, ""]), "j.txt": SCONTROL, "n.txt": NODES, "f.yaml": FLAGS}
    for name, text in texts.items():
        (jobs / name).write_text(text)
    given = (
        "--cluster",
        jobs / "c.csv",
        "--running",
        jobs / "j.txt",
        "--busy",
        jobs / "n.txt",
        "--flags",
        jobs / "f.yaml",
    )
    named, pseudonymous = jobs / "named.json", jobs / "anonymous.json"
    assert arnold("snapshot", *given, "--at", "2026-11-28T14:00:00Z", "--output", named).code == 0
    ran = arnold("anonymise", named, "--output", pseudonymous, "--key-file", jobs / "key", "--json").json
    # bob's job waits; oslo is the only domain
    assert ran["replaced"] == {"user": 2, "group": 2, "job": 2, "text": 0, "node": 3, "domain": 1}
    text = pseudonymous.read_text()
    assert not any(
        name in text for name in ("ada", "bob", "vision", "nlp", "merger", "secret", "dgx", "oslo", str(jobs))
    )
    before, after = (arnold("snapshot", "--cluster", file, "--json").json for file in (named, pseudonymous))
    kept = ("gpus", "priority", "started", "ends", "ends_by", "ranked", "parallelism")
    assert (after["states"], after["time"]) == (before["states"], before["time"])
    for was, now in zip(before["jobs"], after["jobs"], strict=True):
        assert {key: now[key] for key in kept} == {key: was[key] for key in kept}
        assert now["name"].startswith("7 job-")
    scores = [arnold("score", "--cluster", file, "--all", "--json").json["jobs"] for file in (named, pseudonymous)]
    assert [job["step_time"] for job in scores[1]] == [job["step_time"] for job in scores[0]] == [1.5]
