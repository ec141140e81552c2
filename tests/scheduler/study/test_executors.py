"""Processes of a study end with it, whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PATIENCE = 120.0
"""Seconds after which a test gives up; what it waits for takes about one."""

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="process trees are read from /proc")


def children(parent: int) -> set[int]:
    """The processes that a process has started and that have not ended."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, its_parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(its_parent) == parent and state != "Z":
                found.add(int(folder.name))
    return found


@pytest.fixture
def study(tmp_path: Path) -> subprocess.Popen[str]:
    """A study in two processes that would run for minutes; its two workers and their tracker are at work."""
    code = "import sys; from arnold.commands.run import run; sys.exit(run(sys.argv[1:]))"
    command = ["study", "fragmented", "--jobs", "2", "--clusters", "500", "--time-limit", "5"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    made = subprocess.Popen([sys.executable, "-c", code, *command], text=True, cwd=tmp_path, **streams)  # type: ignore[call-overload]
    end = time.monotonic() + PATIENCE
    while len(children(made.pid)) < 3:
        assert made.poll() is None, made.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    return made  # type: ignore[no-any-return]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)])
def test_no_process_outlives_its_study(study: subprocess.Popen[str], number: signal.Signals, code: int) -> None:
    """`kill PID`, and `kill -9 PID` that leaves it no time: the workers end too, and let go of stdout."""
    tree = children(study.pid)
    os.kill(study.pid, number)
    # The end of both streams comes only when no process holds them.
    out, err = study.communicate(timeout=PATIENCE)
    end = time.monotonic() + PATIENCE
    while any(Path(f"/proc/{pid}").exists() for pid in tree) and time.monotonic() < end:
        time.sleep(0.05)
    assert [pid for pid in tree if Path(f"/proc/{pid}").exists()] == []
    assert study.returncode == code
    assert out == ""
    assert "Traceback" not in err
    if number == signal.SIGTERM:
        assert err == ""
