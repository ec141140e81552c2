"""JobRecord: one job of a trace, whatever format it came in; and how many nodes it takes, with how many GPUs each.

A trace says how many GPUs a job had; few say on how many nodes.  The scheduler places gangs of equal cells, so a job
that does not say takes, on nodes of g GPUs:

- up to g GPUs: one node;
- more: n >= ceil(G / g) nodes of G / n GPUs each, for the smallest n that divides G and leaves the nodes at least half
  full (n <= 2 ceil(G / g)): 12 GPUs lie on 2 nodes of 8 as 6 + 6, 20 on 4 as 5 + 5 + 5 + 5;
- where no such n divides G (13, 17), or the cluster has fewer than n such nodes (20 GPUs on 3 nodes of 8): ceil(G / g)
  whole nodes; what is over stays idle and is held all the same;
- where the cluster has not even these: as many of its larger nodes as hold it in equal parts, if there are any.

A job with parallelism of more than one node takes whole nodes, as its groups cut them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

from ground.errors import InvalidJob
from scheduler.affinity import NAMED_MODELS, Gains, Model, job_affinity
from scheduler.job import Avoid, Count, DataSet, Hold, Job, Parallelism, Speed

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
        speeds = *self.speed, *(self.speed_apart if apart else ())
        factors = {speed.gpu_type: speed.factor for speed in speeds}
        return min((factors.get(name, 1.0) for name in gpu_types), default=1.0)

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
        affinity = job_affinity(
            parallelism, alpha=self.alpha, model=self.known_model, microbatches=self.microbatches, records=records
        )
        job = Job(
            "job",
            parallelism,
            alpha=affinity.alpha,
            gpus_per_node=gpus_per_node,
            level=level,
            tp_level=self.tp_level,
            gpu_types=self.gpu_types,
            mix_types=self.mix_types,
            holds=self.holds,
            counts=self.counts,
            microbatches=affinity.microbatches,
            spread_cost=affinity.spread_cost,
        )
        return job if self.avoid is None else job.replace(avoid=self.avoid)


def shape(
    record: JobRecord, gpus_per_node: int, *, nodes_with: Callable[[float], int] | None = None
) -> tuple[int, float]:
    """Return nodes of a job, and the GPUs it holds on each: whole ones, or a share of one below 1.

    The product is what the job holds: ``record.gpus``, or more where it was rounded up to whole nodes.

    :param nodes_with: how many nodes have so many GPUs for jobs; ``None`` = as many of the usual size as may be needed.
    :raises InvalidJob: the nodes it asks for would need more GPUs each, or its parallelism does not cut into nodes.
    """
    gpus = record.gpus

    def there_are(nodes: int) -> bool:
        each = gpus / nodes
        return each <= gpus_per_node if nodes_with is None else nodes_with(each) >= nodes

    if record.nodes is not None:
        each = gpus / record.nodes
        if each > gpus_per_node and not there_are(record.nodes):
            fix = f"nodes have {gpus_per_node} GPUs: ask for more of them, or leave the number of nodes open"
            raise InvalidJob(f"job {record.job_id} asks for {each:g} GPUs on each of {record.nodes} nodes", fix=fix)
        if record.parallelism is not None and record.nodes > 1:
            record.parallelism.shape(int(each))
        return record.nodes, each
    if gpus <= gpus_per_node:
        return 1, gpus
    if record.parallelism is not None:
        rows, columns = record.parallelism.shape(gpus_per_node)
        return rows * columns, float(gpus_per_node)
    least = ceil(gpus / gpus_per_node)
    divisions = list(range(least, 2 * least + 1))
    if nodes_with is None or nodes_with(gpus_per_node) < least:
        divisions += range(least - 1, 0, -1)
    nodes = next((nodes for nodes in divisions if gpus % nodes == 0 and there_are(nodes)), None)
    return (least, float(gpus_per_node)) if nodes is None else (nodes, gpus / nodes)
