"""`arnold score`, `explain --when` and `explain --stop`, and running jobs of every form before `place`."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from arnold.documents.score_answer import ScoreDocument
from arnold.documents.start_answers import StopDocument, WhenDocument
from ground.records import json_data, read_json
from scheduler.placement.stop_program import StopProgram
from scheduler.work_clock import interrupted
from simulator.start_forecast import QueueForecast
from tests.facts import says

Arnold = Callable[..., Any]

AT = "2026-11-29T01:30:00Z"
JOBS = """\
jobs:
- {name: a, nodes: "n[0-2]", preemptible: true, started: 2026-11-29T00:00:00Z, ends: 2026-11-29T05:00:00Z, owner: ann}
- {name: b, nodes: "n[3-4]", preemptible: true, started: 2026-11-28T00:00:00Z, last_checkpoint: 2026-11-29T01:00:00Z,
   ends: 2026-11-29T03:00:00Z}
- {name: c, nodes: n5, ends: 2026-11-29T02:00:00Z}
"""


@pytest.fixture
def question(tmp_path: Path) -> list[str | Path]:
    """Eight nodes in two racks of four, and a job of 2 x 2 nodes."""
    cluster, job = tmp_path / "eight.csv", tmp_path / "four.yaml"
    rows = [f"n{i},r{i // 4},8" for i in range(8)]
    cluster.write_text("\n".join(["node,rack,gpus", *rows, ""]))
    job.write_text("{name: new, parallelism: {tp: 8, dp: 2, pp: 2}, gpus_per_node: 8, alpha: 0.5}\n")
    return ["--cluster", cluster, "--job", job]


@pytest.fixture
def running(tmp_path: Path) -> list[str | Path]:
    """Three jobs on six of the nodes."""
    file = tmp_path / "jobs.yaml"
    file.write_text(JOBS)
    return ["--running", file]


def test_it_starts_when_enough_jobs_have_ended(arnold: Arnold, question: list[Any], running: list[Any]) -> None:
    """n6 and n7 are free, n5 from 2 o'clock, n3 and n4 from 3: five at 3, of which four in one rack, so 1.0 at once."""
    ran = arnold("explain", *question, *running, "--when", "--at", AT, "--json")
    assert ran.code == 0
    three = "2026-11-29T03:00:00Z"
    assert ran.json["start"] == {"earliest": three, "p10": three, "p50": three, "p90": three}
    assert (ran.json["now"]["objective"], ran.json["now"]["at"]) == (None, AT)
    assert (ran.json["later"]["objective"], ran.json["later"]["at"], ran.json["later"]["status"]) == (
        1.0,
        three,
        "optimal",
    )
    assert json_data(WhenDocument, read_json(WhenDocument, ran.json)) == ran.json
    assert says(arnold("explain", *question, *running, "--when", "--at", AT).out, three)


def test_it_starts_behind_those_that_wait(arnold: Arnold, question: list[Any], tmp_path: Path) -> None:
    """One of the eight nodes is left until 3 o'clock; then all eight are for the one that waits, an hour at most: the
    job starts within that hour.
    """
    file, flags = tmp_path / "jobs.yaml", tmp_path / "flags.json"
    file.write_text(
        'jobs: [{name: a, nodes: "n[0-6]", ends: 2026-11-29T03:00:00Z}]\nwaiting: [{name: b, nodes: 8, hours: 1}]\n'
    )
    ran = arnold("explain", *question, "--running", file, "--when", "--at", AT, "--json")
    start = ran.json["start"]
    assert start["earliest"] == "2026-11-29T03:00:00Z" < start["p10"] < start["p90"] < "2026-11-29T04:00:00Z"
    assert says(" ".join(ran.json["notes"]), "1 jobs wait before it")
    # five nodes are away from 3 to 5 o'clock: three are left, so it starts at 5, when all are back
    flags.write_text(
        '{"flags": ['
        + ", ".join(
            f'{{"node": "n{i}", "kind": "faulty", "since": "2026-11-29T03:00:00Z", "until": "2026-11-29T05:00:00Z"}}'
            for i in range(5)
        )
        + "]}"
    )
    file.write_text('jobs: [{name: a, nodes: "n[0-6]", ends: 2026-11-29T03:00:00Z}]\n')
    ran = arnold("explain", *question, "--running", file, "--flags", flags, "--when", "--at", AT, "--json")
    assert ran.json["start"]["p50"] == "2026-11-29T05:00:00Z"


