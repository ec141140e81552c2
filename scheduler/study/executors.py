"""Where the runs of a study happen: here, in processes of this machine, or on a Dask cluster.

Whatever it is, the same items give the same results; only their order differs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from topology.errors import ArnoldError

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")


class WorkerLost(ArnoldError):
    """A process of a study died."""

    exit_code = 2


class Executor(Protocol):
    """Runs independent pieces of work."""

    def run(self, work: Callable[[S, T], R], shared: S, items: Sequence[T]) -> Iterator[R]:
        """Results as they come, in any order.

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
    """Processes of this machine, each started anew: nothing of this one is in them but what they are given.

    :param count: how many.
    """

    def __init__(self, count: int) -> None:
        self._count = count

    def run(self, work: Callable[[S, T], R], shared: S, items: Sequence[T]) -> Iterator[R]:
        """Results as they come."""
        count = min(self._count, len(items))
        with ProcessPoolExecutor(count, get_context("spawn"), initializer=_receive, initargs=(shared,)) as pool:
            try:
                futures = [pool.submit(_work, work, item) for item in items]
                for future in as_completed(futures):
                    yield future.result()
            except BrokenProcessPool as error:
                raise WorkerLost(
                    "a process of the study died",
                    where="--jobs",
                    fix="if memory ran out, run fewer at once; rows that were saved are kept",
                ) from error
            finally:
                pool.shutdown(cancel_futures=True)


_received: list[Any] = []
"""What this process was given when it started as a worker; empty in every other process."""


def _receive(shared: Any) -> None:
    _received[:] = [shared]


def _work(work: Callable[[Any, T], R], item: T) -> R:
    return work(_received[0], item)


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
