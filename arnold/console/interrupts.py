"""Ctrl-C, and the SIGTERM of a batch system: a search returns the best so far, a replay ends between two instants, and
all else ends at once.

Solvers run for seconds outside Python, and some catch SIGINT themselves: a KeyboardInterrupt would be raised long after
the user asked, or never.  So SIGINT is blocked for every thread and a watcher waits for it.  The first during a search
ends the clock (:func:`ending_the_search`).  Any other ends the program: the watcher interrupts the main thread in the
usual way first, which cleans up; if that has not ended the process shortly after, it ends it hard.

SIGTERM cannot be blocked, as child processes would be deaf to it too.  It ends the program as ever, except during a
search and a replay, which handle it; there a pipe tells a thread of it at once, whatever the main thread does.
"""

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from types import FrameType

INTERRUPTED, TERMINATED = 130, 143

GRACE = 1.0  # Seconds that Python code gets to clean up
AGAIN = 0.05  # Seconds after which solvers are stopped again, as one may have been about to start

_searches: list[threading.Event] = []  # Of each search that runs, set once it is asked to end: of the innermost last


def watch_for_interrupts() -> None:
    """Start the watcher; to be called in the main thread before any other thread is started.

    A process that was started to ignore Ctrl-C (``nohup``, a shell's background job) goes on ignoring it.
    """
    if not hasattr(signal, "pthread_sigmask") or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    threading.Thread(target=_watch, name="interrupts", daemon=True).start()


def _watch() -> None:
    while True:
        signal.sigwait([signal.SIGINT])
        if not _end_search():
            _end_program(INTERRUPTED)


def _end_search() -> bool:
    """Ask the search that runs for the best so far; return whether one runs that was not asked before."""
    if not _searches or _searches[-1].is_set():
        return False
    _searches[-1].set()
    _say("Interrupted: the best so far comes now; the next signal ends the program.")
    return True


def _end_program(code: int) -> None:
    _thread.interrupt_main()
    time.sleep(GRACE)
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.terminate()
    _say("Interrupted.")
    os._exit(code)


def _say(sentence: str) -> None:
    show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
    with suppress(OSError):
        os.write(sys.stderr.fileno(), f"{show_cursor}\n{sentence}\n".encode())


@contextmanager
def ending_the_search() -> Iterator[None]:
    """Let the first Ctrl-C or SIGTERM end the clock of what is searched inside, so that it returns the best so far.

    The second ends the program, with 130 or 143.  In other threads than the main one Ctrl-C alone is heard.
    """
    from scheduler.work_clock import begin_again, end_all

    asked, over = threading.Event(), threading.Event()

    def keep_ending() -> None:
        asked.wait()
        while not over.is_set():
            end_all()
            over.wait(AGAIN)

    ender = threading.Thread(target=keep_ending, name="search ender", daemon=True)
    _searches.append(asked)
    ender.start()
    try:
        with _sigterm_heard():
            yield
    finally:
        _searches.remove(asked)
        over.set()
        asked.set()
        ender.join()
        begin_again()


@contextmanager
def _sigterm_heard() -> Iterator[None]:
    """Hear of SIGTERM in a thread, whatever the main thread does; nothing outside of the main thread."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    hear, tell = os.pipe()
    os.set_blocking(tell, False)

    def listen() -> None:
        # a byte is the number of a signal that a handler of Python's has; SIGINT comes with KeyboardInterrupt
        while heard := os.read(hear, 1):
            if heard[0] == signal.SIGTERM and not _end_search():
                _end_program(TERMINATED)

    listener = threading.Thread(target=listen, name="terminations", daemon=True)
    handler = signal.signal(signal.SIGTERM, lambda *_: None)
    told = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(told)
        signal.signal(signal.SIGTERM, signal.SIG_DFL if handler is None else handler)
        os.close(tell)
        listener.join()
        os.close(hear)


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


@contextmanager
def stopped_by(*numbers: signal.Signals) -> Iterator[threading.Event]:
    """Yield an event that signals set, in place of ending the program.

    A handler must not set it by itself: the wait that it interrupts may hold the lock of the event just then, and both
    would stand still.  It puts into a queue, which may be interrupted anywhere, and a thread sets the event.
    """
    stop, heard = threading.Event(), SimpleQueue[bool]()

    def listen() -> None:
        if heard.get():
            stop.set()

    threading.Thread(target=listen, name="stops", daemon=True).start()
    before = {number: signal.signal(number, lambda *_: heard.put(True)) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        heard.put(False)