@pytest.mark.parametrize(("partition", "before"), [("west", 1), ("east", 0), ("east,west", 1), ("north", 1)])
def test_who_waits_for_other_nodes(
    arnold: Arnold, question: list[Any], tmp_path: Path, partition: str, before: int
) -> None:
    """The job goes to the partition of n0 to n3; who waits for that of the others has his turn elsewhere, unless nobody
    says which nodes his has.
    """
    partitions, jobs = tmp_path / "partitions", tmp_path / "squeue"
    partitions.write_text(
        "PartitionName=west Default=YES Nodes=n[0-3] State=UP MaxTime=UNLIMITED\n"
        "PartitionName=east Default=NO Nodes=n[4-7] State=UP MaxTime=UNLIMITED\n"
    )
    jobs.write_text(
        "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n"
        f"1 west a ann R 1:00 1 n0\n2 {partition} b bob PD 0:00 4 (Priority)\n"
    )
    asked = ("explain", *question, "--busy", partitions, "--running", jobs, "--when", "--json")
    notes = " ".join(arnold(*asked).json["notes"])
    assert says(notes, "1 jobs wait before it") is (before == 1)
    assert says(notes, "partitions that have none of these nodes", "2 b") is (before == 0)


def test_nodes_in_part_and_nodes_without_gpus(arnold: Arnold, question: list[Any], tmp_path: Path) -> None:
    """Slurm calls n0 to n6 mixed, and c0 has no GPUs: a, with half of the seven and with c0, is all that there is on
    them; they are free when it ends, whether the jobs are told by a file or by a snapshot.
    """
    topology, nodes, jobs = tmp_path / "topology.conf", tmp_path / "nodes", tmp_path / "jobs"
    topology.write_text("SwitchName=r0 Nodes=n[0-3]\nSwitchName=r1 Nodes=n[4-7],c0\nSwitchName=top Switches=r[0-1]\n")
    nodes.write_text("".join(f"n{i} {'mix' if i < 7 else 'idle'} gpu:8\n" for i in range(8)) + "c0 alloc (null)\n")
    jobs.write_text(
        "JobId=1 JobName=a JobState=RUNNING NodeList=n[0-6],c0 TresPerNode=gres/gpu:4 StartTime=2026-11-28T00:00:00 "
        "TimeLimit=9-00:00:00\n"
    )
    cluster, snapshot = ("--cluster", topology, "--busy", nodes), tmp_path / "snapshot.json"
    given = ("--running", jobs, "--at", "2026-11-29T15:00:00Z")
    assert arnold("snapshot", *cluster, *given, "--output", snapshot).code == 0
    by_file = arnold("explain", *cluster, *question[2:], *given, "--when", "--json").json
    by_snapshot = arnold("explain", "--cluster", snapshot, *question[2:], "--when", "--json").json
    assert by_file["start"]["p50"] is not None
    assert by_file["start"] == by_snapshot["start"]


def test_why_no_start_can_be_told(arnold: Arnold, question: list[Any], running: list[Any], tmp_path: Path) -> None:
    """Four replicas of three stages are more than the eight nodes; six nodes have no room while no end is known; and
    no time is left to draw an end.
    """
    asked = ["explain", "--cluster", question[1], "--when", "--at", AT]
    large, endless = tmp_path / "large.yaml", tmp_path / "endless.yaml"
    large.write_text("{parallelism: {tp: 8, dp: 4, pp: 3}, gpus_per_node: 8}\n")
    endless.write_text('jobs: [{name: a, nodes: "n[0-5]"}]\n')
    ran = arnold(*asked, "--job", large, *running, "--json")
    assert (ran.code, ran.json["start"]["p50"]) == (3, None)
    assert says(ran.json["never"], "12", "8 of 8")
    assert says(arnold(*asked, "--job", large, *running).out, "whoever ends", "12")
    waits = arnold(*asked, "--job", question[3], "--running", endless)
    assert waits.code == 3
    assert says(waits.out, "no end is known")
    # n6 and n7 are in use by nobody who is known, and four nodes would do
    busy = tmp_path / "busy"
    busy.write_text("n[6-7]\n")
    waits = arnold(*asked, "--job", question[3], "--running", endless, "--busy", busy)
    assert says(waits.out, "no end is known")
    late = arnold(*asked, "--job", question[3], *running, "--time-limit", 1e-9)
    assert late.code == 4
    assert says(late.out, "time ran out")


