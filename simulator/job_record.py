"""JobRecord: one job of a trace, whatever format it came in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from scheduler.affinity import Gains, Model
from scheduler.job import Avoid, Count, DataSet, Hold, Job, Parallelism, Speed
from scheduler.job_affinity import NAMED_MODELS, job_affinity

Status = Literal["completed", "failed", "cancelled", "unknown"]

ShareBy = Literal["queue", "group", "user"]
"""Fields of a :class:`JobRecord` that may name the namespace with which its job shares the cluster."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as it was submitted, and how long it ran.

    Times are seconds on the trace's own clock: what it says if it has numbers, else seconds since 1970 UTC.
    """

    job_id: str  # unique in a trace
    submit: float  # when it was submitted
    duration: float  # how long it runs on the nodes it needs, above 0 seconds
    gpus: float  # GPUs in all; below 1 for a share of one, in hundredths
    nodes: int | None = None  # nodes that these GPUs lie on, the same number on each; None = the trace does not say
    user: str = ""  # who submitted it; empty where unknown, as the next two
    queue: str = ""  # virtual cluster, partition or queue
    group: str = ""  # department or project of the user
    cpus: float | None = None  # CPU cores in all; None = unknown, as below
    memory: float | None = None  # bytes in all
    status: Status = "unknown"  # how it ended
    priority: int = 0  # higher first
    preemptible: bool = False  # whether it may be stopped and queued again
    announced: float | None = None  # when its arrival was announced, at or before submit; None = it was not
    estimate: float | None = None  # seconds that its user said it would take
    parallelism: Parallelism | None = None  # how a training job is divided; None = data parallel over its nodes
    tp_level: str | None = None  # whose domains hold a TP group of several nodes; None = the closest
    model: str | Model = (
        ""  # what it trains, for alpha and the cost of communication: a name in its own terms, or a shape
    )
    alpha: float | None = None  # DP affinity; None = as its model gives it, or the default
    microbatches: int | None = None  # of a step; None = as its model gives them, or unknown
    avoid: Avoid | None = None  # what to do about slow nodes; None = the default of jobs
    gpu_types: tuple[str, ...] | None = None  # types of GPU that its nodes may have; None = any
    mix_types: bool = False  # whether its nodes may have several of these
    # seconds of its work that it does in a second on types of GPU, if known: on as few nodes as hold it, and on more
    speed: tuple[Speed, ...] = ()
    speed_apart: tuple[Speed, ...] = ()
    holds: tuple[Hold, ...] = ()  # constraints that must be kept
    counts: tuple[Count, ...] = ()  # soft ones
    data_sets: tuple[DataSet, ...] = ()  # what it reads, in samples; infinity = all of it
    waited: float | None = None  # seconds from submission to the start that the trace recorded; None = it does not say

    @property
    def known_model(self) -> Model | None:
        """The shape of what it trains; ``None`` = its name says nothing to us, or there is none."""
        return NAMED_MODELS.get(self.model) if isinstance(self.model, str) else self.model

    def speed_on(self, gpu_types: Iterable[str], *, apart: bool = False) -> float:
        """Return its speed on nodes of some types of GPU, that of the slowest; 1 where it is not known.

        :param apart: it lies on more nodes than hold it.
        """
        known = {one.gpu_type: one.factor for one in (*self.speed, *(self.speed_apart if apart else ()))}
        return min((known.get(name, 1.0) for name in gpu_types), default=1.0)

    @property
    def asks(self) -> tuple[object, ...]:
        """All that its job file would say to placement, besides its size: equal for jobs that ask alike."""
        others = self.gpu_types, self.mix_types, self.holds, self.counts, self.tp_level
        return self.parallelism, self.model, self.alpha, self.microbatches, self.avoid, others

    def job(
        self, parallelism: Parallelism, *, gpus_per_node: int, level: str | None, records: Sequence[Gains] = ()
    ) -> Job:
        """Return what placement is asked about it.

        :param parallelism: its own, or that of a data-parallel job where the trace says none.
        :param records: own measurements, for its affinity.
        :raises InvalidJob: the global batch of its model does not divide.
        """
        known = job_affinity(
            parallelism, alpha=self.alpha, model=self.known_model, microbatches=self.microbatches, records=records
        )
        job = Job(
            "job",
            parallelism,
            alpha=known.alpha,
            gpus_per_node=gpus_per_node,
            level=level,
            tp_level=self.tp_level,
            gpu_types=self.gpu_types,
            mix_types=self.mix_types,
            holds=self.holds,
            counts=self.counts,
            microbatches=known.microbatches,
            spread_cost=known.spread_cost,
        )
        return job if self.avoid is None else job.replace(avoid=self.avoid)
