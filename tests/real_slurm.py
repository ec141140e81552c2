"""A real Slurm on the loopback address of this machine: one controller, and a slurmd for each node.

Its programs are those of this machine, or of another Debian in a folder (a chroot): ``ARNOLD_SLURM_ROOTS`` names such
folders, with colons between them.  ``debootstrap --variant=minbase
--include=slurmctld,slurmd,slurm-client,slurm-wlm-basic-plugins SUITE FOLDER`` makes one; trixie has 24.11.  What the
programs read and write is mounted there under its own path, and a script for each makes it run in there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from stat import S_IFCHR
from time import monotonic, sleep

from tests.ports import free_port

ROOTS = "ARNOLD_SLURM_ROOTS"
DAEMONS = ("slurmctld", "slurmd")
PROGRAMS = (*DAEMONS, "sbatch", "srun", "sinfo", "squeue", "scontrol", "scancel", "sdiag")
DEADLINE = 60.0  # Seconds until programs that are started must answer; bounds a failure, measures nothing
JOBS_END = 15.0  # Seconds in which jobs end
A_NODE = 0.5  # Seconds more for each node
ENTER = """\
#!/bin/sh
# jobs have the same PATH, and are in there already
[ -d "{root}" ] || exec {program} "$@"
exec chroot "{root}" /bin/sh -c 'cd "$0" 2>/dev/null; exec "$@"' "$PWD" {program} "$@"
"""

CONF = """\
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
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=5,default_queue_depth=500
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
TreeWidth=200
TopologyPlugin=topology/{plugin}
TaskProlog={folder}/share/task_prolog
PartitionName=all Nodes=ALL Default=YES State=UP
"""
MANIFESTS = Path(__file__).parents[1] / "manifests" / "slurm"


@dataclass(frozen=True)
class Install:
    """Where the programs of a Slurm are; no root = on this machine."""

    root: Path | None
    version: str

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version, 24.11.5 as (24, 11, 5)."""
        return tuple(map(int, re.findall(r"\d+", self.version)))


@cache
def installs() -> list[Install]:
    """Return every Slurm that is found here and can be started: none by anybody but root, as slurmd must be.

    A folder that is named and has none is an error.
    """
    if os.geteuid() != 0:
        return []
    named = [_install(Path(root)) for root in os.environ.get(ROOTS, "").split(os.pathsep) if root]
    return [*([_install(None)] if all(map(shutil.which, PROGRAMS)) else []), *named]


