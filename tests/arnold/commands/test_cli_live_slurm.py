"""``--cluster slurm:``: the Slurm that ``scontrol`` reaches, by what the real program prints."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm.ask import ANSWER_SECONDS
from tests.facts import says

Arnold = Callable[..., Any]

TOPOLOGY = """\
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n01,n02
SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n03,n04,n05
SwitchName=top Level=1 LinkSpeed=1 Nodes=n[01-05] Switches=s1,s2
"""
"""What ``scontrol show topology`` of Slurm 22.05.8 printed of a made cluster."""

NODE = (
    "NodeName={name} Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=4 CPUTot=4 CPULoad=2.18 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:h100:2 NodeAddr=127.0.0.1 NodeHostName=localhost "
    "Port=27821 Version=22.05.8 OS=Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=1 AllocMem=0 FreeMem=18873 "
    "Sockets=4 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions={in_} "
    "BootTime=2026-11-22T10:25:17 SlurmdStartTime=2026-11-23T03:17:36 LastBusyTime=2026-11-23T03:17:36 "
    "CfgTRES=cpu=4,mem=1M,billing=4 AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s "
    "ExtSensorsWatts=0 ExtSensorsTemp=n/s{reason}\n"
)
"""A line of its ``scontrol --all --future --oneliner show nodes``."""

STATES = {"n01": "IDLE", "n02": "IDLE", "n03": "IDLE", "n04": "IDLE", "n05": "IDLE"}


PARTITIONS = """\
PartitionName=all AllowAccounts=ALL Default=YES DefaultTime=NONE MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=n[01-05] \
State=UP
PartitionName=hidden AllowAccounts=ALL Default=NO DefaultTime=NONE MaxNodes=1 MaxTime=01:00:00 Nodes=n[03-04] State=UP
"""


def slurm_with(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    states: dict[str, str],
    topology: str = TOPOLOGY,
    *,
    partitions: str = PARTITIONS,
    reservations: str = "No reservations in the system\n",
) -> None:
    """Put a ``scontrol`` on PATH that prints these; the one of a drained node explains itself in strange words.

    There is no ``squeue``, and ``scontrol show config`` fails: Slurm is read all the same.
    """
    (folder / "partitions.txt").write_text(partitions)
    (folder / "reservations.txt").write_text(reservations)
    nodes = "".join(
        NODE.format(name=name, state=state, in_="all,hidden" if name in ("n03", "n04") else "all", reason=reason)
        for name, state in states.items()
        for reason in [" Reason=fan State=IDLE NodeName=n99 [root@2026-11-23T03:19:00]" if "DRAIN" in state else ""]
    )
    (folder / "topology.txt").write_text(topology)
    (folder / "nodes.txt").write_text(nodes)
    scontrol(
        folder,
        monkeypatch,
        f'case "$*" in\n'
        f'"show topology"*) echo "$*" >> {folder}/asked.txt; cat {folder}/topology.txt ;;\n'
        f'"--all --oneliner show partitions") cat {folder}/partitions.txt ;;\n'
        f'"--oneliner show reservations") cat {folder}/reservations.txt ;;\n'
        f'"--all --oneliner --details show jobs") cat {folder}/jobs.txt ;;\n'
        f'"--all --future --oneliner show nodes") cat {folder}/nodes.txt ;;\n'
        f'*) echo "asked for $*" >&2; exit 9 ;;\nesac',
    )


def scontrol(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a shell script of that name on PATH, before all others."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "scontrol").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Two replicas of one node each."""
    file = tmp_path / "pair.yaml"
    file.write_text("parallelism: {tp: 2, dp: 2}\n")
    return file


