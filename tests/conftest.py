"""What holds for all tests: none fails because the machine is busy.  And a way to run the command."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

from arnold.commands.run import run
from arnold.main import COLLECTED_AFTER
from tests.case_counts import examples
from tests.real_slurm import installs

CONTROL_PLANE = "plane"
"""Last word of the names of all fixtures that start or use Kubernetes: etcd, kube-apiserver and more, built from Go
modules unless they are there.
"""

LONGEST_NAME = 200
"""Characters of a text that a case is named after."""


def pytest_configure(config: pytest.Config) -> None:
    """Go through the files of a folder together, in whatever order they are named.

    pytest 9.1 forgets the fixtures of a folder's conftest.py when a file above the folder stands between two in it
    (pytest-dev/pytest issue 14997).
    """
    config.args.sort()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests on a control plane: ``make e2e`` runs these, ``make test`` the others."""
    for item in items:
        if any(name.endswith(CONTROL_PLANE) for name in getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.control_plane)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what takes the argument ``install`` with each Slurm that is found here."""
    if "install" in metafunc.fixturenames:
        none = pytest.param(None, marks=pytest.mark.skip("no Slurm here (slurmctld, slurmd, sbatch), or not root"))
        found = [pytest.param(install, id=install.version) for install in installs()]
        metafunc.parametrize("install", found or [none], scope="module")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a case after the beginning of a long text: names travel between processes, with each report."""
    return ascii(val[:LONGEST_NAME]) if isinstance(val, str | bytes) and len(val) > LONGEST_NAME else None


class ByFile(LoadGroupScheduling):
    """Gives a worker the tests of a file together, or those of a group (marker ``xdist_group``).

    Fixtures of a module are made once, not by each worker.  And dealing out thousands of tests one by one would take
    the process that does it 15 seconds: for each it counts all that were dealt before.
    """

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if scope == nodeid else scope


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Say which worker runs what."""
    return ByFile(config, log)


def pytest_collection_finish() -> None:
    """Take what was imported from the garbage collector, which would go through all of it again and again."""
    gc.collect()
    gc.freeze()


gc.set_threshold(COLLECTED_AFTER)  # as the program itself does: a fifth of collecting the tests would go to looking
os.environ.pop("COLUMNS", None)  # the width of text must not depend on the terminal that the tests run in
# What was compiled is kept, as by default: else each run of the tests, and each program they start, compiles all again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
settings.register_profile("arnold", examples(100, deadline=None))  # 100: hypothesis's own number
settings.load_profile("arnold")


@dataclass(frozen=True)
class Ran:
    """What a run left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)


Arnold = Callable[..., Ran]


@contextmanager
def busy_loops() -> Iterator[None]:
    """Let two programs do nothing as fast as they can."""
    loops = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.fixture
def arnold(capsys: pytest.CaptureFixture[str]) -> Arnold:
    """Run one command line in this process."""

    def call(*args: object) -> Ran:
        capsys.readouterr()
        code = run([str(arg) for arg in args])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return call
