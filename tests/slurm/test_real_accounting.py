"""`arnold slurm serve` under slurmdbd, by an account that is its Operator and not root.

MariaDB, which slurmdbd keeps its books in, is Debian's ``mariadb-server-core``, made by a script that asks a program of
``mariadb-client-core``; where something is not there, the tests are skipped and say so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

import pytest

from tests.ports import free_port
from tests.real_slurm import DEADLINE, Install, RealSlurm, real_slurm
from tests.slurm.made_slurm import GRID, NODES, TOPOLOGY

pytestmark = [pytest.mark.launchers, pytest.mark.xdist_group("launchers")]

ARNOLD = str(Path(sys.executable).with_name("arnold"))
NEEDED = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db", "my_print_defaults", "setpriv")
OPERATOR, USER = "daemon", "games"  # accounts of every Debian, with groups of these names
DATABASE = """\
AuthType=auth/none
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={storage}
StorageUser=root
PidFile={folder}/slurmdbd.pid
"""
SCRIPT = """#!/bin/bash
#SBATCH --ntasks-per-node=2 --gpus-per-node=2 -t 5
cp ../share/orders/$SLURM_JOB_ID order
srun sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME $(id -un)'
"""


@pytest.fixture(scope="module")
def slurm(install: Install) -> Iterator[RealSlurm]:
    """Eight nodes in two minipods, whose accounting knows an Operator and a user; both may read its folder."""
    if install.root is not None or not all(map(shutil.which, NEEDED)):
        packages = "slurmdbd mariadb-server-core mariadb-client-core"
        pytest.skip(f"no slurmdbd or no MariaDB (apt-get install {packages}), or a Slurm in a chroot")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="slurm")))
        folder.chmod(0o755)
        books, data, made = folder / "books", folder / "data", folder / "made"
        books.mkdir()
        made.mkdir()
        log = stack.enter_context((folder / "log").open("w"))
        common: list[object] = ["--no-defaults", f"--datadir={data}", "--user=root"]
        subprocess.run(["mariadb-install-db", *map(str, common)], check=True, stdout=log, stderr=log)
        port, storage = free_port(), free_port()
        (books / "slurm.conf").write_text("ClusterName=made\nSlurmctldHost=localhost\nAuthType=auth/none\n")
        (books / "slurmdbd.conf").touch(0o600)
        (books / "slurmdbd.conf").write_text(DATABASE.format(port=port, storage=storage, folder=books))
        where = ["--bind-address=127.0.0.1", f"--port={storage}", f"--socket={folder}/socket", "--skip-grant-tables"]

        def start(*command: object, **environment: str) -> None:
            words = [str(shutil.which(str(command[0]))), *map(str, command[1:])]
            started = subprocess.Popen(words, stdout=log, stderr=log, env=environment or None)
            stack.enter_context(started)
            stack.callback(started.terminate)

        start("mariadbd", *common, *where)
        start("slurmdbd", "-D", SLURM_CONF=f"{books}/slurm.conf")
        conf = (
            f"AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n"
            f"AccountingStoragePort={port}\nJobSubmitPlugins=lua\nPriorityFlags=ACCRUE_ALWAYS\n"
        )
        end = monotonic() + DEADLINE
        while "slurmdbd version" not in (folder / "log").read_text():
            assert monotonic() < end, (folder / "log").read_text()[-3000:]
            sleep(0.2)
        with real_slurm(install, made, NODES, TOPOLOGY, gpus=2, conf=conf) as started:
            for words in (
                "account lab",
                f"user {USER} account=lab",
                f"user {OPERATOR} account=lab adminlevel=operator",
            ):
                started.run("sacctmgr", "-i", "add", *words.split())
            shutil.chown(made / "share" / "orders", OPERATOR)
            yield started


def as_account(name: str, *command: object) -> list[str]:
    """Return the words that run a command as an account, which may read what root may, as this Python may be root's."""
    reading = [f"--{kind}-caps=+dac_read_search" for kind in ("inh", "ambient")]
    return ["setpriv", f"--reuid={name}", f"--regid={name}", "--clear-groups", *reading, *map(str, command)]


def environment(slurm: RealSlurm, name: str) -> dict[str, str]:
    """The environment of an account."""
    return slurm.environment | {"USER": name, "LOGNAME": name, "HOME": "/"}


@pytest.mark.parametrize(("name", "may"), [(OPERATOR, True), (USER, False)])
def test_check_knows_an_operator(slurm: RealSlurm, name: str, may: bool) -> None:
    """Of an account that is none it names the line that makes it one."""
    words = as_account(name, ARNOLD, "slurm", "check", "--json")
    done = subprocess.run(words, env=environment(slurm, name), capture_output=True, text=True, check=False)
    checks: dict[str, Any] = {check["what"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["privileges"]["ok"] is may, done.stdout
    assert ("adminlevel=operator" in checks["privileges"]["fix"]) is not may


def test_an_operator_plans_the_jobs_of_others(slurm: RealSlurm) -> None:
    """A job of four nodes of somebody else's, with a reservation, runs as its owner with every rank on its node."""
    home = slurm.folder / "home"
    home.mkdir()
    shutil.chown(home, USER)
    (home / "train.sh").write_text(SCRIPT)
    serve = as_account(OPERATOR, ARNOLD, "slurm", "serve", "--reserve-from", 4)
    submit = ("sbatch", "--wait", "-N4", f"--comment=arnold: {GRID}", "-o", home / "out", home / "train.sh")
    with subprocess.Popen(
        serve, env=environment(slurm, OPERATOR), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as daemon:
        words = as_account(USER, *submit)
        done = subprocess.run(
            words, env=environment(slurm, USER), capture_output=True, text=True, check=False, cwd=home
        )
        daemon.terminate()
        assert daemon.stdout is not None
        log = daemon.stdout.read()
    assert done.returncode == 0, done.stderr + log
    ranks = sorted((line.split() for line in (home / "out").read_text().splitlines()), key=lambda words: int(words[0]))
    order = (home / "order").read_text().split()
    assert ranks == [[str(rank), order[rank // 2], USER] for rank in range(8)]
    assert "reservation=arnold_" in (slurm.folder / "log").read_text()
    assert "enied" not in log
