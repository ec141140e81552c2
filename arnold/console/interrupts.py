"""Ctrl-C, and the SIGTERM of a batch system: at once while a solver runs, between two instants while a replay does.

Solvers run for seconds outside Python, and some catch SIGINT themselves: a KeyboardInterrupt would be raised long after
the user asked, or never.  So SIGINT is blocked for every thread and a watcher waits for it.  It interrupts the main
thread in the usual way first, which cleans up; if that has not ended the process shortly after, it ends it hard.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

INTERRUPTED = 130

GRACE = 1.0  # Seconds that Python code gets to clean up


def watch_for_interrupts() -> None:
    """Start the watcher; to be called in the main thread before any other thread is started.

    A process that was started to ignore Ctrl-C (``nohup``, a shell's background job) goes on ignoring it.
    """
    if not hasattr(signal, "pthread_sigmask") or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    threading.Thread(target=_watch, name="interrupts", daemon=True).start()


def _watch() -> None:
    signal.sigwait([signal.SIGINT])
    _thread.interrupt_main()
    time.sleep(GRACE)
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.terminate()
    show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
    with suppress(OSError):
        os.write(sys.stderr.fileno(), f"{show_cursor}\nInterrupted.\n".encode())
    os._exit(INTERRUPTED)


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Catch requests to stop, so that a run can save its state first; a second request interrupts at once.

    :returns: call it to know whether the run was asked to stop.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # another thread than the main one, which no signal reaches
        yield lambda: False
        return
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
