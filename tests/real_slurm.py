"""A real Slurm on the loopback address, for tests marked ``launchers``: one slurmctld, a slurmd for each node."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.ports import free_port

MANIFESTS = Path(__file__).parents[1] / "manifests" / "slurm"
DEADLINE = 60.0  # Seconds until programs that are started must answer; bounds a failure, measures nothing

needs_slurm = pytest.mark.skipif(
    not all(shutil.which(program) for program in ("slurmctld", "slurmd", "sbatch", "sinfo")) or os.geteuid() != 0,
    reason="no Slurm here (slurmctld, slurmd, sbatch, sinfo), or not root, as slurmd is",
)

SLURM_CONF = """\
ClusterName=made
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
SlurmdTimeout=600
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
TopologyPlugin=topology/tree
TaskProlog={folder}/share/task_prolog
PartitionName=all Nodes=ALL Default=YES State=UP
"""


@contextmanager
def real_slurm(
    folder: Path, nodes: Sequence[str], topology: str, *, gpus: int, more: str = ""
) -> Iterator[dict[str, str]]:
    """Start one; yields the environment that leads to it.

    :param topology: its topology.conf; ``more``: lines of its slurm.conf.
    """
    port, *ports = (free_port() for _ in range(1 + len(nodes)))
    lines = [
        f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={one} CPUs=4 Gres=gpu:{gpus}"
        for node, one in zip(sorted(nodes), ports, strict=True)
    ]
    conf = folder / "slurm.conf"
    conf.write_text(SLURM_CONF.format(port=port, folder=folder) + more + "\n".join(lines) + "\n")
    for i in range(gpus):
        (folder / f"gpu{i}").touch()
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-{gpus - 1}]\n")
    (folder / "topology.conf").write_text(topology)
    (folder / "state").mkdir()
    (folder / "share" / "orders").mkdir(parents=True)
    shutil.copy(MANIFESTS / "task_prolog", folder / "share")
    shutil.copy(MANIFESTS / "job_submit.lua", folder)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    environment["SLURM_CONF"] = str(conf)
    daemons = [["slurmctld", "-D"], *(["slurmd", "-D", "-N", node] for node in nodes)]
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("w"))
        for daemon in daemons:
            started = stack.enter_context(subprocess.Popen(daemon, env=environment, stdout=log, stderr=log))
            stack.callback(started.kill)
        wait_until(lambda: idle(environment) == len(nodes), environment)
        yield environment


def wait_until(holds: Callable[[], bool], environment: dict[str, str], *, seconds: float = DEADLINE) -> None:
    """Wait until something holds; where it does not in time, fail with the log of the daemons."""
    end = monotonic() + seconds
    while not holds():
        assert monotonic() < end, (Path(environment["SLURM_CONF"]).parent / "log").read_text()[-3000:]
        sleep(0.2)


def idle(environment: dict[str, str]) -> int:
    """Nodes that wait for jobs."""
    return asked(environment, "sinfo", "-h", "-N", "-o", "%t").split().count("idle")


def asked(environment: dict[str, str], *words: str) -> str:
    """What a program of Slurm's prints; empty where it fails."""
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False).stdout
