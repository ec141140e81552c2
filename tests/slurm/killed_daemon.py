"""`arnold slurm serve` on a real Slurm, killed at a step."""

from __future__ import annotations

import sys

STEPS = ("plan", "reservation", "order", "update", "start")
"""Where a daemon is killed: behind each of its steps, and when it sees that a job runs."""

PROGRAM = """
import os, signal, sys
from slurm import serve

def dying(real, when):
    def call(*words, **named):
        result = real(*words, **named)
        if when(words, result):
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call

def planned(decision):
    return [number for update in decision.updates if update.nodes for number in update.jobs]

def running(decision):
    return [number for number, state in decision.states.items() if state == "running"]

step, *jobs = sys.argv[1:]
if step in ("plan", "start"):
    found = planned if step == "plan" else running
    serve.decide = dying(serve.decide, lambda _, decision: any(not jobs or job in jobs for job in found(decision)))
if step == "order":
    serve.write_file = dying(serve.write_file, lambda *_: True)
if step in ("reservation", "update"):
    serve.tell = dying(serve.tell, lambda words, _: words[0] == {"reservation": "create"}.get(step, step))
sys.argv = ["arnold", "slurm", "serve", "--reserve-from", "4"]
from arnold.main import main
main()
"""


def killed_at(step: str, *jobs: str) -> list[str]:
    """The command of a daemon that dies at a step; when it plans, or sees run, one of some jobs, else any."""
    return [sys.executable, "-c", PROGRAM, step, *jobs]