def test_a_placement_takes_what_is_free_now(
    arnold: Arnold, tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """n02 is drained and n05 not there yet, so the pair lies below s2 on n03 and n04; then n04 gets a job, and it has
    to lie below both switches: with one stage Eq. 2 at alpha 0.3 is 0.3 x 2 + 0.7 x 1 = 1.3.
    """
    slurm_with(tmp_path, monkeypatch, {**STATES, "n02": "IDLE+DRAIN", "n05": "FUTURE"})
    found = arnold("place", "--cluster", "slurm:", "--job", job, "--json").json
    assert (found["status"], found["spread"]) == ("optimal", {"dp": 1, "pp": 1})
    assert {cell["node"] for cell in found["assignment"]} == {"n03", "n04"}
    assert found["cluster"]["source"] == "scontrol show topology"
    assert found["cluster"]["gpu_types"] == {"h100": 5}
    slurm_with(tmp_path, monkeypatch, {**STATES, "n02": "IDLE+DRAIN", "n04": "MIXED", "n05": "FUTURE"})
    found = arnold("place", "--cluster", "slurm:", "--job", job, "--json").json
    assert {cell["node"] for cell in found["assignment"]} == {"n01", "n03"}
    assert found["objective"] == pytest.approx(1.3)


def test_every_command_with_a_cluster_reads_it(
    arnold: Arnold, tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is opened in one place: `explain`, `topology`, and what is given by hand lies over it as over a file."""
    slurm_with(tmp_path, monkeypatch, STATES)
    busy = tmp_path / "busy.txt"
    busy.write_text("n[03-05]\n")
    explained = arnold("explain", "--cluster", "slurm:", "--busy", busy, "--job", job, "--json").json
    assert explained["objective"] == 1.0
    shown = arnold("topology", "validate", "slurm:", "--busy", busy, "--json").json
    assert (shown["cluster"]["nodes"], shown["cluster"]["free"], shown["format"]) == (5, 2, "slurm-conf")
    assert any(note.startswith("scontrol show nodes: 5 (idle 5) free") for note in shown["notes"])


def test_it_is_asked_for_its_jobs_where_they_are_needed(
    arnold: Arnold, tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four of five nodes are a job's until 12 o'clock, when the pair starts; so says a snapshot of it as well."""
    slurm_with(tmp_path, monkeypatch, {name: "IDLE" if name == "n05" else "ALLOCATED" for name in STATES})
    (tmp_path / "jobs.txt").write_text(
        "JobId=7 JobName=a UserId=ann(1) Priority=1 Account=lab JobState=RUNNING NodeList=n[01-04] NumNodes=4 "
        "JOB_GRES=gpu:h100:8 StartTime=1764331200 TimeLimit=01:00:00\n"
    )
    # 2025-11-28T12:00:00Z, when the job starts, and half an hour later
    asked = ("--cluster", "slurm:", "--at", "2025-11-28T12:30:00Z")
    start = arnold("explain", *asked, "--job", job, "--when", "--json").json["start"]
    assert start["earliest"] == "2025-11-28T12:30:00Z"
    assert start["p90"] < "2025-11-28T13:00:00Z"
    shown = arnold("snapshot", *asked, "--output", tmp_path / "s.json", "--json").json["jobs"]
    assert [(run["name"], run["owner"], run["group"], run["gpus"]) for run in shown] == [("7 a", "ann", "lab", 8)]
    assert arnold("explain", "--cluster", tmp_path / "s.json", "--job", job, "--when", "--json").json["start"] == start


@pytest.mark.parametrize(
    ("script", "said", "fix"),
    [
        ("echo 'slurm_load_node error: Unable to contact slurm controller' >&2; exit 1", "Unable to contact", "ping"),
        ("exit 3", "ended with 3", "ping"),
        ("true", "Slurm lists no nodes", "sinfo"),
        (
            'case "$*" in *nodes) echo NodeName=n1 State=IDLE ;; *) echo \'scontrol: error: No topology information '
            "available' >&2 ;; esac",
            "Slurm gives no topology: scontrol: error: No topology information available",
            "topology/tree",
        ),
    ],
)
def test_a_slurm_that_does_not_say(
    arnold: Arnold, tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch, *, script: str, said: str, fix: str
) -> None:
    """What scontrol complains of is repeated, with the question and a way out: exit 2, the code of bad input."""
    scontrol(tmp_path, monkeypatch, script)
    ran = arnold("place", "--cluster", "slurm:", "--job", job, "--json")
    error = ran.json["error"]
    assert (ran.code, error["kind"]) == (2, "SlurmRefused")
    assert said in error["message"]
    assert error["where"].startswith("scontrol show ")
    assert fix in error["fix"]


def test_no_scontrol_or_one_that_hangs(
    arnold: Arnold, tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No program of that name, a file that is no program, and one from which no answer comes in time."""

    def error() -> dict[str, str]:
        found: dict[str, str] = arnold("place", "--cluster", "slurm:", "--job", job, "--json").json["error"]
        return found

    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not on PATH" in error()["message"]
    assert "--cluster topology.conf" in error()["fix"]
    scontrol(tmp_path, monkeypatch, "true")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin" / "scontrol").write_bytes(b"\x7fELF")
    assert "cannot be started" in error()["message"]

    def late(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("scontrol", ANSWER_SECONDS)

    monkeypatch.setattr(subprocess, "run", late)
    assert error()["message"] == "no answer within 60 s"


def test_what_a_live_cluster_has_not(arnold: Arnold, job: Path) -> None:
    """A format is that of a file, nothing stands behind ``slurm:``, and Slurm names its own levels."""
    ran = arnold("place", "--cluster", "slurm:", "--format", "csv", "--job", job)
    assert ran.code == 2
    assert says(ran.err.splitlines()[0], "Error:", "--format", "slurm:", "live cluster")
    assert "nothing follows slurm:" in arnold("place", "--cluster", "slurm:old", "--job", job).err


def test_a_file_of_that_name(arnold: Arnold, tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a path it is a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slurm:").write_text("node,rack,gpus\na,r,2\nb,r,2\n")
    assert arnold("place", "--cluster", "./slurm:", "--job", job).code == 0


def test_a_partition_is_asked_for_its_limits_and_its_topology(
    arnold: Arnold, tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In `hidden` a job may have one node, so that a pair does not fit there; and it has a topology of its own."""
    partitions = PARTITIONS.replace("State=UP", "Topology=fabric State=UP")
    partitions = partitions.replace("Nodes=n[03-04] Topology=fabric", "Nodes=n[03-04] Topology=nvl")
    slurm_with(tmp_path, monkeypatch, STATES, partitions=partitions)
    ran = arnold("explain", "--cluster", "slurm:", "-p", "hidden", "--job", job, "--json")
    assert (ran.code, ran.json["status"]) == (3, "infeasible")
    limit = "the job has 2 nodes, and may have 1 (MaxNodes of the partition hidden)"
    assert (ran.json["diagnosis"]["constraint"], ran.json["diagnosis"]["reason"]) == ("nodes", limit)
    assert says(ran.json["notes"], "the topology", "nvl")
    assert (tmp_path / "asked.txt").read_text() == "show topology nvl\n"


def test_every_option_of_slurm_counts(
    arnold: Arnold, tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """n01 is excluded, n03 and n04 are reserved for two years, so two of five nodes are free; with the reservation, the
    two that it holds.
    """
    reservation = (
        "ReservationName=ours StartTime=2026-01-01T00:00:00 EndTime=2999-01-01T00:00:00 Duration=UNLIMITED "
        "Nodes=n[03-04] NodeCnt=2 Users=ann State=ACTIVE\n"
    )
    slurm_with(tmp_path, monkeypatch, STATES, reservations=reservation)
    placed = arnold("place", "--cluster", "slurm:", "-x", "n01", "-t", "1-12", "--job", job, "--json").json
    assert {cell["node"] for cell in placed["assignment"]} == {"n02", "n05"}
    placed = arnold("place", "--cluster", "slurm:", "--reservation", "ours", "--job", job, "--json").json
    assert {cell["node"] for cell in placed["assignment"]} == {"n03", "n04"}
