"""What `squeue` prints, and who may write what into it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm.live import COLUMNS, SlurmJob, rows_in
from slurm.request import GridRequest, asked_in

SEPARATOR = "|0123456789abcdef|"
ROW = {
    "number": "7", "state": "PENDING", "reason": "BeginTime", "partition": "all", "features": "(null)",
    "reservation": "(null)", "limit": "1-00:00:00", "count": "2", "priority": "4294901759", "submitted": "1795957918",
    "begin": "1795958518", "ends": "NONE", "owner": "ann", "account": "(null)", "nodes": "", "required": "",
    "excluded": "", "planned": "(null)", "gpus": "gres:gpu:h100:8", "name": "train", "comment": "arnold: tp=2,dp=2",
}  # fmt: skip


def jobs_in(text: str) -> list[SlurmJob]:
    """The jobs of what was printed."""
    return [SlurmJob.of(row) for row in rows_in(text, SEPARATOR, COLUMNS)]


def printed(*rows: dict[str, str]) -> str:
    """What squeue prints of some jobs."""
    return "".join("".join(SEPARATOR + row[column] for column in COLUMNS) + "\n" for row in rows)


def test_a_row_as_a_real_squeue_prints_it() -> None:
    """As 22.05 did: what stands for nothing is empty, a day is 86,400 s."""
    (job,) = jobs_in(printed(ROW))
    assert (job.number, job.features, job.reservation, job.account, job.ends) == ("7", "", "", "", None)
    assert (job.seconds, job.count, job.priority, job.begin) == (86_400.0, 2, 4294901759, 1795958518.0)
    assert job.gpus == "gpu:h100:8"
    assert jobs_in("") == []


@given(st.text(), st.text())
def test_no_name_and_no_comment_makes_a_job_or_a_field_of_another(name: str, comment: str) -> None:
    """Whatever users write, newlines and forged rows too, as long as they cannot know the separator."""
    forged = f"{comment}\n{printed(ROW | {'number': '8'}).replace(SEPARATOR, '|')}"
    jobs = jobs_in(printed(ROW | {"name": name, "comment": forged}, ROW | {"number": "9"}))
    assert [(job.number, job.owner) for job in jobs] == [("7", "ann"), ("9", "ann")]
    assert jobs[0].name == name
    assert jobs[0].comment == forged


@given(st.text(max_size=2_000))
def test_any_comment_is_a_request_a_refusal_or_none(text: str) -> None:
    """It never raises; a grid is of letters, numbers and =,.+- alone, and what we write Slurm takes."""
    asked = asked_in(f"arnold:{text}")
    assert asked is not None
    if not asked.fault and not asked.refused:
        assert {*asked.grid} <= {*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_=,.+-"}
    for comment in (asked.comment(refused=text), asked.comment(worth="DP spread 1"), asked.comment(begin=5.0)):
        assert comment.isprintable()
        assert len(comment) <= 1_024
    assert asked_in(text) is None or text.strip().startswith("arnold:")


@pytest.mark.parametrize("objective", ["1..", ".", "1.5.", "9" * 400])
def test_a_worth_that_serve_never_wrote(objective: str) -> None:
    """Anybody may write a comment of his own job, and all read it: it says no worth."""
    asked = asked_in(f"arnold: tp=2; DP spread 1, PP spread 1, objective {objective}, optimal")
    assert asked is not None
    assert asked.told is None


def test_what_came_of_it_is_read_back() -> None:
    """Worth, begin and refusal stand in one comment with the grid, each read as it was written."""
    asked = GridRequest("tp=2,dp=2", begin=5.0)
    assert asked_in(asked.comment(worth="DP spread 1")) == GridRequest("tp=2,dp=2", 5.0, "DP spread 1")
    refused = asked_in(asked.comment(refused="too; large"))
    assert refused is not None
    assert refused.refused == "too; large"
