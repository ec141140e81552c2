"""One job after the other: what schedulers do that see one job at a time, and where a joint search starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from scheduler.outcome import Outcome
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.several.joint_question import JointQuestion, run_on_its_levels
from scheduler.trunks import LEAST_SECONDS
from topology.cluster import IntArray
from topology.json_record import JsonRecord


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
    """Place the jobs one after the other.

    :param alone: what each job gets when it has the cluster for itself, for the first of the order.
    :returns: the result, and the nodes of each job by its number, shape [rows, columns]; none when a job is stuck.
    """
    names = tuple(question.jobs[j].name for j in order)
    cluster, placed, end = question.cluster, {}, perf_counter() + limits.seconds
    for at, j in enumerate(order):
        seconds = max(LEAST_SECONDS, (end - perf_counter()) / (len(order) - at))
        one = run_on_its_levels(solver, cluster, question.jobs[j], replace(limits, seconds=seconds)) if at else alone[j]
        if one.evaluation is None or one.proposal.nodes is None:
            return TurnResult(names, None, question.jobs[j].name), []
        placed[j] = one.proposal.nodes
        cluster = cluster.with_busy(placed[j].ravel().tolist())
    nodes = [placed[j] for j in range(len(order))]
    return TurnResult(names, sum(question.cost(j, one) for j, one in enumerate(nodes)), None), nodes
