"""Stacks of the processes of a job, and what of them is compared.

Two ranks that do the same thing never have the same text: threads are numbered, native frames carry addresses, and a
loop that polls stands on one line or the next.  A :class:`StackView` says what is left of a stack before ranks are
compared (after aggregation analysis, ByteRobust, arXiv 2509.16293).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")

MAIN_THREAD = "MainThread"

Signature = tuple[tuple[str, ...], ...]
"""What of a rank is compared: a stack for each thread that counts, innermost frame first."""


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One call.

    :param file: as the dump calls it: a path, a shared library, or ``<frozen runpy>``.
    :param line: 0 = unknown, as in native frames.
    """

    function: str
    file: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread of a process.

    :param number: the system's number of it; that of the main thread is the process's (Linux).
    :param name: empty = it has none.
    :param frames: innermost first; empty where a thread runs no Python.
    """

    number: str
    name: str
    frames: tuple[StackFrame, ...]


@dataclass(frozen=True, slots=True)
class Process:
    """Threads of one process, the oldest first; at least one."""

    pid: int
    threads: tuple[Thread, ...]

    @property
    def main(self) -> Thread:
        """The thread called MainThread, else that with the number of the process, else the oldest."""
        for thread in self.threads:
            if thread.name == MAIN_THREAD:
                return thread
        return next((thread for thread in self.threads if thread.number == str(self.pid)), self.threads[0])


@dataclass(frozen=True, slots=True)
class StackView:
    """What of a stack is compared.

    :param lines: line numbers too.
    :param addresses: addresses of native frames too.
    :param threads: of each process the main thread, or all; helper threads are rarely all in the same place.
    """

    lines: bool = False
    addresses: bool = False
    threads: Literal["main", "all"] = "main"

    def signature(self, processes: Iterable[Process]) -> Signature:
        """Return what of a rank is compared.  The order of processes and threads does not matter, nor how many are
        alike.
        """
        return tuple(sorted({self._stack(thread) for process in processes for thread in self._counting(process)}))

    def _counting(self, process: Process) -> Iterator[Thread]:
        return iter((process.main,) if self.threads == "main" else process.threads)

    def _stack(self, thread: Thread) -> tuple[str, ...]:
        return tuple(self._call(frame) for frame in thread.frames)

    def _call(self, frame: StackFrame) -> str:
        line = f":{frame.line}" if self.lines and frame.line else ""
        text = f"{frame.function} ({frame.file}{line})"
        return text if self.addresses else _ADDRESS.sub("0x?", text)
