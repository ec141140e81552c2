"""What does one more minipod buy?

The cluster as it is and with more, empty domains: how long jobs of the same workload wait, which job is the largest
that fits, and what a job of a given size is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.placement.registry import load_algorithm
from scheduler.placement.types import Limits
from scheduler.queue.policy_registry import load_policy
from scheduler.spread import job_level
from simulator.capacity.background import DAY, background
from simulator.capacity.fragmentation import SHAPES
from simulator.capacity.largest import Largest, Prober
from simulator.capacity.shape import JobShape
from simulator.engine.engine import Engine
from simulator.engine.node_pool import NodePool
from simulator.metrics.summary import Summary, summarise
from simulator.records import JobRecord
from topology.cluster import Cluster
from topology.errors import InvalidInput
from topology.generate import with_domain

SHARE = 0.9
"""Size of the job whose objective is compared, as a share of the nodes that are free today."""


@dataclass(frozen=True, slots=True)
class GrowQuestion:
    """How much more, and for which work.

    :param more: numbers of domains to add, 0 besides.
    :param nodes: of each new domain; ``None`` = as many as most have.
    :param load: GPU time that the workload asks for, as a share of today's cluster.
    :param days: for how long its jobs are submitted.
    :param policy: name of the queue policy.
    :param seconds: for each placement by the exact algorithm.
    """

    more: tuple[int, ...] = (1, 2)
    nodes: int | None = None
    shapes: tuple[JobShape, ...] = SHAPES
    alpha: float = 0.3
    level: str | None = None
    load: float = 1.1
    days: float = 1.0
    policy: str = "fifo-backfill"
    seed: int = 0
    seconds: float = 0.3

    def __post_init__(self) -> None:
        if not self.more or min(self.more) < 1:
            raise InvalidInput("no domain is added", where="--more", fix="give numbers of domains, at least 1")
        if not (0.0 < self.load <= 2.0 and 0.0 < self.days <= 366.0):
            raise InvalidInput(
                f"load {self.load:g} for {self.days:g} days", where="--load", fix="give at most 2, and 366 days"
            )


@dataclass(frozen=True, slots=True)
class GrowShape:
    """One shape on one cluster.

    :param most: nodes of the largest job, whatever its spread.
    :param whole: nodes of the largest job with every PP group in one domain.
    :param objective: of a job of the same size on all clusters; ``None`` = nothing valid was found.
    """

    shape: JobShape
    most: int
    whole: int
    whole_proved: bool
    size: int
    objective: float | None


@dataclass(frozen=True, slots=True)
class GrowRow:
    """One cluster.

    :param more: domains that were added.
    :param wait: mean hours that jobs wait; ``None`` = no job started, as the next.
    :param wait_p95: of the same.
    """

    more: int
    nodes: int
    free: int
    wait: float | None
    wait_p95: float | None
    shapes: tuple[GrowShape, ...]


@dataclass(frozen=True, slots=True)
class GrowAnswer:
    """The answer.

    :param added: nodes of each new domain.
    :param jobs: of the workload.
    :param asked: GPU time that they ask for, as a share of today's cluster.
    """

    question: GrowQuestion
    source: str
    level: str
    added: int
    jobs: int
    asked: float
    rows: tuple[GrowRow, ...]


def grow(
    cluster: Cluster, question: GrowQuestion, *, source: str, step: Callable[[str], None] = lambda _: None
) -> GrowAnswer:
    """Answer the question for a cluster.

    :param cluster: what jobs hold of it counts for the largest job and the objective; the workload finds it empty.
    :param source: what the cluster is called.
    :raises UnknownName: no such policy or level.
    :raises InvalidJob: a shape does not cut into nodes.
    """
    level = job_level(cluster, question.shapes[0].job(1, level=question.level))
    added = question.nodes or int(np.bincount(np.bincount(level.domain_of)).argmax())
    made = background(cluster, load=question.load, seconds=question.days * DAY, seed=question.seed)
    records = made.records
    sizes = _sizes(cluster, question)
    rows = []
    grown = cluster
    for more in (0, *sorted(set(question.more))):
        step(f"{more} more")
        grown = cluster
        for _ in range(more):
            grown = with_domain(grown, added, level=level.name)
        rows.append(_row(grown, question, more, records, sizes))
    return GrowAnswer(question, source, level.name, added, len(records), made.asked, tuple(rows))


def _sizes(cluster: Cluster, question: GrowQuestion) -> list[int]:
    """PP groups of the job of each shape that is compared."""
    today = Prober(cluster, load_algorithm("exact"), level=question.level)
    return [max(1, int(SHARE * today.most_rows(shape))) for shape in question.shapes]


def _row(
    cluster: Cluster, question: GrowQuestion, more: int, records: Sequence[JobRecord], sizes: Sequence[int]
) -> GrowRow:
    prober = Prober(cluster, load_algorithm("exact"), level=question.level, seconds=question.seconds)
    shapes = []
    for shape, rows in zip(question.shapes, sizes, strict=True):
        most = prober.most_rows(shape)
        whole = prober.largest(shape, "pp", 1) if shape.row > 1 else Largest(most, proved=True)
        objective = prober.place(shape, rows, question.alpha).objective if rows <= most else None
        shapes.append(
            GrowShape(shape, most * shape.row, whole.rows * shape.row, whole.proved, rows * shape.row, objective)
        )
    found = _replay(cluster, question, records)
    return GrowRow(
        more=more,
        nodes=len(cluster),
        free=int(cluster.idle.sum()),
        wait=None if found.wait is None else found.wait.mean / 3600.0,
        wait_p95=None if found.wait is None else found.wait.p95 / 3600.0,
        shapes=tuple(shapes),
    )


def _replay(cluster: Cluster, question: GrowQuestion, records: Sequence[JobRecord]) -> Summary:
    """The workload on the empty cluster."""
    limits = Limits(seed=question.seed, workers=1)
    packing = load_algorithm("gpu-packing")
    room = NodePool(cluster.emptied(), algorithm=packing, limits=limits, level=question.level)
    engine = Engine(records, room, load_policy(question.policy))
    engine.run()
    return summarise(engine.jobs, room.capacity)


def assumptions(answer: GrowAnswer) -> tuple[str, ...]:
    """What the answer takes for granted."""
    q = answer.question
    return (
        f"The cluster is {answer.source}; each new {answer.level} has {answer.added:,} nodes, is empty, and hangs on "
        "the network like the others.",
        "Largest job and objective are of the cluster as it is at one moment, placed by the exact algorithm; >= marks "
        "a size beyond which it ran out of time.",
        f"The objective (Eq. 2, alpha {q.alpha:g}) is of a job of {SHARE:.0%} of the nodes that are free today, the "
        "same job on all clusters.",
        f"Waiting is of {answer.jobs:,} jobs of the LLM workload generator (debugging, fine-tuning and small training "
        f"of Kalos), submitted over {q.days:g} days to the empty cluster under {q.policy} and placed by gpu-packing; "
        f"they ask for {answer.asked:.0%} of today's cluster, and for no more on a larger one.",
        "Nothing fails, and what a new minipod costs is not weighed.",
    )
