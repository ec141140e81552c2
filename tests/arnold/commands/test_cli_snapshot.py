"""`arnold snapshot`: one file that stands for the cluster, its jobs and its time before every command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arnold.commands.command_table import arnold as root
from arnold.documents.snapshot_answer import SnapshotDocument
from ground.records import json_data, read_json
from tests.arnold.commands.test_cli_repeated_options import leaves
from tests.facts import says

Arnold = Callable[..., Any]

AT = "2026-11-29T01:30:00Z"
JOBS = 'jobs: [{name: a, nodes: "n[0-2]", ends: 2026-11-29T05:00:00Z}, {name: b, nodes: "n[3-4]", gpus: 4}]\n'
SWITCHES = "SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n[4-7]\nSwitchName=top Switches=s[0-1]\n"


@pytest.fixture
def files(tmp_path: Path) -> list[str | Path]:
    """Eight nodes below two switches: n5 down, n6 slow, n7 in use by nobody known, jobs on n0 to n4."""
    texts = {
        "topology.conf": SWITCHES,
        "nodes.txt": "".join(f"n{i} {'down' if i == 5 else 'idle'} gpu:8\n" for i in range(8)),
        "busy.txt": "n7\n",
        "flags.yaml": "- {node: n6, slowdown: 1.3}\n",
        "jobs.yaml": JOBS,
        "job.yaml": "{name: new, parallelism: {tp: 8, dp: 2, pp: 2}, gpus_per_node: 8, alpha: 0.5}\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    given = [*("--busy", tmp_path / "nodes.txt"), *("--busy", tmp_path / "busy.txt"), "--level-names", "top,leaf"]
    return ["--cluster", tmp_path / "topology.conf", *given, "--flags", tmp_path / "flags.yaml", "--at", AT]


@pytest.fixture
def snapshot(arnold: Arnold, files: list[Any], tmp_path: Path) -> Path:
    """The snapshot of all that."""
    file = tmp_path / "snapshot.json"
    assert arnold("snapshot", *files, "--running", tmp_path / "jobs.yaml", "--output", file).code == 0
    return file


def test_a_snapshot_says_what_the_files_say(arnold: Arnold, files: list[Any], snapshot: Path, tmp_path: Path) -> None:
    """The same answer with the same options as from the files, at the time of the snapshot, with its jobs."""
    job = tmp_path / "job.yaml"
    asked = ("explain", "--job", job, "--when", "--json")
    of_files = arnold(*asked, *files, "--running", tmp_path / "jobs.yaml").json
    of_snapshot = arnold(*asked, "--cluster", snapshot).json
    assert of_snapshot["start"] == of_files["start"]
    assert of_snapshot["later"] == of_files["later"]
    # a: three nodes of 8; b: two of 4, so 4 GPUs of n3 and n4 are free, and none of n7, which somebody has
    free = arnold("topology", "validate", snapshot, "--json").json
    assert (free["format"], free["cluster"]["free"], [level["name"] for level in free["levels"]]) == (
        "snapshot",
        1,
        ["top", "leaf"],
    )
    assert says(arnold("place", "--cluster", snapshot, "--job", job).out, "4", "1")


def test_its_document_has_states_and_jobs(arnold: Arnold, snapshot: Path) -> None:
    """Without --output it is shown; a file is a snapshot of itself."""
    shown = arnold("snapshot", "--cluster", snapshot, "--json").json
    assert (shown["time"], shown["changes"]) == (AT, None)
    # n0 to n2 and n7 in use, n3 and n4 in part, n5 down, n6 slow by 1.3
    assert shown["states"] == {"partly busy": 2, "busy": 4, "slow (1.2x to 1.5x)": 1, "faulty": 1}
    assert [(job["name"], job["gpus"], job["ends"]) for job in shown["jobs"]] == [
        ("a", 24, "2026-11-29T05:00:00Z"),
        ("b", 8, None),
    ]
    assert json_data(SnapshotDocument, read_json(SnapshotDocument, shown)) == shown


def test_two_snapshots_are_compared(arnold: Arnold, files: list[Any], snapshot: Path, tmp_path: Path) -> None:
    """Job a has ended, b moved to n4 and n6, c came on n0; n1 to n3 are free, n6 is in part b's and slow yet."""
    jobs = tmp_path / "later.yaml"
    jobs.write_text('jobs: [{name: b, nodes: "n[4,6]", gpus: 4}, {name: c, nodes: n0}]\n')
    ran = arnold("snapshot", *files, "--running", jobs, "--against", snapshot, "--json").json["changes"]
    changed = {node["node"]: (node["before"], node["after"]) for node in ran["nodes"]}
    assert changed == {"n1": ("busy", "free"), "n2": ("busy", "free"), "n3": ("partly busy", "free")}
    assert ([job["name"] for job in ran["came"]], [job["name"] for job in ran["ended"]]) == (["c"], ["a"])
    assert ran["moved"] == [{"name": "b", "before": ["n3", "n4"], "after": ["n4", "n6"]}]
    # neither says anything of reservations
    assert ran["reservations_came"] is None


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"version": 2}, ("snapshot.json:3", "version 2", "To fix:")),
        ({"utc_offset": 86400}, ("snapshot.json:5", "utc_offset", "To fix:")),
        ({"time": "yesterday"}, ("snapshot.json:4", "time", "To fix:")),
        ({"surprise": 1}, ("snapshot.json", "surprise", "To fix:")),
    ],
)
def test_what_is_no_snapshot_that_can_be_read(
    arnold: Arnold, snapshot: Path, tmp_path: Path, change: dict[str, Any], facts: tuple[str, ...]
) -> None:
    """A newer version is named as such; each error has its line."""
    snapshot.write_text(json.dumps(json.loads(snapshot.read_text()) | change, indent=1))
    ran = arnold("topology", "validate", snapshot)
    assert ran.code == 2
    assert says(ran.err, *facts)


