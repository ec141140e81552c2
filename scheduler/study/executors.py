"""Where the runs of a study happen: here, in processes of this machine, or on a Dask cluster.

Whatever it is, the same items give the same results; only their order differs.  No process of a study outlives it: an
end by SIGTERM stops them, and each watches whether the process that started it is still there.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from threading import Thread, current_thread, main_thread
from types import FrameType
from typing import Any, Protocol, Self, TypeVar

from ground.errors import ArnoldError

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")


class WorkerLost(ArnoldError):
    """A process of a study died."""

    exit_code = 2


class Executor(Protocol):
    """Runs independent pieces of work."""

    def run(self, work: Callable[[S, T], R], shared: S, items: Sequence[T]) -> Iterator[R]:
        """Return results as they come, in any order.

        :param work: a function of a module, so that it can travel.
        :param shared: goes to every worker once.
        :raises WorkerLost: a worker died.
        """


class Here:
    """One after the other, in this process."""

    def run(self, work: Callable[[S, T], R], shared: S, items: Sequence[T]) -> Iterator[R]:
        """Results in order."""
        return (work(shared, item) for item in items)


class Processes:
    """Processes of this machine, each started anew: nothing of this one is in them but what they are given."""

    def __init__(self, count: int) -> None:
        self._count = count

    def run(self, work: Callable[[S, T], R], shared: S, items: Sequence[T]) -> Iterator[R]:
        """Yield results as they come."""
        count = min(self._count, len(items))
        over = False
        pool = ProcessPoolExecutor(count, get_context("spawn"), initializer=_receive, initargs=(shared,))
        with _Termination() as termination, pool:
            try:
                futures = [pool.submit(_work, work, item) for item in items]
                with termination.now():
                    for future in as_completed(futures):
                        yield future.result()
                over = True
            except BrokenProcessPool as error:
                fix = "if memory ran out, run fewer at once; rows that were saved are kept"
                raise WorkerLost("a process of the study died", where="--jobs", fix=fix) from error
            finally:
                if not over:
                    for process in active_children():
                        process.terminate()
                pool.shutdown(cancel_futures=True)


def local_executor(processes: int) -> Executor:
    """Return what runs a study on this machine: this process, or several of its own."""
    return Processes(processes) if processes > 1 else Here()


class _Termination:
    """SIGTERM ends this process in an orderly way, but never while the pool holds a lock of its own.

    Where something else has been made of the signal, or this is not the main thread, nothing is changed.
    """

    def __init__(self) -> None:
        self._asked = 0
        self._at_once = False
        self._ours = False

    def __enter__(self) -> Self:
        default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        self._ours = default and current_thread() is main_thread()
        if self._ours:
            signal.signal(signal.SIGTERM, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        if self._ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    @contextmanager
    def now(self) -> Iterator[None]:
        """Let it end the process at any moment of this block, by SystemExit."""
        self._at_once = True
        try:
            if self._asked:
                raise SystemExit(128 + self._asked)
            yield
        finally:
            self._at_once = False

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._asked = number
        if self._at_once:
            self._at_once = False  # a second signal must not interrupt the clean-up
            raise SystemExit(128 + number)


_received: list[Any] = []  # What this process was given when it started as a worker; empty in every other process


def _receive(shared: Any) -> None:
    Thread(target=_end_with_parent, name="parent", daemon=True).start()
    _received[:] = [shared]


def _end_with_parent() -> None:
    """Wait for the end of the process that started this one, be it by SIGKILL, and end too.

    A worker waits for work on a pipe, and its fellows hold the other end as well: the pipe would never tell.
    """
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(work: Callable[[Any, T], R], item: T) -> R:
    return work(_received[0], item)
