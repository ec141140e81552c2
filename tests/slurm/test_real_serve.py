"""`arnold slurm serve` on a real Slurm: from a comment to ranks on their nodes, and killed at every step."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from slurm.serve import served
from tests.ports import free_port
from tests.real_slurm import DEADLINE, Install, RealSlurm, real_slurm
from tests.slurm.killed_daemon import STEPS, killed_at
from tests.slurm.made_slurm import GRID, NODES, TOPOLOGY

pytestmark = [pytest.mark.launchers, pytest.mark.xdist_group("launchers")]

ARNOLD = Path(sys.executable).with_name("arnold")

SCRIPT = """#!/bin/bash
#SBATCH --ntasks-per-node=2 --open-mode=append -t 5
cat {orders}/$SLURM_JOB_ID
srun sh -c 'echo rank $SLURM_PROCID $SLURMD_NODENAME'
sleep {seconds}
"""


@pytest.fixture(scope="module")
def made(install: Install, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """Eight nodes of two GPUs in two minipods, with the plug-in that lets jobs wait for their plan."""
    shared, folder = tmp_path_factory.getbasetemp(), tmp_path_factory.mktemp("slurm")
    # from 24.11 on Slurm has priority/multifactor unless it is told otherwise
    conf = "JobSubmitPlugins=lua\nPriorityFlags=ACCRUE_ALWAYS\n"
    with real_slurm(install, folder, NODES, TOPOLOGY, gpus=2, shared=shared, conf=conf) as slurm:
        yield slurm


@pytest.fixture
def slurm(made: RealSlurm) -> dict[str, str]:
    """The environment that leads to it, once its nodes are idle, and reservations of ours, which outlive jobs, gone."""
    for name in re.findall(r"ReservationName=(\S+)", made.run("scontrol", "show", "reservations")):
        made.tried("scontrol", "delete", f"ReservationName={name}")
    made.wait_for(len(NODES))
    return made.environment


def wait_until(holds: Callable[[], bool], slurm: dict[str, str]) -> None:
    """Wait until something holds; where it does not in time, fail with the log of the daemons."""
    end = monotonic() + DEADLINE
    while not holds():
        assert monotonic() < end, (Path(slurm["SLURM_CONF"]).parent / "log").read_text()[-3000:]
        sleep(0.2)


def asked(environment: dict[str, str], *words: str) -> str:
    """What a program of Slurm's prints; empty where it fails."""
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False).stdout


