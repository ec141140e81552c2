"""One run of ``arnold`` in a process of its own: what it says, how long it takes, how much memory."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import Any

ROOT = Path(__file__).parents[1]
COMMAND = (sys.executable, "-c", "from arnold.main import main; main()")


@dataclass(frozen=True, slots=True)
class CommandRun:
    """One run, interpreter and imports included."""

    document: dict[str, Any]  # What `--json` printed
    seconds: float
    peak: int  # Largest resident memory, bytes


def run_command(*arguments: str) -> CommandRun:
    """Run ``arnold`` with these arguments and ``--json``.

    :raises RuntimeError: it failed.
    """
    with TemporaryFile("w+") as out:
        start = perf_counter()
        process = subprocess.Popen([*COMMAND, *arguments, "--json"], cwd=ROOT, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"arnold {' '.join(arguments)} ended with {process.returncode}")
        out.seek(0)
        document = json.load(out)
    return CommandRun(document, seconds, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
