"""Runs on a Dask cluster: the one door of ``distributed``, which is an extra.

The workers need this program in the same version; trace and clusters travel to them, files are not looked for there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ground.errors import InvalidInput
from scheduler.study.executors import WorkerLost

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

SECONDS = 10  # How long a scheduler may take to answer


class OnDask:
    """Workers of a Dask scheduler at an address such as ``tcp://host:8786``.

    :raises InvalidInput: the extra is not installed.
    """

    def __init__(self, address: str) -> None:
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise InvalidInput(
                "the library for Dask is not installed",
                where="--dask",
                fix="in a clone of Arnold: pip install '.[dask]', or run on this machine with --jobs",
            ) from None
        self._address = address

    def run(self, work: Callable[[S, T], R], shared: S, items: Sequence[T]) -> Iterator[R]:
        """Yield results as they come.

        :raises InvalidInput: no scheduler answers at the address.
        :raises WorkerLost: runs were lost with their workers again and again.
        """
        from distributed import Client, KilledWorker, as_completed

        try:
            client = Client(self._address, timeout=SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise InvalidInput(
                f"no Dask scheduler answers at {self._address}",
                where="--dask",
                fix="start one with `dask scheduler` and workers with `dask worker ADDRESS`, then give its address",
            ) from error
        with client:
            client.wait_for_workers(1, timeout=6 * SECONDS)
            given = client.scatter(shared, broadcast=True, hash=False)
            futures = [client.submit(work, given, item, pure=False) for item in items]
            try:
                for future in as_completed(futures, loop=client.loop):
                    yield future.result()
            except KilledWorker as error:
                raise WorkerLost(
                    f"workers died with a run: {error}",
                    where="--dask",
                    fix="if memory ran out, give workers more of it; the rows that are done are kept",
                ) from error
            finally:
                client.cancel(futures)
