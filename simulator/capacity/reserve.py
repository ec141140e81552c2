"""When would a large job fit, and what does reserving for it cost the others?

A busy cluster is replayed around the announcement of a large pre-training job: with Algorithm 1 of the Arnold paper
(arXiv 2509.15940), without its reservation, and without its predictions of run times.  The same zone is watched in all
of them: the nodes that production placement would give the large job on the empty cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from scheduler.placement.admission import admissible
from scheduler.placement.types import Limits
from scheduler.queue.policy_registry import load_policy
from simulator.capacity.background import background
from simulator.capacity.by_size import by_size
from simulator.capacity.shape import JobShape
from simulator.capacity.zone_recorder import SAMPLE, ZoneRecorder
from simulator.engine.engine import Engine
from simulator.engine.node_pool import NodePool
from simulator.engine.sim_job import UNITS, SimJob
from simulator.prediction import predict_all
from simulator.records import JobRecord
from topology.capacity import most_together
from topology.cluster import Cluster
from topology.drawing.labels import plural
from topology.errors import InvalidInput
from topology.generate import minipods

HOUR = 3_600.0
POLICIES = ("arnold", "arnold-no-reserve", "arnold-no-jct")
LARGE = "large job"
SHAPE = JobShape(8, 8)


@dataclass(frozen=True, slots=True)
class ReserveQuestion:
    """A large job on a busy cluster.

    :param minipods: of the cluster that is made where none is given.
    :param minipod_nodes: nodes of each.
    :param shape: of the large job, as the next.
    :param rows: its PP groups.
    :param notice_hours: from its announcement to its arrival.
    :param announced_at: hour of the day, for the figure.
    :param run_hours: how long it runs.
    :param warm_hours: of the replay before the announcement.
    :param after_hours: in which others are submitted after the arrival.
    :param load: GPU time that the others ask for, as a share of the cluster's.
    :param longest_hours: the others run no longer.
    :param policies: names of queue policies.
    :param predictor: how run times are foreseen: ``oracle``, or learnt from the past of the workload alone.
    :param seconds: for the placement of the large job; the others go by a rule that takes none.
    """

    minipods: int = 22
    minipod_nodes: int = 93
    shape: JobShape = SHAPE
    rows: int = 150
    notice_hours: float = 4.0
    announced_at: float = 18.0
    run_hours: float = 24.0
    warm_hours: float = 24.0
    after_hours: float = 8.0
    load: float = 0.9
    longest_hours: float = 4.0
    policies: tuple[str, ...] = POLICIES
    predictor: str = "oracle"
    seed: int = 0
    seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in ("notice_hours", "run_hours", "warm_hours", "after_hours", "load", "longest_hours"):
            if not 0.0 < getattr(self, name) < inf:
                raise InvalidInput(f"{name} is {getattr(self, name)}", where=name, fix=f"{name} is above 0")

    @property
    def nodes(self) -> int:
        """Nodes of the large job."""
        return self.shape.row * self.rows

    @property
    def announced(self) -> float:
        """Seconds from the beginning of the replay."""
        return self.warm_hours * HOUR

    @property
    def arrives(self) -> float:
        """Seconds from the beginning of the replay."""
        return self.announced + self.notice_hours * HOUR

    @property
    def horizon(self) -> float:
        """When the others stop submitting."""
        return self.arrives + self.after_hours * HOUR


@dataclass(frozen=True, slots=True)
class Instant:
    """One sample, of what was until then.

    :param hours: since the announcement.
    :param allocation: share of the nodes that jobs hold.
    :param zone_held: nodes of the zone that others hold.
    :param waiting: jobs in the queue.
    """

    hours: float
    allocation: float
    zone_held: int
    waiting: int


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """What a policy makes of it.

    :param starts: hours after its arrival at which the large job starts; ``None`` = not until everybody else was done.
    :param before: mean allocation in the hour before the announcement.
    :param at_arrival: allocation at the arrival, before the large job starts.
    :param zone_held: nodes of the zone that others hold then.
    :param wait: mean hours that others wait who are submitted between announcement and arrival: the price of notice.
    :param wait_after: the same of those submitted from then until submissions end: the price of the job itself.
    :param idle: node-hours that nobody held between announcement and arrival.
    :param stopped: times that others were stopped for the large job.
    """

    policy: str
    starts: float | None
    before: float
    at_arrival: float
    zone_held: int
    wait: float
    wait_after: float
    idle: float
    stopped: int
    line: tuple[Instant, ...]


@dataclass(frozen=True, slots=True)
class ReserveAnswer:
    """The answer.

    :param domains: how many of which level, ``22 minipods``.
    :param zone: nodes of the zone.
    :param jobs: of the others.
    :param asked: GPU time that the others ask for, as a share of the cluster's.
    """

    question: ReserveQuestion
    cluster_nodes: int
    domains: str
    zone: int
    jobs: int
    asked: float
    rows: tuple[PolicyRow, ...]


def reserve(
    question: ReserveQuestion, *, cluster: Cluster | None = None, step: Callable[[str], None] = lambda _: None
) -> ReserveAnswer:
    """Answer the question by one replay for each policy.

    :param cluster: the replay finds it empty; ``None`` = one that is made.
    :param step: called with a sentence before each replay.
    :raises InvalidInput: the large job does not fit even then.
    :raises UnknownName: a policy is not installed.
    """
    if cluster is None:
        cluster = minipods(minipods=question.minipods, nodes=question.minipods * question.minipod_nodes)
    cluster = cluster.emptied()
    _check_fits(question, cluster)
    others = background(
        cluster,
        load=question.load,
        seconds=question.horizon,
        seed=question.seed,
        longest=question.longest_hours * HOUR,
    )
    large = JobRecord(
        LARGE,
        question.arrives,
        question.run_hours * HOUR,
        float(question.shape.gpus_per_node * question.nodes),
        priority=100,
        announced=question.announced,
        parallelism=question.shape.job(question.rows).parallelism,
    )
    records = sorted([*others.records, large], key=lambda record: record.submit)
    zone: tuple[int, ...] = ()
    rows = []
    for name in question.policies:
        step(name)
        engine = _engine(question, cluster, records, name)
        if not zone:
            zone = engine.pool.zone(next(job for job in engine.jobs if job.record.job_id == LARGE), ())
        rows.append(_replay(question, engine, name, zone))
    level = cluster.default_level()
    domains = plural(len(level), level.name)
    return ReserveAnswer(question, len(cluster), domains, len(zone), len(others.records), others.asked, tuple(rows))


def _check_fits(question: ReserveQuestion, cluster: Cluster) -> None:
    usable = most_together(cluster, admissible(cluster, question.shape.job(1)))
    if question.nodes > usable:
        size = question.shape.gpus_per_node
        raise InvalidInput(
            f"the large job has {question.nodes:,} nodes of {size} GPUs, the cluster {usable:,}",
            where="--job",
            fix="choose a smaller job or a larger cluster",
        )


def _engine(question: ReserveQuestion, cluster: Cluster, records: Sequence[JobRecord], policy: str) -> Engine:
    limits = Limits(seconds=question.seconds, seed=question.seed, workers=1)
    room = NodePool(cluster, algorithm=by_size(question.nodes), limits=limits)
    return Engine(records, room, load_policy(policy), predictions=predict_all(records, question.predictor))


def _replay(question: ReserveQuestion, engine: Engine, policy: str, zone: Sequence[int]) -> PolicyRow:
    recorder = ZoneRecorder(zone, owner=LARGE, begin=question.announced - 2 * HOUR, end=question.horizon)
    engine.observers = (recorder,)
    engine.run()
    large = next(job for job in engine.jobs if job.record.job_id == LARGE)
    line = tuple(
        Instant((time - question.announced) / HOUR, allocation, held, waiting)
        for time, allocation, held, waiting in recorder.samples
    )
    early = [one.allocation for one in line if -1.0 <= one.hours < 0.0]
    notice = [one for one in line if 0.0 <= one.hours <= question.notice_hours + 1e-9]
    capacity = engine.pool.capacity / UNITS / question.shape.gpus_per_node
    return PolicyRow(
        policy=policy,
        starts=None if large.first_start == inf else (large.first_start - question.arrives) / HOUR,
        before=float(np.mean(early)),
        at_arrival=notice[-1].allocation,
        zone_held=notice[-1].zone_held,
        wait=_wait(engine.jobs, question.announced, question.arrives),
        wait_after=_wait(engine.jobs, question.arrives, question.horizon),
        idle=sum((1.0 - one.allocation) * capacity * SAMPLE / HOUR for one in notice[:-1]),
        stopped=sum(len(job.runs) for job in engine.jobs if job is not large),
        line=line,
    )


def _wait(jobs: Sequence[SimJob], begin: float, end: float) -> float:
    """Mean hours that others waited who were submitted in that time; 0 where nobody was."""
    waits = [
        (job.first_start - job.submitted) / HOUR
        for job in jobs
        if job.record.job_id != LARGE and begin <= job.submitted < end and job.first_start < inf
    ]
    return float(np.mean(waits)) if waits else 0.0


def assumptions(answer: ReserveAnswer) -> tuple[str, ...]:
    """What the answer takes for granted."""
    q = answer.question
    return (
        f"{answer.cluster_nodes:,} nodes in {answer.domains}; the large job has {q.nodes:,} of them, is announced "
        f"{q.notice_hours:g} h before it arrives, comes first in the queue and runs {q.run_hours:g} h.",
        f"The others: {answer.jobs:,} jobs of the LLM workload generator (debugging, fine-tuning and small training of "
        f"Kalos, 8 to 256 GPUs), asking for {answer.asked:.0%} of the cluster, none longer than {q.longest_hours:g} h. "
        "What runs longer than the notice and may not be stopped is still in the zone when the large job arrives.",
        _of_predictions(q),
        "Production queue and placement decide: the exact algorithm for the large job, gpu-packing for the others; "
        "nothing fails and nothing is slow.",
        "The zone watched is the same for all policies: where placement puts the large job on the empty cluster.",
        f"Waits until the arrival are the price of the notice; waits in the {q.after_hours:g} h after it are mostly "
        "what the large job itself takes from the others, and a policy that starts it later has not paid that yet.",
    )


def _of_predictions(question: ReserveQuestion) -> str:
    published = "The paper's predictor is off by 1.61 bins of ten minutes."
    if question.predictor == "oracle":
        return f"Run times are known without error, but to the policy without predictions. {published}"
    return f"Run times are foreseen by {question.predictor}, from jobs that had ended before. {published}"
