"""Whose turn it is in a dispatch pass: of the namespace with the smallest share, the first by rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import Generic, TypeVar

from scheduler.queue.queue_policy import Rank

T = TypeVar("T")

Place = tuple[float, Rank]
"""Share of a namespace when its turn came, and rank: the order in which jobs of a pass have their turns."""


class Turns(Generic[T]):
    """What has not had its turn yet: a heap of namespaces by share, and in each a heap by rank.

    A turn costs the logarithm of the number of namespaces, as the share of the one alone changes that was served.

    :param share: of a namespace now; while a pass goes on it only grows, unless :meth:`renew` is called.
    :param items: what has turns, each with its rank and its namespace.
    """

    def __init__(self, share: Callable[[str], float], items: Iterable[tuple[Rank, str, T]]) -> None:
        self._share = share
        self._queues: dict[str, list[tuple[Rank, int, T]]] = {}
        self._order: list[tuple[float, Rank, str]] = []  # an entry for the head of each queue, maybe with an old share
        self._number = count()  # of two with the same rank, the one that was added first is first
        for rank, namespace, item in items:
            self._queues.setdefault(namespace, []).append((rank, next(self._number), item))
        for queue in self._queues.values():
            heapify(queue)
        self.renew()

    def add(self, rank: Rank, namespace: str, item: T) -> None:
        """Let something have a turn."""
        queue = self._queues.setdefault(namespace, [])
        heappush(queue, (rank, next(self._number), item))
        if queue[0][0] is rank:
            heappush(self._order, (self._share(namespace), rank, namespace))

    def renew(self) -> None:
        """Look at all shares anew, as some may have become smaller."""
        self._order = [(self._share(name), queue[0][0], name) for name, queue in self._queues.items()]
        heapify(self._order)

    def next(self) -> tuple[Place, T] | None:
        """Take out what has the next turn; ``None`` = nothing is left."""
        order, queues = self._order, self._queues
        while order:
            before, rank, namespace = order[0]
            queue = queues.get(namespace)
            if queue is None or queue[0][0] is not rank:  # the entry of one that is not the first any more
                heappop(order)
                continue
            share = self._share(namespace)
            if share != before:
                heapreplace(order, (share, rank, namespace))
                continue
            _, _, item = heappop(queue)
            if queue:
                heapreplace(order, (share, queue[0][0], namespace))
            else:
                heappop(order)
                del queues[namespace]
            return (share, rank), item
        return None
