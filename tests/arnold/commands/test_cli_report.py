"""`arnold report`: what became of the GPU-hours of ten hours on four nodes, counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arnold.documents.report_answer import ReportDocument
from ground.records import json_data, read_json
from scheduler.job import DEFAULT_SPREAD_COST
from tests.facts import says

Arnold = Callable[..., Any]

HEADER = "JobID|JobName|User|Account|Submit|Start|End|State|NNodes|ReqTRES|AllocTRES|NodeList\n"
DAY = "2026-11-28T"
A = f"1|a|ann|lab-a|{DAY}00:00:00|{DAY}00:00:00|Unknown|RUNNING|1||gres/gpu=4|n0\n"
B = f"2|b|bob|lab-b|{DAY}00:00:00|{DAY}00:00:00|{DAY}05:00:00|NODE_FAIL|2||gres/gpu=16|n[1-2]\n"
C = f"3|c|ann|lab-a|{DAY}05:00:00|Unknown|Unknown|PENDING|3|gres/gpu=20||None assigned\n"


@pytest.fixture
def files(arnold: Arnold, tmp_path: Path) -> list[str | Path]:
    """Four nodes of 8 GPUs in two racks, n2 slow by 1.25, n3 faulty: a on half of n0 throughout, b on n1 and n2 for
    five hours until a node failed, and c, which waits from then on for 20 GPUs of three nodes.
    """
    rows = [f"n{i},r{i // 2},8" for i in range(4)]
    (tmp_path / "four.csv").write_text("\n".join(["node,rack,gpus", *rows, ""]))
    (tmp_path / "flags.yaml").write_text("- {node: n2, slowdown: 1.25}\n- {node: n3, kind: faulty}\n")
    (tmp_path / "sacct.txt").write_text(HEADER + A + B + C)
    (tmp_path / "grids.yaml").write_text("grids: [{name: b, parallelism: {tp: 8}, alpha: 0.5}]\n")
    given = ("--cluster", tmp_path / "four.csv", "--flags", tmp_path / "flags.yaml", "--at", f"{DAY}10:00:00Z")
    assert arnold("snapshot", *given, "--output", tmp_path / "snapshot.json").code == 0
    return ["--cluster", tmp_path / "snapshot.json", "--trace", tmp_path / "sacct.txt", "--since", f"{DAY}00:00:00Z"]


def test_every_gpu_hour_is_accounted_for(arnold: Arnold, files: list[Any], tmp_path: Path) -> None:
    """Of 320 GPU-hours a uses 40 and b 80; n3 is 80; c would hold the 20 idle GPUs for 5 hours if they were on whole
    nodes, as n0 has half of them; nobody wants the other half of n0 before.  b lies on two racks, where one would do.
    """
    asked = ("report", *files, "--grids", tmp_path / "grids.yaml")
    ran = arnold(*asked, "--json").json
    hours = {name: entry["gpu_hours"] for name, entry in ran["hours"].items()}
    assert hours == {"used": 120.0, "unusable": 80.0, "fragmented": 100.0, "passed_over": 0.0, "unwanted": 20.0}
    assert sum(hours.values()) == ran["gpu_hours"] == 320.0
    spread = 80 * (1 - 1 / (1 + 0.5 * DEFAULT_SPREAD_COST))
    lost = {name: entry["gpu_hours"] for name, entry in ran["lost"].items()}
    # n2 sets the pace of b: a fifth of its 80 GPU-hours; all of them may be lost with the node
    assert lost == {"spread": pytest.approx(spread), "slow": pytest.approx(16.0), "restarts": 80.0}
    assert (ran["spread_known"], ran["possible"]["gpu_hours"]) == (80.0, 220.0)
    assert [(team["team"], team["gpu_hours"], team["jobs"]) for team in ran["teams"]] == [
        ("lab-b", 80.0, 1),
        ("lab-a", 40.0, 1),
    ]
    assert json_data(ReportDocument, read_json(ReportDocument, ran)) == ran
    page = tmp_path / "page.html"
    assert says(arnold(*asked, "--html", page).out, "37.5%", "100.0", "lab-a")
    assert says(page.read_text(), "37.5%", "100.0", "lab-a")


def test_gpus_that_two_jobs_had_are_said(arnold: Arnold, files: list[Any], tmp_path: Path) -> None:
    """Job d shares the nodes of b (OverSubscribe) for two of its five hours: 32 GPU-hours are those of both."""
    d = f"4|d|bob|lab-b|{DAY}01:00:00|{DAY}01:00:00|{DAY}03:00:00|COMPLETED|2||gres/gpu=16|n[1-2]\n"
    (tmp_path / "sacct.txt").write_text(HEADER + A + B + C + d)
    ran = arnold("report", *files, "--json").json
    assert ran["hours"]["used"]["gpu_hours"] == 152.0
    assert says(ran["notes"], "several jobs", "32.0")


def test_a_job_that_would_fit_is_passed_over(arnold: Arnold, files: list[Any], tmp_path: Path) -> None:
    """C wants two nodes of the 20 idle GPUs, and they are there: 16 for five hours; 4 are left."""
    (tmp_path / "sacct.txt").write_text(HEADER + A + B + C.replace("|3|gres/gpu=20", "|2|gres/gpu=16"))
    hours = arnold("report", *files, "--json").json["hours"]
    assert [hours[name]["gpu_hours"] for name in ("fragmented", "passed_over", "unwanted")] == [0.0, 80.0, 40.0]


def test_a_job_that_was_given_up_waited_until_then(arnold: Arnold, files: list[Any], tmp_path: Path) -> None:
    """C is cancelled at eight, before it started: for three hours it would have held the 20 idle GPUs."""
    given_up = C.replace("Unknown|Unknown|PENDING", f"None|{DAY}08:00:00|CANCELLED by 7")
    (tmp_path / "sacct.txt").write_text(HEADER + A + B + given_up)
    ran = arnold("report", *files, "--json").json
    hours = {name: entry["gpu_hours"] for name, entry in ran["hours"].items()}
    assert hours == {"used": 120.0, "unusable": 80.0, "fragmented": 60.0, "passed_over": 0.0, "unwanted": 60.0}
    assert [(team["team"], team["median_wait_seconds"]) for team in ran["teams"]] == [("lab-b", 0.0), ("lab-a", 0.0)]


def test_what_cannot_be_told_is_said(arnold: Arnold, files: list[Any], tmp_path: Path) -> None:
    """Without nodes of a job nothing is known of idle ones, without a grid nothing of spread: no number, a reason."""
    (tmp_path / "sacct.txt").write_text(HEADER + A + B.replace("NODE_FAIL", "COMPLETED").replace("n[1-2]", ""))
    ran = arnold("report", *files, "--json").json
    assert ran["hours"]["used"]["gpu_hours"] == 120.0
    for entry in (ran["hours"]["fragmented"], ran["lost"]["spread"], ran["lost"]["restarts"], ran["possible"]):
        assert entry["gpu_hours"] is None
        assert entry["unknown"]


def test_what_is_no_report(arnold: Arnold, files: list[Any], tmp_path: Path) -> None:
    """A period that ends before it begins, the accounting of another cluster, none at all: each says what to do."""
    cases = {
        HEADER + A: (["--until", "2026-11-27"], ("--since", "--until")),
        HEADER + A.replace("|n0", "|z9"): ([], ("sacct.txt", "cluster")),
        "node,rack\n": ([], ("sacct.txt", "sacct --parsable2")),
    }
    for trace, (options, facts) in cases.items():
        (tmp_path / "sacct.txt").write_text(trace)
        ran = arnold("report", *files, *options)
        assert ran.code == 2
        assert says(ran.err, *facts, "To fix:")


X = f"1|x|ann|lab-a|{DAY}00:00:00|{DAY}00:00:00|{DAY}10:00:00|COMPLETED|1||gres/gpu=8|n0||\n"
Y = f"2|y|bob|lab-b|{DAY}01:00:00|{DAY}03:00:00|{DAY}07:00:00|COMPLETED|2||gres/gpu=16|n[1-2]|arnold: tp=8|24:00:00\n"
Z = f"3|z|bob|lab-b|{DAY}08:00:00|Unknown|Unknown|PENDING|2|gres/gpu=16||None assigned||01:00:00\n"


@pytest.fixture
def sound(arnold: Arnold, tmp_path: Path) -> list[str | Path]:
    """Four sound nodes in two racks: x on n0 throughout; y for four hours on two racks, after two hours of waiting; z
    waits, and may run for an hour.
    """
    (tmp_path / "four.csv").write_text("\n".join(["node,rack,gpus", *(f"n{i},r{i // 2},8" for i in range(4)), ""]))
    (tmp_path / "sacct.txt").write_text(HEADER.replace("\n", "|Comment|Timelimit\n") + X + Y + Z)
    given = ("--cluster", tmp_path / "four.csv", "--at", f"{DAY}10:00:00Z", "--output", tmp_path / "snapshot.json")
    assert arnold("snapshot", *given).code == 0
    return ["--cluster", tmp_path / "snapshot.json", "--trace", tmp_path / "sacct.txt", "--since", f"{DAY}00:00:00Z"]


def test_the_same_jobs_are_replayed(arnold: Arnold, sound: list[Any], tmp_path: Path) -> None:
    """In the replay y starts at once, on one rack, and z at once, for as long as it may: 16 of its GPU-hours are not
    sure.  Both had waited for two hours.
    """
    page = tmp_path / "page.html"
    ran = arnold("report", *sound, "--alpha", "0.5", "--json", "--html", page).json
    replay = ran["replay"]
    assert (replay["policy"], replay["unknown"], replay["least_used"]) == ("fifo-backfill", None, 144.0)
    hours = [{name: entry["gpu_hours"] for name, entry in of["hours"].items()} for of in (ran, replay["usage"])]
    # idle, y and z would fit: two of three nodes for two hours each time
    assert hours[0] == {"used": 144.0, "unusable": 0.0, "fragmented": 0.0, "passed_over": 64.0, "unwanted": 112.0}
    assert hours[1] == {"used": 160.0, "unusable": 0.0, "fragmented": 0.0, "passed_over": 0.0, "unwanted": 160.0}
    lost = [of["lost"]["spread"]["gpu_hours"] for of in (ran, replay["usage"])]
    assert lost == [pytest.approx(64 * (1 - 1 / (1 + 0.5 * DEFAULT_SPREAD_COST))), 0.0]
    waits = [{team["team"]: team["median_wait_seconds"] for team in of["teams"]} for of in (ran, replay["usage"])]
    assert waits == [{"lab-a": 0.0, "lab-b": 7200.0}, {"lab-a": 0.0, "lab-b": 0.0}]
    over_time = [of["over_time"] for of in (ran, replay["usage"])]
    for of, used, waiting in zip(over_time, (144.0, 160.0), (64.0, 0.0), strict=True):
        assert sum(of["used"]) * of["seconds"] / 3600 == pytest.approx(used)
        assert sum(of["waiting"]) * of["seconds"] / 3600 == pytest.approx(waiting)
    assert json_data(ReportDocument, read_json(ReportDocument, ran)) == ran
    # all that was, and that could have been, is drawn: six charts, two lines in each of the last two
    assert page.read_text().count('<svg class="chart') == 6
    assert says(arnold("report", *sound).out, "45.0%", "50.0%", "replay", "2 h")


def test_a_node_that_a_snapshot_has_as_faulty_is_not_given_out_in_the_replay(
    arnold: Arnold, sound: list[Any], tmp_path: Path
) -> None:
    """N3 is away until a snapshot of 07:30 has it again: y has n1 and n2 as it had, and z starts all the same."""
    (tmp_path / "flags.yaml").write_text("- {node: n3, kind: faulty}\n")
    early, late = tmp_path / "early.json", tmp_path / "late.json"
    for file, time, flags in ((early, "00:00:00", ("--flags", tmp_path / "flags.yaml")), (late, "07:30:00", ())):
        given = ("--cluster", tmp_path / "four.csv", "--at", f"{DAY}{time}Z", *flags, "--output", file)
        assert arnold("snapshot", *given).code == 0
    asked = (
        "--cluster",
        early,
        "--cluster",
        late,
        *sound[2:],
        "--until",
        f"{DAY}10:00:00Z",
        "--alpha",
        "0.5",
        "--json",
    )
    ran = arnold("report", *asked).json["replay"]["usage"]
    assert ran["hours"]["unusable"]["gpu_hours"] == 7.5 * 8
    assert ran["lost"]["spread"]["gpu_hours"] == pytest.approx(64 * (1 - 1 / (1 + 0.5 * DEFAULT_SPREAD_COST)))
    assert ran["hours"]["used"]["gpu_hours"] == 160.0


def test_what_cannot_be_replayed(arnold: Arnold, sound: list[Any], tmp_path: Path) -> None:
    """Where nothing says on which nodes a job was, or it was not asked for, it is said; a policy in rounds is none."""
    assert arnold("report", *sound, "--policy", "none", "--json").json["replay"]["usage"] is None
    (tmp_path / "sacct.txt").write_text(HEADER + X.replace("|n0||", "|") + Y.replace("|arnold: tp=8|24:00:00", ""))
    replay = arnold("report", *sound, "--json").json["replay"]
    assert replay["usage"] is None
    assert says(replay["unknown"], "NodeList")
    ran = arnold("report", *sound, "--policy", "gavel")
    assert ran.code == 2
    assert says(ran.err, "--policy gavel", "rounds", "To fix:")


def test_without_a_trace_jobs_are_those_that_snapshots_saw(arnold: Arnold, tmp_path: Path) -> None:
    """Namespaces of Kubernetes, whose jobs no accounting has: a of 8 GPUs began two hours before the first snapshot and
    was seen last in the second; b of 16 began an hour before the second and runs yet.  What waited is not known.
    """
    (tmp_path / "four.csv").write_text("\n".join(["node,rack,gpus", *(f"n{i},r{i // 2},8" for i in range(4)), ""]))
    a = f"{{name: red/a, account: red, nodes: n0, started: {DAY}00:00:00Z}}"
    b = f"{{name: blue/b, account: blue, nodes: 'n[1-2]', started: {DAY}05:00:00Z, parallelism: {{tp: 8}}}}"
    snapshots: list[str | Path] = []
    for hour, jobs in ((2, [a]), (6, [a, b]), (10, [b])):
        running, file = tmp_path / "running.yaml", tmp_path / f"{hour}.json"
        running.write_text(f"jobs: [{', '.join(jobs)}]\n")
        given = ("--cluster", tmp_path / "four.csv", "--running", running, "--at", f"{DAY}{hour:02}:00:00Z")
        assert arnold("snapshot", *given, "--output", file).code == 0
        snapshots += ["--cluster", file]
    ran = arnold("report", *snapshots, "--alpha", "0.5", "--json").json
    assert ran["gpu_hours"] == 32 * 8
    assert {team["team"]: team["gpu_hours"] for team in ran["teams"]} == {"blue": 16 * 5.0, "red": 8 * 4.0}
    assert ran["lost"]["spread"]["gpu_hours"] == pytest.approx(80 * (1 - 1 / (1 + 0.5 * DEFAULT_SPREAD_COST)))
    for entry in (ran["hours"]["fragmented"], ran["hours"]["unwanted"], ran["lost"]["restarts"], ran["replay"]):
        assert says(entry["unknown"], "--trace")
    assert (ran["over_time"]["waiting"], ran["teams"][0]["median_wait_seconds"]) == (None, None)
    early = arnold("report", *snapshots, "--since", f"{DAY}00:00:00Z")
    assert early.code == 2
    assert says(early.err, "--since", "--trace", "To fix:")


def test_clocks_that_differ(arnold: Arnold, sound: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot has x since midnight UTC, and the trace, printed two hours ahead, since two o'clock."""
    monkeypatch.setenv("TZ", "UTC")
    running = tmp_path / "running.txt"
    running.write_text(f"JobId=1 JobName=x JobState=RUNNING NodeList=n0 StartTime={DAY}00:00:00\n")
    given = ("--cluster", tmp_path / "four.csv", "--running", running, "--at", f"{DAY}10:00:00Z")
    assert arnold("snapshot", *given, "--output", tmp_path / "snapshot.json").code == 0
    assert arnold("report", *sound, "--json").code == 0
    (tmp_path / "sacct.txt").write_text(
        HEADER.replace("\n", "|Comment|Timelimit\n") + Y + X.replace("00:00:00", "02:00:00")
    )
    ran = arnold("report", *sound)
    assert ran.code == 2
    assert says(ran.err, "sacct.txt:3", "1 x", "00:00", "02:00", "TZ=UTC", "To fix:")