def test_local_times_are_those_of_the_machine_that_printed_them(
    arnold: Arnold, files: list[Any], tmp_path: Path
) -> None:
    """Slurm prints no offset: 10:00 two hours ahead of UTC is 08:00 in UTC, wherever the snapshot is read."""
    jobs, file = tmp_path / "jobs.txt", tmp_path / "snapshot.json"
    jobs.write_text("JobId=1 JobName=a JobState=RUNNING NodeList=n0 StartTime=2026-11-28T10:00:00\n")
    assert arnold("snapshot", *files, "--running", jobs, "--output", file).code == 0
    file.write_text(json.dumps(json.loads(file.read_text()) | {"utc_offset": 7200}))
    assert arnold("snapshot", "--cluster", file, "--json").json["jobs"][0]["started"] == "2026-11-28T08:00:00Z"


def test_a_job_that_starts_in_the_future_shows_that_clocks_differ(
    arnold: Arnold, files: list[Any], tmp_path: Path
) -> None:
    """It cannot run since an hour that is to come: file and line, and how to say of which time zone the times are."""
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text("jobs:\n- {name: a, nodes: n0, started: 2026-11-29T03:30:00Z}\n")
    ran = arnold("snapshot", *files, "--running", jobs)
    assert ran.code == 2
    assert says(ran.err, "jobs.yaml:2", "'a'", "--at", "To fix:")


def test_half_a_node_is_free_when_its_jobs_are_known(arnold: Arnold, files: list[Any], tmp_path: Path) -> None:
    """Slurm calls n0 mixed: a job has 4 of its GPUs, so the others are free; of n1, mixed too, no job is known."""
    (tmp_path / "nodes.txt").write_text("".join(f"n{i} {'mix' if i < 2 else 'idle'} gpu:8\n" for i in range(8)))
    jobs = tmp_path / "jobs.txt"
    jobs.write_text("JobId=1 JobName=a JobState=RUNNING NodeList=n0 JOB_GRES=gpu:4\n")
    ran = arnold("snapshot", *files, "--running", jobs, "--json").json
    # n0 in part, n1 and n7 in use, n6 slow
    assert ran["states"] == {"free": 4, "partly busy": 1, "busy": 2, "slow (1.2x to 1.5x)": 1}
    assert says(ran["notes"], "no job", "2", "n1", "n7")


