"""A small job and the dumps its ranks would leave, for the tests of recovery."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from health.recovery.machines import Machines
from health.recovery.stacks import Process, StackFrame, Thread
from scheduler.job import Job, Parallelism

SYNC = ("wait (torch/distributed/c10d.py:10)", "finish_grad_sync (buffer.py:420)", "train_step (training.py:1234)")
"""Where healthy ranks wait: the reduction of gradients, for the ranks that do not come."""

SEND = (
    "_p2p_ops (p2p_communication.py:165)",
    "send_backward (p2p_communication.py:480)",
    "train_step (training.py:99)",
)

LOSS = ("loss (gpt_model.py:51)", "forward_step (schedules.py:300)", "train_step (training.py:99)")


def machines(*, dp: int = 6, pp: int = 4, tp: int = 8, names: bool = True) -> Machines:
    """A job whose machine of node rank i is on node n(i)."""
    job = Job("small", Parallelism(tp=tp, pp=pp, dp=dp))
    return Machines(job, tuple(f"n{i:03}" for i in range(job.grid.cells)) if names else ())


def dump_text(stack: Sequence[str], *, pid: int = 4242) -> str:
    """What `py-spy dump` prints for a process whose main thread is in a stack, with a helper thread besides."""
    calls = "".join(f"    {call}\n" for call in stack)
    return (
        f"Process {pid}: python pretrain.py\nPython v3.12.3 (/usr/bin/python3.12)\n\n"
        f'Thread {pid} (idle): "MainThread"\n{calls}'
        f'Thread {pid + 50} (active+gil): "Thread-1 (_pin_memory_loop)"\n    select (selectors.py:{pid})\n'
    )


def write_dumps(folder: Path, which: Mapping[int, Sequence[str]]) -> Path:
    """A dump for each rank."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, stack in which.items():
        (folder / f"rank-{rank}.txt").write_text(dump_text(stack))
    return folder


def stacks_of(
    machines: Machines, odd: Callable[[int, int], bool], *, stack: Sequence[str] = SEND
) -> dict[int, Sequence[str]]:
    """A stack for each rank: an odd one for ranks on cells (row, column) that ``odd`` names, SYNC for the others."""
    where = [machines.of_rank(rank) for rank in range(machines.ranks)]
    cells = [(int(machines.row[m]), int(machines.column[m])) for m in where]
    return {rank: stack if odd(*cell) else SYNC for rank, cell in enumerate(cells)}


def as_text(process: Process) -> str:
    """A process as `py-spy dump` prints it."""
    lines = [f"Process {process.pid}: python train.py", "Python v3.12.3 (/usr/bin/python3.12)", ""]
    for thread in process.threads:
        lines.append(f"Thread {thread.number} (idle)" + (f': "{thread.name}"' if thread.name else ""))
        lines += [f"    {f.function} ({f.file}{f':{f.line}' if f.line else ''})" for f in thread.frames]
    return "\n".join(lines) + "\n"


def as_json(process: Process) -> str:
    """A process as `py-spy dump --json` prints it: the newest thread first."""

    def frame(frame: StackFrame) -> dict[str, object]:
        full = {"name": frame.function, "filename": f"/opt/lib/{frame.file}", "short_filename": frame.file}
        return {**full, "module": None, "line": frame.line, "locals": None, "is_entry": False, "is_shim_entry": False}

    def thread(thread: Thread) -> dict[str, object]:
        known = {"pid": process.pid, "thread_id": 2**47, "os_thread_id": int(thread.number), "active": False}
        frames = [frame(each) for each in thread.frames]
        return {**known, "thread_name": thread.name or None, "owns_gil": False, "frames": frames, "process_info": None}

    return json.dumps([thread(each) for each in reversed(process.threads)], indent=2)
