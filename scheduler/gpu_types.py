"""Which types of GPU a gang may be on, and on which of them it is best.

All nodes of a gang have GPUs of one type, unless its job says that it may mix them.  So a job is placed once for each
type that it admits, as a job for the nodes of that type alone; and the choice is what has the least
``objective / speed``, the speed of the job on the type.

A mixed gang is as fast as the slowest type in it.  Of all mixed placements the best is found by one more placement for
each speed: on all types that are at least as fast.  Every placement is one of those whose slowest type is its own, so
the least of ``bound / speed`` over all choices is a bound for every placement there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from scheduler.job import Job
from scheduler.objective import Evaluation
from scheduler.placement.admission import TypeChoice
from scheduler.placement.types import Status
from topology.cluster import Cluster, IntArray
from topology.field_types import Count
from topology.json_record import JsonRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeOption(JsonRecord):
    """What a job would get on nodes with one type of GPU, or on nodes with several where it may mix them."""

    gpu_types: tuple[str, ...]
    """Types of its nodes; several = mixed, empty text = nodes of which no type is said."""
    nodes: Count
    """Nodes of these types that it could use."""
    status: Status
    """Of the algorithm on these nodes alone."""
    speed: float
    """Relative speed of the job there; on several types that of the slowest in use."""
    objective: float | None
    """Objective of the placement; null = there is none."""
    bound: float | None
    """No placement on these nodes has a smaller objective; null = there is none."""
    cost: float | None
    """objective / speed, the least of which is chosen; null = there is no placement."""
    chosen: bool
    """Whether the job's placement is this one."""
    sentence: str
    """The option in words."""


@dataclass(frozen=True, slots=True)
class TypeAnswer:
    """What an algorithm says of a job on the nodes of some types."""

    choice: TypeChoice
    status: Status
    verdict: str  # in words
    evaluation: Evaluation | None  # None = there is no placement
    bound: float  # no placement on these types has a smaller objective; infinite = there is none


@dataclass(frozen=True, slots=True)
class TypeComparison:
    """Which answer is best, and what holds over all of them."""

    best: int  # its place among the answers; where none has a placement, the one that says least against one
    bound: float  # in the best one's objective: none of any type is better, speeds counted; infinite = none is possible
    options: tuple[TypeOption, ...]


# Where nothing was placed: what leaves most hope comes first
_HOPE: Sequence[Status] = ("timeout", "gave-up", "refused", "infeasible")


def compare_types(answers: Sequence[TypeAnswer]) -> TypeComparison:
    """Choose among the answers for all choices of types, at least one.

    The least ``objective / speed`` wins; of equal ones fewest flagged nodes, one type before several, and the type of
    which most nodes are left.
    """
    options = [_option(answer) for answer in answers]

    def rank(number: int) -> tuple[float, ...]:
        answer, option = answers[number], options[number]
        if option.cost is None or answer.evaluation is None:
            return inf, _HOPE.index(answer.status)
        left = answer.choice.usable - answer.choice.job.grid.cells
        return round(option.cost, 9), len(answer.evaluation.flagged), len(option.gpu_types) > 1, -left

    best = min(range(len(answers)), key=rank)
    paces = [answer.choice.job.speed_on(answer.choice.gpu_types) for answer in answers]
    least = min(answer.bound / pace for answer, pace in zip(answers, paces, strict=True))
    if options[best].cost is not None:
        options[best] = replace(options[best], chosen=True, sentence=f"{options[best].sentence}; chosen")
    return TypeComparison(best, least * options[best].speed, tuple(options))


def _option(answer: TypeAnswer) -> TypeOption:
    choice, worth = answer.choice, answer.evaluation
    names = choice.gpu_types
    speed = choice.job.speed_on(names if worth is None else worth.gpu_types)
    sentence = f"{in_words(names)}: {answer.verdict}"
    if worth is not None and speed != 1.0:
        sentence += f"; speed {speed:g}, so as good as {worth.objective / speed:.4g} at speed 1"
    return TypeOption(
        gpu_types=names,
        nodes=choice.usable,
        status=answer.status,
        speed=speed,
        objective=None if worth is None else worth.objective,
        bound=None if worth is None else answer.bound,
        cost=None if worth is None else worth.objective / speed,
        chosen=False,
        sentence=sentence,
    )


def speed_of(cluster: Cluster, job: Job, nodes: IntArray) -> float:
    """Return the relative speed of a job on some nodes, at least one: that of the slowest type in use."""
    return job.speed_on(cluster.gpu_types[k] for k in np.unique(cluster.gpu_type_of[nodes]))


def in_words(names: Sequence[str]) -> str:
    """Return types of GPU as text: ``H100``, ``H100 and H200 mixed``."""
    spoken = [name or "nodes of no type that is said" for name in names]
    return spoken[0] if len(spoken) == 1 else f"{' and '.join(spoken)} mixed"