@pytest.mark.parametrize(
    ("waiting", "start", "before"),
    [
        # one that waits is called as one that runs, for 400 hours at most, on a node that is free
        ("{name: a, nodes: 1, hours: 400}", "2026-11-29T03:00:00Z", 1),
        # two are called alike: the first has all nodes for ever, the second for one hour
        ("{name: b, nodes: 8}, {name: b, nodes: 8, hours: 1}", None, 2),
        # it waits itself, with its turn before the one that wants all
        ("{name: new, nodes: 4}, {name: b, nodes: 8, hours: 400}", "2026-11-29T03:00:00Z", 0),
        # the first is of another cluster, so that one is before it
        ("{name: b, nodes: 9}, {name: c, nodes: 1}, {name: new, nodes: 4}, {name: d, nodes: 8, hours: 9}",
         "2026-11-29T03:00:00Z", 1),
        ("{name: b, nodes: 8, hours: 1.0e+300}", None, 1),  # it starts after all times that there are
    ],
)  # fmt: skip
def test_those_that_wait_have_names_and_turns(  # noqa: PLR0917
    arnold: Arnold, question: list[Any], tmp_path: Path, waiting: str, start: str | None, before: int
) -> None:
    """Seven of the eight nodes are free from 3 o'clock on, which is said, and four are enough."""
    file = tmp_path / "jobs.yaml"
    file.write_text(f'jobs: [{{name: a, nodes: "n[0-6]", ends: 2026-11-29T03:00:00Z}}]\nwaiting: [{waiting}]\n')
    ran = arnold("explain", *question, "--running", file, "--when", "--at", AT, "--policy", "fifo", "--json")
    assert ran.json["start"]["p10"] == ran.json["start"]["p90"] == start
    assert says(" ".join(ran.json["notes"]), f"{before} jobs wait before it") is (before > 0)


def test_the_job_that_loses_least_is_stopped(arnold: Arnold, question: list[Any], running: list[Any]) -> None:
    """Of a 36 GPU-hours would be lost, of b 8, two nodes since half an hour; c is protected; b's two are enough."""
    ran = arnold("explain", *question, *running, "--stop", "--at", AT, "--json")
    assert ran.code == 0
    assert [(job["name"], job["gpu_hours_lost"]) for job in ran.json["stop"]] == [("b", 8.0)]
    assert (ran.json["gpu_hours_lost"], ran.json["bound"], ran.json["status"]) == (8.0, 8.0, "optimal")
    assert json_data(StopDocument, read_json(StopDocument, ran.json)) == ran.json
    assert says(arnold("explain", *question, *running, "--stop", "--at", AT).out, "b", "8.0")


def test_of_lower_priorities_the_lowest_are_stopped(arnold: Arnold, question: list[Any], tmp_path: Path) -> None:
    """For a job of priority 5: d of 7 is above it, b of 3 loses less than a of 1, and a alone makes room, so a goes."""
    file = tmp_path / "jobs.yaml"
    file.write_text(
        """jobs:
- {name: a, nodes: "n[0-1]", preemptible: true, priority: 1, started: 2026-11-28T00:00:00Z,
   last_checkpoint: 2026-11-29T00:00:00Z}
- {name: b, nodes: "n[2-3]", preemptible: true, priority: 3, started: 2026-11-29T01:00:00Z}
- {name: d, nodes: "n[4-5]", preemptible: true, priority: 7, started: 2026-11-29T01:15:00Z}
"""
    )
    ask = ["explain", *question, "--running", file, "--stop", "--at", AT, "--json"]
    assert [(job["name"], job["gpu_hours_lost"]) for job in arnold(*ask).json["stop"]] == [("d", 4.0)]
    said = arnold(*ask, "--priority", "5").json
    (stopped,) = said["stop"]
    assert (stopped["name"], stopped["priority"], stopped["gpu_hours_lost"]) == ("a", 1.0, 24.0)
    assert stopped["last_checkpoint"] == "2026-11-29T00:00:00Z"
    assert (said["status"], said["bound"], said["below_priority"]) == ("optimal", 24.0, 5.0)
    none = arnold(*ask, "--priority", "1")
    assert (none.code, none.json["stop"]) == (3, [])


@contextmanager
def interrupted_in(kind: type, method: str, *, call: int) -> Iterator[None]:
    """Let SIGTERM come in that call of a method, as in the middle of a long search."""
    own, calls = getattr(kind, method), count(1)

    def called(*args: Any, **options: Any) -> Any:
        if next(calls) == call:
            signal.raise_signal(signal.SIGTERM)
            while not interrupted():
                time.sleep(0.001)
        return own(*args, **options)

    with patch.object(kind, method, called):
        yield


def test_a_signal_ends_the_draws_of_ends(arnold: Arnold, question: list[Any], tmp_path: Path) -> None:
    """Eight draws were made when it came: the range is that of these, and the exit is 0."""
    file = tmp_path / "jobs.yaml"
    file.write_text(
        'jobs: [{name: a, nodes: "n[0-6]", ends: 2026-11-29T03:00:00Z}]\nwaiting: [{name: b, nodes: 8, hours: 1}]\n'
    )
    with interrupted_in(QueueForecast, "start", call=9):
        ran = arnold("explain", *question, "--running", file, "--when", "--at", AT, "--json")
    assert (ran.code, ran.json["stopped_at"]) == (0, "interrupted")
    start = ran.json["start"]
    assert start["earliest"] <= start["p10"] <= start["p50"] <= start["p90"] < "2026-11-29T04:00:00Z"
    assert says(" ".join(ran.json["notes"]), "8 of 99")


