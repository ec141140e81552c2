"""``arnold anonymise``."""

from __future__ import annotations

import json
from pathlib import Path

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