def _install(root: Path | None) -> Install:
    command = ["slurmctld", "-V"] if root is None else ["chroot", str(root), "slurmctld", "-V"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise RuntimeError(f"{ROOTS}: no Slurm in {root}: {said.stderr.strip()}")
    return Install(root, said.stdout.split()[-1])


@dataclass(frozen=True)
class RealSlurm:
    """One that runs."""

    folder: Path
    environment: dict[str, str]  # leads its programs, and Arnold, to it
    nodes: tuple[str, ...]
    controller: subprocess.Popen[bytes]

    def run(self, *command: object, cwd: Path | None = None) -> str:
        """Run a program of it, and return what it prints."""
        done = self.tried(*command, cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def tried(self, *command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program of it, which may fail."""
        words = [self.program(str(command[0])), *map(str, command[1:])]
        return subprocess.run(
            words, cwd=cwd, env=self.environment, capture_output=True, text=True, check=False, timeout=DEADLINE
        )

    def program(self, name: str) -> str:
        """Return the path of a program: not that of this machine, where this Slurm has its own."""
        return shutil.which(name, path=self.environment["PATH"]) or name

    def end_jobs(self) -> None:
        """End all jobs: what they run would outlive the nodes."""
        if self.tried("scancel", "--user=root").returncode == 0:
            end = monotonic() + JOBS_END
            while self.tried("squeue", "--all", "-h").stdout and monotonic() < end:
                sleep(0.2)

    def wait_for(self, idle: int, *, most: bool = False) -> None:
        """Wait until so many nodes are idle, or at most so many."""
        end = monotonic() + DEADLINE + A_NODE * len(self.nodes)
        while True:
            # fails until the controller listens; without names sinfo takes the square of all nodes
            done = self.tried("sinfo", "-h", "-N", "-n", ",".join(self.nodes), "-o", "%t")
            found = done.stdout.split().count("idle")
            if done.returncode == 0 and (found <= idle if most else found >= idle):
                return
            assert monotonic() < end, done.stderr + (self.folder / "log").read_text()[-3000:]
            sleep(0.2)


@contextmanager
def real_slurm(
    install: Install,
    folder: Path,
    nodes: Sequence[str],
    topology: str,
    *,
    gpus: int,
    slurmd: bool = True,
    shared: Path | None = None,
    conf: str = "",
) -> Iterator[RealSlurm]:
    """Start a Slurm in an empty folder, and end it.

    :param topology: the text of topology.conf, of switches or of blocks.
    :param gpus: of each node.
    :param slurmd: whether nodes are there; else the controller alone is started, and not waited for.
    :param shared: folder that its jobs read and write as well; the folder itself if not said.
    :param conf: lines more of slurm.conf.
    """
    found = set[int]()
    while len(found) <= len(nodes):  # of many that are free two may be the same
        found.add(free_port())
    port, *ports = found
    plugin = "block" if "BlockName=" in topology else "tree"
    lines = [
        f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={one} CPUs={2 * gpus or 4}"
        + (f" Gres=gpu:{gpus}" if gpus else "")
        for node, one in zip(sorted(nodes), ports, strict=True)
    ]
    text = CONF.format(port=port, folder=folder, plugin=plugin)
    (folder / "slurm.conf").write_text("\n".join([text + conf, *lines, ""]), encoding="utf-8")
    (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n" if install.numbers >= (24, 11) else "")
    for i in range(gpus):
        _make_device(folder / f"gpu{i}", i)
    gres = f"Name=gpu File={folder}/gpu[0-{gpus - 1}]\n" if gpus else ""
    (folder / "gres.conf").write_text(f"AutoDetect=off\n{gres}")
    (folder / "topology.conf").write_text(topology, encoding="utf-8")
    (folder / "state").mkdir()
    (folder / "share" / "orders").mkdir(parents=True)
    shutil.copy(MANIFESTS / "task_prolog", folder / "share")
    shutil.copy(MANIFESTS / "job_submit.lua", folder)  # for JobSubmitPlugins=lua
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))}
    environment["SLURM_CONF"] = str(folder / "slurm.conf")
    with ExitStack() as stack:
        if install.root is not None:
            # hosts: srun is called by the name of this machine; where that is unknown, steps end after minutes
            for what in ("/dev", "/proc", "/etc/hosts", str(shared or folder)):
                stack.enter_context(_mounted(what, install.root))
            (folder / "bin").mkdir()
            for program in PROGRAMS:
                script = folder / "bin" / program
                own = f"/usr/sbin/{program}" if program in DAEMONS else f"/usr/bin/{program}"
                script.write_text(ENTER.format(root=install.root, program=own))
                script.chmod(0o755)
            environment["PATH"] = f"{folder}/bin{os.pathsep}{os.environ['PATH']}"
        log = stack.enter_context((folder / "log").open("w"))

        def start(name: str, *options: str) -> subprocess.Popen[bytes]:
            program = shutil.which(name, path=environment["PATH"])
            assert program is not None
            started = stack.enter_context(
                subprocess.Popen([program, "-D", *options], env=environment, stdout=log, stderr=log)
            )
            stack.callback(started.kill)
            return started

        slurm = RealSlurm(folder, environment, tuple(nodes), start("slurmctld"))
        if slurmd:
            for node in nodes:
                start("slurmd", "-N", node)
                sleep(0.02 if len(nodes) > 20 else 0)  # all at once would keep the controller from answering
            slurm.wait_for(len(nodes))
        try:
            yield slurm
        finally:
            slurm.end_jobs()


def _make_device(file: Path, number: int) -> None:
    """Make what Slurm from 24.11 on takes for a GPU; where that is not allowed, a file, which older ones take."""
    try:
        os.mknod(file, S_IFCHR | 0o666, os.makedev(195, number))  # 195 = NVIDIA's
    except PermissionError:
        file.touch()


@contextmanager
def _mounted(what: str, root: Path) -> Iterator[None]:
    """Show a folder or file of this machine under its path in another root."""
    place = root / what.lstrip("/")
    if Path(what).is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.touch()
    subprocess.run(["mount", "--bind", what, str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
