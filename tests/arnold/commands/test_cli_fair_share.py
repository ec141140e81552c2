"""``--policy fair-share``, ``--share-weights`` and ``--share-by`` of commands that replay jobs: runs, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Arnold = Callable[..., Any]
Files = Callable[..., list[str]]

CLUSTER = "node,rack,gpus\nn0,r0,8\nn1,r0,8\nn2,r0,8\n"
# Three nodes come free at 10, 11 and 12.
JOBS = """\
job_id,submit_time,duration,gpus,user,queue
a0,0,10,8,ann,a
a1,0,11,8,ann,a
b0,0,12,8,bob,b
a2,1,10,8,ann,a
b1,2,10,8,bob,b
"""


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Options that name a cluster and a trace."""

    def write(trace: str = JOBS) -> list[str]:
        (tmp_path / "cluster.csv").write_text(CLUSTER)
        (tmp_path / "jobs.csv").write_text(trace)
        return ["--cluster", str(tmp_path / "cluster.csv"), "--trace", str(tmp_path / "jobs.csv")]

    return write


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ((), "a2"),
        (("--share-weights", "b=2"), "b1"),
        (("--share-by", "user", "--share-weights", "ann=1, bob=1.5"), "b1"),
    ],
    ids=["equal", "weighted", "by user"],
)
def test_the_namespace_with_least_for_its_weight_comes_first(
    arnold: Arnold, files: Files, tmp_path: Path, options: tuple[str, ...], first: str
) -> None:
    """At 10 both have a node: of equal weights the older job a2 is first, else the job of the one that weighs more."""
    out = tmp_path / "out.csv"
    assert arnold("simulate", *files(), "--policy", "fair-share", *options, "--jobs-out", out).code == 0
    head, *rows = (line.split(",") for line in out.read_text().splitlines())
    found = {row[0]: float(row[head.index("start_time")]) for row in rows}
    assert {name: found[name] for name in ("a2", "b1")} == {"a2": 11, "b1": 11} | {first: 10}


NAMELESS = "job_id,submit_time,duration,gpus\nx,0,1,8\n"
USERS = "job_id,submit_time,duration,gpus,user\nx,0,1,8,ann\n"


@pytest.mark.parametrize(
    ("options", "trace", "said"),
    [
        (["--share-weights", "a"], JOBS, "'a' gives no name a weight | write NAME=W,NAME=W"),
        (["--share-weights", "a=nan"], JOBS, "'a': 'nan' is no weight | write a number above 0"),
        (["--share-weights", "a=0"], JOBS, "'a': '0' is no weight | write a number above 0"),
        (["--share-weights", f"a={'9' * 5_000}"], JOBS, "9...' is no weight | number above 0"),
        (["--share-weights", "a=1,a=2"], JOBS, "'a' has two weights | once"),
        (["--share-weights", "ann=2"], JOBS, "no job has the queue 'ann' | give the queue of a job"),
        (
            ["--share-weights", "ben=2", "--share-by", "user"],
            JOBS,
            "no job has the user 'ben' | give the user of a job: ann, bob",
        ),
        (
            ["--policy", "fifo", "--share-weights", "a=2"],
            JOBS,
            "no policy of this run shares | choose --policy fair-share",
        ),
        ([], NAMELESS, "no job of the trace names its queue | name the queue of each job in the trace"),
        ([], USERS, "no job of the trace names its queue | choose --share-by user"),
    ],
)
def test_refusals(arnold: Arnold, files: Files, options: list[str], *, trace: str, said: str) -> None:
    """Before anything runs, in a few hundred bytes, with what to do."""
    chosen = options if "--policy" in options else ["--policy", "fair-share", *options]
    ran = arnold("simulate", *files(trace), *chosen, "--json")
    error = ran.json["error"]
    assert (ran.code, error["kind"]) == (2, "InvalidInput")
    message, fix = said.split(" | ")
    assert message in error["message"]
    assert fix in error["fix"]
    assert len(ran.out) < 500


def test_a_study_needs_one_policy_that_heeds_the_weights(arnold: Arnold, files: Files) -> None:
    """The others run as ever beside it."""
    chosen = ["--policy", "fifo,fair-share", "--share-weights", "b=2", "--algorithm", "gpu-packing"]
    ran = arnold("simulate", *files(), *chosen, "--json")
    assert (ran.code, ran.json["runs"]) == (0, 2)


def test_the_workload_of_capacity_grow_shares_too(arnold: Arnold) -> None:
    """By its groups of users; names that none has are refused."""
    question = ["capacity", "grow", "--made", "3x8", "--shape", "8x2", "--more", "1", "--days", "0.05", "--json"]
    chosen = ["--policy", "fair-share", "--share-by", "group", "--share-weights", "other-g5=2"]
    ran = arnold(*question, *chosen)
    assert ran.code == 0, ran.out
    refused = arnold(*question, "--policy", "fair-share", "--share-weights", "nobody=2")
    assert (refused.code, refused.json["error"]["where"]) == (2, "--share-weights")
