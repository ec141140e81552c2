"""Reader of what ``py-spy dump`` prints, as text and with ``--json``.

Both were checked against py-spy 0.4.3.  Text lists a thread as ``Thread 7624 (idle): "MainThread"`` and below it its
calls, innermost first, as ``    all_reduce (torch/distributed/distributed_c10d.py:2450)``; native frames (``--native``)
have a library in place of the file and an address where the symbol is unknown; local variables (``--locals``) are
indented deeper; subprocesses (``--subprocesses``) follow, each with a head of its own.  JSON is a list of threads in
the opposite order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from health.recovery.stacks import Process, StackFrame, Thread
from topology.documents import load_document
from topology.errors import InvalidInput
from topology.files import Source

_JSON = re.compile(r"\s*\[\s*[\]{]")
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_PROCESS = re.compile(r"Process (\d{1,18}):")
_THREAD = re.compile(r'Thread (\S+) \((?:idle|active|active\+gil)\)(?:: "(.*)")?')
_LINE = re.compile(r"(.*):(\d{1,9})")
_RULE = re.compile(r"-+")
_LOG = re.compile(r"\[\d{4}-\d\d-\d\dT\S+ (?:ERROR|WARN|INFO|DEBUG)\b.*\].*")
_REMEDY = "give the output of `py-spy dump --pid PID`, or of it with --json"


def parse_dump(source: Source) -> tuple[Process, ...]:
    """Return processes of one dump, in order of appearance.

    :raises InvalidInput: it is no dump, is cut off, or says that py-spy failed; with the line.
    """
    processes = _parse_json(source) if _JSON.match(source.text) else _parse_text(source)
    if not processes:
        raise InvalidInput("holds no thread", where=source.name, fix=_REMEDY)
    return processes


@dataclass
class _Call:
    name: str
    filename: str
    line: int = 0
    short_filename: str | None = None


@dataclass
class _Stack:
    pid: int
    thread_id: int
    frames: list[_Call]
    thread_name: str | None = None
    os_thread_id: int | None = None


def _parse_json(source: Source) -> tuple[Process, ...]:
    threads: dict[int, list[Thread]] = {}
    for stack in reversed(load_document(source).parse(list[_Stack])):
        frames = tuple(StackFrame(call.name, call.short_filename or call.filename, call.line) for call in stack.frames)
        number = stack.thread_id if stack.os_thread_id is None else stack.os_thread_id
        threads.setdefault(stack.pid, []).append(Thread(str(number), stack.thread_name or "", frames))
    return tuple(Process(pid, tuple(members)) for pid, members in threads.items())


@dataclass
class _Open:
    """A process that is being read."""

    pid: int
    threads: list[tuple[str, str, list[StackFrame]]] = field(default_factory=list)
    in_head: bool = True

    def close(self) -> Process:
        return Process(self.pid, tuple(Thread(number, name, tuple(frames)) for number, name, frames in self.threads))


def _parse_text(source: Source) -> tuple[Process, ...]:
    opened: list[_Open] = []
    for number, styled in enumerate(source.text.split("\n"), 1):
        line = _STYLE.sub("", styled).rstrip()
        here = opened[-1] if opened else None
        if head := _PROCESS.match(line):
            opened.append(_Open(int(head[1])))
        elif here is not None and here.in_head:
            # The command line of a process may hold line breaks; what follows it is the version of Python.
            here.in_head = not line.startswith("Python v")
        elif line and not _is_noise(line):
            _read_line(here, line, source.at(number))
    for process in opened:
        if process.in_head or not process.threads:
            raise InvalidInput(
                f"is cut off: process {process.pid} has no thread", where=source.name, fix="take the dump again"
            )
    return tuple(process.close() for process in opened)


def _is_noise(line: str) -> bool:
    """Return whether a line says nothing of a stack: a rule, a parent process, a log line, a local variable."""
    return bool(line.startswith(("Parent Process ", " " * 8)) or _RULE.fullmatch(line) or _LOG.fullmatch(line))


def _read_line(process: _Open | None, line: str, where: str) -> None:
    """Take a thread, or a call of the thread above it."""
    if line.startswith("Error:"):
        raise InvalidInput(f"py-spy failed: {line[6:].strip()[:200]}", where=where, fix="take the dump again")
    if process is None:
        raise InvalidInput(f"is no stack dump: it begins with {line[:60]!r}", where=where, fix=_REMEDY)
    if thread := _THREAD.fullmatch(line):
        process.threads.append((thread[1], thread[2] or "", []))
        return
    function, opening, rest = line[4:].rpartition(" (")
    if not line.startswith("    ") or not opening or not rest.endswith(")") or not process.threads:
        raise InvalidInput(f"is neither a thread nor a call: {line[:60]!r}", where=where, fix=_REMEDY)
    with_line = _LINE.fullmatch(rest[:-1])
    file, number = (with_line[1], int(with_line[2])) if with_line else (rest[:-1], 0)
    process.threads[-1][2].append(StackFrame(function, file, number))