@contextmanager
def serving(slurm: dict[str, str], *words: str) -> Iterator[subprocess.Popen[str]]:
    """A daemon; ended by SIGTERM, after which it exits 0, if it has come so far as to look."""
    command = [str(ARNOLD), "slurm", "serve", *words]
    with subprocess.Popen(command, env=slurm, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as daemon:
        try:
            yield daemon
            daemon.terminate()
            assert daemon.wait(timeout=60) in (0, -signal.SIGTERM)
        finally:
            daemon.kill()


def submit(slurm: dict[str, str], folder: Path, *words: str, seconds: int = 0) -> str:
    """Submit a job that prints its order and where each rank is; return its number."""
    orders = Path(slurm["SLURM_CONF"]).parent / "share" / "orders"
    script = folder / f"train-{seconds}.sh"
    script.write_text(SCRIPT.format(orders=orders, seconds=seconds))
    command = ["sbatch", "--parsable", f"--output={folder}/%j.out", f"--error={folder}/%j.err", *words, str(script)]
    return subprocess.run(command, env=slurm, capture_output=True, text=True, check=True).stdout.strip()


def in_order(folder: Path, number: str) -> bool:
    """Whether a job ran once, every rank on the node that its order says; fails if a rank is missing or there twice."""
    lines = [line.split() for line in (folder / f"{number}.out").read_text().splitlines()]
    order, ranks = [line[0] for line in lines if len(line) == 1], [line[1:] for line in lines if len(line) == 3]
    assert sorted(int(rank) for rank, _ in ranks) == [*range(8)], lines
    return {int(rank): node for rank, node in ranks} == {i: order[i // 2] for i in range(8) if order}


def state_of(slurm: dict[str, str], number: str) -> str:
    """The state of a job."""
    found = re.search(r"JobState=(\w+)", asked(slurm, "scontrol", "show", "job", number))
    return found[1] if found else ""


def test_from_a_comment_to_ranks_on_their_nodes(slurm: dict[str, str], tmp_path: Path) -> None:
    """Two jobs of four nodes fill both minipods; one that cannot be read runs as it is, and a second daemon exits 1."""
    asks = f"--comment=arnold: {GRID}"
    with serving(slurm, "--reserve-from", "4") as daemon:
        numbers = [submit(slurm, tmp_path, "-N4", asks, seconds=2) for _ in range(2)]
        odd = submit(slurm, tmp_path, "-N4", "--comment=arnold: $(touch /tmp/hostile); `id`")
        forged = submit(slurm, tmp_path, "-N4", f"--comment=x\nJobId={numbers[0]} Comment=arnold: tp=1", "-J", "a\nb |")
        wait_until(lambda: state_of(slurm, odd) == state_of(slurm, forged) == "COMPLETED", slurm)
        second = subprocess.run([str(ARNOLD), "slurm", "serve"], env=slurm, capture_output=True, text=True, check=False)
        assert (second.returncode, f"process {daemon.pid} " in second.stderr) == (1, True)
        wait_until(lambda: all(state_of(slurm, number) == "COMPLETED" for number in numbers), slurm)
        said = asked(slurm, "scontrol", "show", "job", odd)
    assert all(in_order(tmp_path, number) for number in numbers)
    assert "arnold: refused: " in said
    assert not Path("/tmp/hostile").exists()
    assert not in_order(tmp_path, odd)  # Slurm's own ranks, each once


def test_killed_at_every_step_it_loses_no_job(slurm: dict[str, str], tmp_path: Path) -> None:
    """A job for each step at which a daemon dies, and jobs of others between: all run once, those that were planned in
    the order of their ranks; the others keep their comments and begins.
    """
    numbers, others = list[str](), list[str]()
    for step in STEPS:
        others.append(submit(slurm, tmp_path, "-N1", "--comment=of ours", "--begin=now+5"))
        others.append(submit(slurm, tmp_path, "-N1", "--hold"))
        numbers.append(submit(slurm, tmp_path, "-N4", f"--comment=arnold: {GRID}", seconds=1))
        command = killed_at(step, numbers[-1])
        killed = subprocess.run(command, env=slurm, capture_output=True, text=True, check=False, timeout=60)
        assert killed.returncode == -9, killed.stdout + killed.stderr
    with serving(slurm, "--reserve-from", "4"):
        # of a reservation whose job has ended the daemon lets go at once, and without one Slurm after a minute or two
        wait_until(lambda: all(state_of(slurm, number) == "COMPLETED" for number in numbers + others[::2]), slurm)
    assert [in_order(tmp_path, number) for number in numbers] == [True] * len(STEPS)
    assert [state_of(slurm, number) for number in others[1::2]] == ["PENDING"] * len(STEPS)
    assert all("Comment=of ours" in asked(slurm, "scontrol", "show", "job", number) for number in others[::2])
    subprocess.run(["scancel", *others[1::2]], env=slurm, check=True)


def test_without_a_daemon_the_begin_comes(slurm: dict[str, str], tmp_path: Path) -> None:
    """A job that was to wait for its plan begins in ten minutes at the latest, by Slurm itself; what its user said is
    kept in the comment.
    """
    number = submit(slurm, tmp_path, "-N4", f"--comment=arnold: {GRID}", "--begin=now+1hour")
    shown = asked(slurm | {"SLURM_TIME_FORMAT": "%s"}, "squeue", "-h", "-j", number, "-o", "%S %V %k")
    begin, submitted, _, grid = shown.split()
    assert int(begin) - int(submitted) == pytest.approx(3600 + 600, abs=2)
    assert int(grid.partition("begin=")[2]) == int(begin) - 600
    subprocess.run(["scontrol", "update", f"JobId={number}", "StartTime=now"], env=slurm, check=True)
    wait_until(lambda: state_of(slurm, number) == "COMPLETED", slurm)
    assert not in_order(tmp_path, number)


def test_what_waits_is_listed_and_explained(slurm: dict[str, str], tmp_path: Path) -> None:
    """All is well with this Slurm; a job that does not fit is left to the daemon, which plans it when there is room."""

    def arnold(*words: str) -> Any:
        command = [str(ARNOLD), "slurm", *words, "--json"]
        return json.loads(subprocess.run(command, env=slurm, capture_output=True, text=True, check=True).stdout)

    assert [check["what"] for check in arnold("check")["checks"] if not check["ok"]] == []
    blocker = submit(slurm, tmp_path, "-N6", "--exclusive", seconds=200)
    wait_until(lambda: state_of(slurm, blocker) == "RUNNING", slurm)
    script = tmp_path / "train-1.sh"
    submit(slurm, tmp_path, "-N1", "--hold", seconds=1)  # writes the script
    words = ["--grid", GRID, "--parsable", f"--output={tmp_path}/%j.out", str(script)]
    command = [str(ARNOLD), "slurm", "submit", *words]
    assert subprocess.run(command, env=slurm, capture_output=True, check=False).returncode == 3
    with serving(slurm, "--policy", "priority-age"):
        wait_until(lambda: served(Path(slurm["SLURM_CONF"]).parent / "share" / "orders") is not None, slurm)
        number = subprocess.run(command, env=slurm, capture_output=True, text=True, check=True).stdout.strip()
        explained = arnold("explain", number)
        assert (explained["plan"], explained["could_have"], explained["free"]) == ("asked", 8, 2)
        small = submit(slurm, tmp_path, "-N2", "--comment=arnold: tp=2,dp=2", "-t1")
        # by priority-backfill, which is served unless said otherwise, the two free nodes would be its
        assert f"job {number} is before it" in arnold("explain", small)["reason"]
        rows = {row["job"]: row for row in arnold("queue")["jobs"]}
        assert (rows[blocker]["plan"], rows[number]["grid"]) == (None, GRID)
        asked(slurm, "scancel", blocker)
        wait_until(lambda: state_of(slurm, number) == state_of(slurm, small) == "COMPLETED", slurm)
    assert in_order(tmp_path, number)
    asked(slurm, "scancel", "--state=PENDING", "--user=root")


def test_a_lost_node_is_planned_around(slurm: dict[str, str], tmp_path: Path) -> None:
    """A foreign job takes a node of a plan before Slurm starts it: the job waits again, and is planned on others."""
    with serving(slurm):
        blocker = submit(slurm, tmp_path, "-N4", "-n8", "-w", "n[01-04]", seconds=4)
        wait_until(lambda: state_of(slurm, blocker) == "RUNNING", slurm)
        number = submit(slurm, tmp_path, "-N4", f"--comment=arnold: {GRID}", seconds=1)
        wait_until(lambda: state_of(slurm, number) == "COMPLETED", slurm)
    assert in_order(tmp_path, number)
    nodes = {line.split()[2] for line in (tmp_path / f"{number}.out").read_text().splitlines() if "rank" in line}
    assert nodes == {"n05", "n06", "n07", "n08"}


def test_a_slurm_that_is_away_is_asked_again(slurm: dict[str, str], tmp_path: Path) -> None:
    """Nothing is written, and the daemon neither ends nor asks in a hurry: 1 s, then 2 s, then 4 s."""
    shutil.copytree(Path(slurm["SLURM_CONF"]).parent / "share", tmp_path / "share")
    conf = Path(slurm["SLURM_CONF"]).read_text()
    (tmp_path / "slurm.conf").write_text(re.sub(r"SlurmctldPort=\d+", "SlurmctldPort=1", conf))
    orders = tmp_path / "share" / "orders"
    before = {*orders.iterdir()}
    with serving(slurm | {"SLURM_CONF": str(tmp_path / "slurm.conf")}, "--orders", str(orders)) as daemon:
        assert daemon.stdout is not None
        said = next(line for line in iter(daemon.stdout.readline, "") if "asked again" in line)
    assert "asked again in 1 s" in said
    assert {file.name for file in orders.iterdir()} - {file.name for file in before} <= {".serve.lock"}


def test_the_page_shows_what_runs_and_what_waits(slurm: dict[str, str], tmp_path: Path) -> None:
    """A job on four nodes has them on the page, one that asks for all eight waits there with its reason; SIGTERM ends
    the page with exit 0.
    """
    running = submit(slurm, tmp_path, "-N4", "-J", "first", seconds=60)
    wait_until(lambda: state_of(slurm, running) == "RUNNING", slurm)
    waiting = submit(slurm, tmp_path, "-N8", "-J", "second", "--comment=arnold: tp=2,dp=4,pp=2")
    command = [str(ARNOLD), "slurm", "page", "--bind", f"127.0.0.1:{(port := free_port())}"]
    rows: dict[str, dict[str, list[Any]]] = {"placed": {}, "waiting": {}, "nodes": {}, "state": {}}
    with subprocess.Popen(command, env=slurm, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as page:
        try:
            assert page.stdout is not None
            assert f"http://127.0.0.1:{port}/" in page.stdout.readline()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/events", timeout=DEADLINE) as events:
                while not (rows["placed"] and rows["waiting"]):
                    line = events.readline()
                    if line.startswith(b"data: "):
                        for table, some in json.loads(line[6:])["rows"].items():
                            rows.setdefault(table, {}).update(some)
            page.terminate()
            assert page.wait(timeout=60) == 0
        finally:
            page.kill()
            asked(slurm, "scancel", running, waiting)
    assert rows["state"]["lost"] == [""]
    assert [*rows["placed"]] == [f"{running} first"]
    assert sum(number > 0 for number, *_ in rows["nodes"].values()) == 4
    phase, why, *_ = rows["waiting"][f"{waiting} second"]
    assert phase == "PENDING (asked)"
    assert "8 nodes" in why
