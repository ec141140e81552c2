"""One job after the other: what schedulers do that see one job at a time, and where a joint search starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import factorial, inf
from random import Random

from ground.records import JsonRecord
from scheduler.outcome import Outcome
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.several.joint_question import JointQuestion, run_on_its_levels
from scheduler.work_clock import LEAST_SECONDS, clock
from topology.cluster import IntArray

ANY_ORDER = 0.6  # Of the drawn orders that are any; the others are close to the best one


class OrderDraw:
    """Orders of some jobs, by number, none twice and neither that given nor its reverse."""

    def __init__(self, count: int, seed: int) -> None:
        own = tuple(range(count))
        self._own, self._random, self._known = own, Random(seed), {own, own[::-1]}
        self._best: tuple[float, tuple[int, ...]] = inf, own

    @property
    def over(self) -> bool:
        """Whether all orders were drawn."""
        return len(self._known) >= factorial(len(self._own))

    def draw(self) -> tuple[int, ...]:
        """Return a new order: any, or the best one with two jobs exchanged."""
        order = self._own
        while order in self._known:
            if self._best[0] == inf or self._random.random() < ANY_ORDER:
                order = tuple(self._random.sample(self._own, len(self._own)))
            else:
                exchanged = list(self._best[1])
                a, b = self._random.sample(self._own, 2)
                exchanged[a], exchanged[b] = exchanged[b], exchanged[a]
                order = tuple(exchanged)
        self._known.add(order)
        return order

    def weigh(self, order: tuple[int, ...], objective: float) -> None:
        """Take in the sum that an order came to."""
        self._best = min(self._best, (objective, order))


@dataclass(frozen=True, slots=True)
class TurnResult(JsonRecord):
    """What the jobs get when each is placed on what those before it left."""

    order: tuple[str, ...]
    """Names of the jobs, first to last."""
    objective: float | None
    """The weighted sum; null = some job finds no place."""
    stuck: str | None
    """The first job that finds no place; null = all do."""


def in_turn(
    question: JointQuestion,
    order: Sequence[int],
    solver: PlacementAlgorithm,
    *,
    alone: Mapping[int, Outcome],
    limits: Limits,
) -> tuple[TurnResult, list[IntArray]]:
    """Place the jobs of an order one after the other; of several jobs it may have a part.

    :param alone: what each job gets when it has the cluster for itself, for the first of the order.
    :returns: the result, and the nodes of each job in order of numbers, shape [rows, columns]; none when one is stuck.
    """
    names = tuple(question.jobs[j].name for j in order)
    cluster, placed, end = question.cluster, {}, clock() + limits.seconds
    for at, j in enumerate(order):
        seconds = max(LEAST_SECONDS, (end - clock()) / (len(order) - at))
        one = run_on_its_levels(solver, cluster, question.jobs[j], replace(limits, seconds=seconds)) if at else alone[j]
        if one.evaluation is None or one.proposal.nodes is None:
            return TurnResult(names, None, question.jobs[j].name), []
        placed[j] = one.proposal.nodes
        cluster = cluster.with_busy(placed[j].ravel().tolist())
    nodes = dict(sorted(placed.items()))
    return TurnResult(names, sum(question.cost(j, one) for j, one in nodes.items()), None), list(nodes.values())