def test_a_signal_ends_the_choice_of_jobs_to_stop(arnold: Arnold, question: list[Any], running: list[Any]) -> None:
    """Jobs are named without whom there is room, what they lose and the least that is proved by then; the exit is 0."""
    with interrupted_in(StopProgram, "cheapest", call=1):
        ran = arnold("explain", *question, *running, "--stop", "--at", AT, "--json")
    assert (ran.code, ran.json["stopped_at"]) == (0, "interrupted")
    assert {job["name"] for job in ran.json["stop"]} in ({"a"}, {"b"})
    assert ran.json["bound"] <= ran.json["gpu_hours_lost"]


def test_nobody_is_stopped_in_vain(arnold: Arnold, question: list[Any], tmp_path: Path) -> None:
    """With five nodes in protected jobs nothing helps: exit 3, and no job is named."""
    file = tmp_path / "protected.yaml"
    file.write_text(
        'jobs: [{name: a, nodes: "n[0-4]"}, {name: b, nodes: n5, preemptible: true, started: 2026-01-01T00:00:00Z}]'
    )
    ran = arnold("explain", *question, "--running", file, "--stop", "--json")
    assert (ran.code, ran.json["status"], ran.json["stop"], ran.json["gpu_hours_lost"]) == (3, "infeasible", [], None)


def test_a_job_is_scored_where_it_runs(arnold: Arnold, question: list[Any], tmp_path: Path) -> None:
    """Its stages lie across both racks: 2.0; on the same four nodes no order is better than 1.5, anew it has 1.0."""
    nodes = tmp_path / "nodes"
    nodes.write_text("n0\nn4\nn5\nn1\n")
    ran = arnold("score", *question, "--nodes", nodes, "--json")
    assert ran.code == 0
    assert (ran.json["objective"], ran.json["spread"]) == (2.0, {"dp": 2, "pp": 2})
    objectives = {
        name: ran.json[name]["objective"] for name in ("same_nodes", "free_nodes", "restart", "empty_cluster")
    }
    # the cluster shows its nodes as free, so they are among those that are free now
    assert objectives == {"same_nodes": 1.5, "free_nodes": 1.0, "restart": 1.0, "empty_cluster": 1.0}
    # ranks 0 and 1 are stage 0: with n1 in place of n4 it lies in one rack, and stage 1 in the other
    assert ran.json["swap"]["objective"] == 1.5
    assert json_data(ScoreDocument, read_json(ScoreDocument, ran.json)) == ran.json
    assert says(arnold("score", *question, "--nodes", nodes).out, "2.0", "1.5")


def test_a_saved_placement_says_its_job(arnold: Arnold, question: list[Any], tmp_path: Path) -> None:
    """It is scored without a job file, by its alpha of 0.5 unless another is given; a host file says no job."""
    saved, hosts = tmp_path / "saved.json", tmp_path / "saved.hostfile"
    assert arnold("place", *question, "--output", saved, "--output", hosts).code == 0
    asked = ["score", *question[:2], "--nodes"]
    assert arnold(*asked, saved, "--json").json["job"]["alpha"] == 0.5
    assert arnold(*asked, saved, "--alpha", "1", "--json").json["job"]["alpha"] == 1.0
    assert says(arnold(*asked, hosts).err, "--job")


def test_jobs_of_every_form_hold_their_nodes(arnold: Arnold, question: list[Any], running: list[Any]) -> None:
    """`place` beside jobs on six of eight nodes has no room for four."""
    ran = arnold("place", *question, *running, "--at", AT, "--json")
    assert ran.code == 3
    assert says(ran.json["reason"], "4", "2")


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (["--when"], ("--running",)),
        (["--stop", "--when", "--running", "JOBS"], ("--when", "--stop")),
        (["--running", "JOBS"], ("--when", "--stop")),
        (["--when", "--running", "JOBS", "--at", "yesterday"], ("--at",)),
        (["--when", "--running", "JOBS", "--at", "2027-01-01"], ("'a'", "--at")),
        (["--when", "--running", "JOBS", "--at", AT, "--policy", "easy"], ("--policy", "fifo-backfill")),
        (["--when", "--running", "JOBS", "--at", AT, "--policy", "fair-share"], ("--policy", "fifo-backfill")),
    ],
)
def test_what_cannot_be_asked(
    arnold: Arnold, question: list[Any], running: list[Any], options: list[str], facts: tuple[str, ...]
) -> None:
    """Each exits 2 and says what to do."""
    given = [running[1] if option == "JOBS" else option for option in options]
    ran = arnold("explain", *question, *given)
    assert ran.code == 2
    assert says(ran.err, *facts)
