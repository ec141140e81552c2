"""What ``arnold slurm serve`` costs, and how soon it plans: on a real controller with the nodes of a large cluster.

The 10,000 nodes of the first part have no slurmd: the controller answers for them as for any that are down.  Scripts
before the programs of Slurm on PATH count the calls.  Processor time is of the daemon and of all that it starts; the
first minute, in which it starts and looks, does not count, and later looks do: one in five minutes at least.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from benchmarks.report import promises, section
from tests.real_slurm import Install, RealSlurm, real_slurm

NODES, JOBS = 10_000, 1_000
ARNOLD = str(Path(sys.executable).with_name("arnold"))
CLIENTS = ("scontrol", "squeue", "sdiag", "sinfo")
SMALL = tuple(f"n{i:02}" for i in range(1, 9))
SWITCHES = "SwitchName=mp0 Nodes=n[01-04]\nSwitchName=mp1 Nodes=n[05-08]\nSwitchName=top Switches=mp[0-1]\n"
START = 60.0  # seconds until it has looked once
GRID = "--comment=arnold: tp=2,dp=2,pp=2"


def report(install: Install, *, seconds: float, rounds: int) -> str:
    """Return the promises beside what was measured.

    :param seconds: for which the idle daemon is watched.
    :param rounds: jobs that wait for room, one after another.
    """
    share, calls = idle(install, seconds)
    waits = room(install, rounds)
    many, took = f"{JOBS:,} jobs wait, {NODES:,} nodes", f"median {median(waits):.1f} s, most {max(waits):.1f} s"
    lines = [
        (f"idle, {many}: below 1 % of a core", f"{100 * share:.2f} %", share < 0.01),
        ("at most five calls a pass", f"{calls:.2g} a pass", calls <= 5),
        ("planned within 2 s of room", took, max(waits) <= 2),
    ]
    return section(f"arnold slurm serve on Slurm {install.version}", promises(*lines))


def idle(install: Install, seconds: float) -> tuple[float, float]:
    """Return the share of a core that an idle daemon takes, and the calls of a pass; the topology is asked once."""
    leaves = [f"SwitchName=s{i:03} Nodes=n[{100 * i + 1:05}-{100 * i + 100:05}]" for i in range(NODES // 100)]
    topology = "\n".join(
        [*leaves, f"SwitchName=top Switches=s[000-{NODES // 100 - 1:03}],sx", "SwitchName=sx Nodes=x1", ""]
    )
    conf = (
        f"NodeName=n[00001-{NODES:05}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[33001-{33000 + NODES}]"
        " CPUs=16 Gres=gpu:8 State=DOWN\nMaxJobCount=20000\n"
    )
    with TemporaryDirectory(prefix="slurm") as name:
        folder = Path(name)
        with real_slurm(install, folder, ("x1",), topology, gpus=8, conf=conf) as slurm:
            script = folder / "job.sh"
            script.write_text("#!/bin/sh\ntrue\n")
            asks = "--comment=arnold: tp=8,dp=16,pp=8"
            for _ in range(JOBS):
                slurm.run("sbatch", "--parsable", "-N128", "-t60", "--begin=now+10hours", asks, script)
            log = folder / "calls"
            spent = _served(slurm, folder, log, seconds)
            counts = Counter(log.read_text().split())
    asked = sum(counts[f"scontrol-{what}"] for what in ("nodes", "partitions", "reservations"))
    # each look asks for the jobs once, and sdiag before it
    return spent / seconds, asked / counts["squeue"] + 2


def _served(slurm: RealSlurm, folder: Path, log: Path, seconds: float) -> float:
    """Serve; return the processor time of the daemon and of what it started in some seconds, its start left out."""
    counting = folder / "counting"
    counting.mkdir(exist_ok=True)
    for client in CLIENTS:
        file = counting / client
        word = "-$last" if client == "scontrol" else ""
        text = f'for last; do :; done\necho {client}{word} >>"{log}"\nexec {slurm.program(client)} "$@"\n'
        file.write_text(f"#!/bin/sh\n{text}")
        file.chmod(0o755)
    log.write_text("")
    environment = slurm.environment | {"PATH": f"{counting}{os.pathsep}{slurm.environment['PATH']}"}
    with _daemon(environment, folder) as daemon:
        sleep(START)
        begin = _spent(daemon.pid)
        sleep(seconds)
        return _spent(daemon.pid) - begin


def _spent(process: int) -> float:
    """Return the processor time of a process and of what it started and has ended, in seconds; see proc_pid_stat(5)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def room(install: Install, rounds: int) -> list[float]:
    """Return for each job that waits for nodes how long after they were free it had its plan, in seconds."""
    waits = []
    with TemporaryDirectory(prefix="slurm") as name:
        folder = Path(name)
        with real_slurm(install, folder, SMALL, SWITCHES, gpus=2) as slurm, _daemon(slurm.environment, folder):
            script = folder / "job.sh"
            script.write_text("#!/bin/sh\nsleep 600\n")
            common = ["--parsable", "--gpus-per-node=2", "-t60", "-o", "/dev/null"]
            for _ in range(rounds):
                slurm.wait_for(len(SMALL))
                blocker = slurm.run("sbatch", *common, f"-N{len(SMALL)}", script).strip()
                _until(slurm, blocker, r"JobState=RUNNING")
                job = slurm.run("sbatch", *common, "-N4", "--begin=now+10minutes", GRID, script).strip()
                sleep(8)  # it is seen, and has no room
                slurm.run("scancel", blocker)
                _until(slurm, blocker, r"JobState=CANCELLED")
                slurm.wait_for(len(SMALL))
                waits.append(_until(slurm, job, r"ReqNodeList=n"))
                slurm.run("scancel", job)
    return waits


@contextmanager
def _daemon(environment: dict[str, str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (
        (folder / "served").open("w") as out,
        subprocess.Popen([ARNOLD, "slurm", "serve"], env=environment, stdout=out, stderr=out) as daemon,
    ):
        try:
            yield daemon
        finally:
            daemon.terminate()


def _until(slurm: RealSlurm, job: str, pattern: str) -> float:
    """Wait until Slurm shows something of a job; return how long that took, in seconds."""
    begin = monotonic()
    while not re.search(rf"\b{pattern}", slurm.run("scontrol", "show", "job", job)):
        if monotonic() - begin > 120:
            raise RuntimeError(f"job {job} is not {pattern}")
        sleep(0.05)
    return monotonic() - begin