ON_SNAPSHOT = {
    "place": "--job job.yaml",
    "explain": "--job job.yaml --when",
    "kube explain": "--job job.yaml --when",
    "kube place": "-f job.yaml",
    "compare": "--job job.yaml --algorithm gpu-packing",
    "verify": "proof.json job.yaml",
    "score": "--all",
    "kube score": "--all",
    "repair": "--placement placed.json --lost n4",
    "defragment": "--job job.yaml --running placed.json",
    "topology convert": "--to csv",
    "topology show": "",
    "topology validate": "",
    "snapshot": "",
    "health backups": "--placement placed.json",
    "health look": "logs",
    "health pairs plan": "",
    "health pairs read": "pairs.csv",
    "flags record": "--store store.db --yes",
    "flags show": "--store store.db --capacity",
    "simulate": "--trace jobs.csv",
    "report": "--trace sacct.txt",
    "capacity spares": "--nodes 4 --failure-domain rack --draws 10 --runs 2 --days 10",
    "capacity reserve": "--grid 8x1x2 --workloads 1 --policy fifo-backfill",
    "capacity fragmentation": "--shape 2x1",
    "capacity grow": "--draws 10 --days 1 --quarters 1",
    "capacity power": "--grid 8x1x2 --draws 10",
}
"""Commands with a cluster, and what else they are asked; `watch` asks a live one alone."""


def test_every_command_with_a_cluster_takes_a_snapshot(
    arnold: Arnold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that are yet to come: whoever adds one adds it here."""
    reading = {
        " ".join(words)
        for words, command in leaves(root)
        for param in command.params
        if "--cluster" in param.opts or param.opts == ["cluster"]
    }
    assert reading - {"watch"} == {*ON_SNAPSHOT}
    monkeypatch.chdir(tmp_path)
    day = "2026-11-28T"
    texts = {
        "eight.csv": "node,pod,rack,gpus\n" + "".join(f"n{i},p{i // 4},r{i // 2},8\n" for i in range(8)),
        "running.yaml": 'jobs: [{name: a, nodes: "n[0-1]", parallelism: {tp: 8}}]\n',
        "job.yaml": "parallelism: {tp: 8, dp: 2}\n",
        "pairs.csv": "node_a,node_b,busbw_gbs\n" + "".join(f"n{i},n{i + 4},380\n" for i in range(4)),
        "jobs.csv": "job_id,submit_time,duration,gpus\na,0,60,8\n",
        "sacct.txt": "JobID|Submit|Start|End|State|NNodes|AllocTRES|NodeList\n"
        f"1|{day}00:00:00|{day}00:00:00|{day}05:00:00|COMPLETED|2|gres/gpu=16|n[0-1]\n",
    }
    Path("logs").mkdir()
    texts["logs/pairs.csv"] = texts["pairs.csv"]
    for name, text in texts.items():
        Path(name).write_text(text)
    given = ("--cluster", "eight.csv", "--running", "running.yaml", "--at", "2026-11-29", "--output", "snapshot.json")
    assert arnold("snapshot", *given).code == 0
    on_snapshot = ("--cluster", "snapshot.json", "--job", "job.yaml")
    assert arnold("place", *on_snapshot, "--output", "placed.json", "--certificate", "proof.json").code == 0
    for name, words in ON_SNAPSHOT.items():
        file = ("snapshot.json",) if name.startswith("topology") else ("--cluster", "snapshot.json")
        ran = arnold(*name.split(), *file, *words.split())
        assert ran.code == 0, f"{name}: {ran.err}"
