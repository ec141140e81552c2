"""What ``arnold slurm serve`` costs, and how soon it plans: on a real controller with the nodes of a large cluster.

Ten thousand of its nodes have no slurmd: the controller answers for them as for any that are down.  Eight have, on
which jobs run one after another.  Processor time is of the daemon and of all that it starts; the first minute, in which
it starts and looks, does not count, and later looks do: one in five minutes at least.  The calls of a pass are counted
of another daemon, by scripts before the programs of Slurm on PATH.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
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
SMALL = tuple(f"x{i}" for i in range(1, 9))
START = 60.0  # seconds until it has looked once
PAUSE = 2.0  # seconds between jobs that come and end
GRID = "--comment=arnold: tp=2,dp=2,pp=2"
COMMON = ("--parsable", "--gpus-per-node=2", "-t60", "-o", "/dev/null")


def report(install: Install, *, seconds: float, rounds: int) -> str:
    """Return the promises beside what was measured.

    :param seconds: for which the idle daemon is watched.
    :param rounds: jobs that wait for room, one after another.
    """
    with TemporaryDirectory(prefix="slurm") as name, _large(install, folder := Path(name)) as slurm:
        calls = passes(slurm, folder)
        with _daemon(slurm.environment, folder) as daemon:
            sleep(START)
            share = _share(daemon, lambda: sleep(seconds))
            busy = _share(daemon, lambda: _come_and_end(slurm, rounds))
            waits = room(slurm, folder, rounds)
    many, took = f"{JOBS:,} jobs wait, {NODES:,} nodes", f"median {median(waits):.1f} s, most {max(waits):.1f} s"
    lines = [
        (f"idle, {many}: below 1 % of a core", f"{100 * share:.2f} %", share < 0.01),
        ("at most five calls a pass", f"{calls:.2g} a pass", calls <= 5),
        (f"planned within 2 s of room, {many}", took, max(waits) <= 2),
    ]
    beside = f"While jobs of others come and end every {PAUSE:g} s it takes {100 * busy:.1f} %.\n"
    return section(f"arnold slurm serve on Slurm {install.version}", promises(*lines)) + beside


@contextmanager
def _large(install: Install, folder: Path) -> Iterator[RealSlurm]:
    """Start a Slurm of many nodes and of jobs that wait for more nodes than there are."""
    leaves = [f"SwitchName=s{i:03} Nodes=n[{100 * i + 1:05}-{100 * i + 100:05}]" for i in range(NODES // 100)]
    small = ["SwitchName=x0 Nodes=x[1-4]", "SwitchName=x1 Nodes=x[5-8]"]
    topology = "\n".join([*leaves, *small, f"SwitchName=top Switches=s[000-{NODES // 100 - 1:03}],x[0-1]", ""])
    conf = (
        f"NodeName=n[00001-{NODES:05}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[33001-{33000 + NODES}]"
        " CPUs=16 Gres=gpu:2 State=DOWN\nMaxJobCount=20000\n"
    )
    with real_slurm(install, folder, SMALL, topology, gpus=2, conf=conf) as slurm:
        script = folder / "job.sh"
        script.write_text("#!/bin/sh\nsleep 600\n")
        for _ in range(JOBS):
            while slurm.tried("sbatch", "-N128", "--begin=now+10hours", *COMMON, script).returncode:
                sleep(1)  # the controller is busy
        jobs = ",".join(slurm.run("squeue", "-h", "-o", "%i").split())
        # as job_submit.lua would have it: none has begun by itself before the last was there
        asks = "Comment=arnold: tp=2,dp=16,pp=8"
        slurm.run("scontrol", "update", f"JobId={jobs}", asks, "StartTime=now+10minutes")
        yield slurm


def passes(slurm: RealSlurm, folder: Path) -> float:
    """Return the calls of a pass; the topology is asked once."""
    counting, log = folder / "counting", folder / "calls"
    counting.mkdir()
    for client in CLIENTS:
        file = counting / client
        word = "-$last" if client == "scontrol" else ""
        text = f'for last; do :; done\necho {client}{word} >>"{log}"\nexec {slurm.program(client)} "$@"\n'
        file.write_text(f"#!/bin/sh\n{text}")
        file.chmod(0o755)
    environment = slurm.environment | {"PATH": f"{counting}{os.pathsep}{slurm.environment['PATH']}"}
    with _daemon(environment, folder):
        sleep(START)
    counts = Counter(log.read_text().split())
    looks = counts["scontrol-nodes"]
    asked = sum(counts[f"scontrol-{what}"] for what in ("nodes", "partitions", "reservations"))
    # each look asks for the jobs once, and sdiag before it
    return asked / looks + 2


def _share(daemon: subprocess.Popen[bytes], during: Callable[[], None]) -> float:
    """Return the share of a core that a daemon takes while something goes on."""
    spent, begin = _spent(daemon.pid), monotonic()
    during()
    return (_spent(daemon.pid) - spent) / (monotonic() - begin)


def _spent(process: int) -> float:
    """Return the processor time of a process and of what it started and has ended, in seconds; see proc_pid_stat(5)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _come_and_end(slurm: RealSlurm, rounds: int) -> None:
    for _ in range(rounds):
        slurm.run("sbatch", *COMMON, "-N1", "--wrap", "true")
        sleep(PAUSE)


def room(slurm: RealSlurm, folder: Path, rounds: int) -> list[float]:
    """Return for each job that waits for nodes how long after they were free it had its plan, in seconds."""
    waits, script = [], folder / "job.sh"
    for _ in range(rounds):
        blocker = slurm.run("sbatch", *COMMON, f"-N{len(SMALL)}", script).strip()
        _until(slurm, blocker, r"JobState=RUNNING")
        job = slurm.run("sbatch", *COMMON, "-N4", "--begin=now+10minutes", GRID, script).strip()
        sleep(8)  # it is seen, and has no room
        slurm.run("scancel", blocker)
        _until(slurm, blocker, r"JobState=CANCELLED")  # no longer COMPLETING: its nodes are free
        waits.append(_until(slurm, job, r"ReqNodeList=x"))
        slurm.run("scancel", job)
        _until(slurm, job, r"JobState=CANCELLED")
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
        sleep(0.1)
    return monotonic() - begin
