"""Questions about one cluster, as it is or made up, and the other jobs there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Interval

from ground.errors import InvalidInput
from ground.quantities import DAY
from ground.records import Seed, Share
from scheduler.placement.types import ALGORITHMS
from simulator.capacity.affinity_question import AffinityQuestion
from simulator.capacity.capacity_question import A, CapacityQuestion
from simulator.capacity.job_shape import JobShape, numbers_between_x, parse_shape, usual_shapes
from simulator.capacity.largest_job import Prober

if TYPE_CHECKING:
    from simulator.job_record import JobRecord
    from topology.cluster import Cluster
else:
    # no option is made of a cluster, and reading the options imports no numpy
    Cluster = Any

GENERATED_NODE = 8  # GPUs of the nodes that the generator of workloads divides its jobs over
NO_OPTION = {"option": False}  # Metadata of fields for scripts, which no option of a command sets


@dataclass(frozen=True, kw_only=True)
class ClusterQuestion(CapacityQuestion[A]):
    """A question about a cluster that is given, or made of equal minipods."""

    cluster: Cluster | None = field(default=None, repr=False, compare=False, metadata=NO_OPTION)
    """The cluster as it is; ``None`` = one is made."""
    source: str = field(default="the cluster", metadata=NO_OPTION)
    """What the given cluster is called."""
    made: str = field(default="22x93", metadata={"metavar": "MxN"})
    """Synthetic cluster where none is given: minipods x nodes of each."""
    seed: Seed = field(default=0, metadata={"metavar": "N"})
    """Seed of all that is drawn: same seed, same answer, where no clock ends a search."""

    @cached_property
    def empty(self) -> Cluster:
        """The cluster without jobs.

        :raises InvalidInput: ``made`` is no size.
        """
        from topology.generate import minipods

        if self.cluster is not None:
            return self.cluster.emptied()
        count, size = parse_minipods(self.made)
        return minipods(minipods=count, nodes=count * size)


@dataclass(frozen=True, kw_only=True)
class ShapesQuestion(AffinityQuestion[A], ClusterQuestion[A]):
    """A question about jobs of several shapes on a cluster in use."""

    busy_share: Share = field(default=0.6, metadata={"metavar": "SHARE"})
    """Share of the nodes of a synthetic cluster that other jobs use."""
    shapes: tuple[str, ...] = field(
        default=(), metadata={"option": "--shape", "metavar": "TPxPP", "default": "8x1 .. 8x16"}
    )
    """Shape of a job, whose PP groups are as many as fit."""
    level: str | None = field(default=None, metadata={"metavar": "NAME", "default": "the broadest with several"})
    """Level of the cluster whose domains spread counts."""
    time_limit: Annotated[float, Interval(gt=0, le=3_600)] = field(default=0.3, metadata={"metavar": "SECONDS"})
    """Seconds for each placement; then the best so far counts."""

    @cached_property
    def now(self) -> Cluster:
        """The cluster as it is."""
        from topology.generate import fragment

        return fragment(self.empty, self.busy_share, self.seed) if self.cluster is None else self.cluster

    @property
    def cluster_name(self) -> str:
        """What the cluster is called."""
        if self.cluster is not None:
            return self.source
        count, size = parse_minipods(self.made)
        return f"{count} minipods of {size} nodes, {self.busy_share:.0%} of them busy (made, seed {self.seed})"

    @cached_property
    def job_shapes(self) -> tuple[JobShape, ...]:
        """The shapes that are named, or the usual ones, on nodes of the cluster's usual size.

        :raises InvalidJob: one is no shape.
        """
        gpus = self.now.node_size
        return tuple(parse_shape(shape, gpus_per_node=gpus) for shape in self.shapes) or usual_shapes(gpus)

    def prober(self, cluster: Cluster) -> Prober:
        """Return a prober of a cluster by the exact algorithm."""
        return Prober(cluster, ALGORITHMS.load("exact"), seconds=self.time_limit, level=self.level)


def parse_minipods(made: str) -> tuple[int, int]:
    """Return minipods and nodes of each: ``22x93``.

    :raises InvalidInput: not two numbers from 1 to a million.
    """
    sizes = numbers_between_x(made, 1_000_000, 1_000_000)
    if sizes is None:
        fix = "give minipods and the nodes of each, for example 22x93"
        raise InvalidInput(f"{made[:40]!r} is no size", where="--made", fix=fix)
    return sizes[0], sizes[1]


@dataclass(frozen=True, slots=True)
class BackgroundJobs:
    """Jobs in order of submission."""

    records: tuple[JobRecord, ...]
    asked: float
    """GPU time that the jobs ask for, as a share of the cluster's."""


def background_jobs(
    cluster: Cluster, *, load: float, seconds: float, seed: int, longest: float = inf
) -> BackgroundJobs:
    """Draw jobs of debugging, fine-tuning and small training, 8 to 256 GPUs, submitted for so many seconds.

    More are made than wanted, and a random part is kept: so the share comes out as asked for, however few the jobs.
    On nodes of another size than the generator's they are data parallel.

    :param load: GPU time wanted, as a share of what the cluster has.
    :param longest: run times are cut to it, seconds.
    """
    import numpy as np

    from simulator.workload import WorkloadSpec, generate

    gpus = int(cluster.gpus[cluster.whole].sum())
    spec = WorkloadSpec(
        days=seconds / DAY,
        gpus=gpus,
        # more than is wanted, four times where most GPU time may be cut; the generator takes 10 at most
        load=min(10.0, (4.0 if longest < DAY else 1.5) * load),
        seed=seed,
        kinds=("other",),
        max_gpus=max(GENERATED_NODE, gpus // 4),
    )
    made = [replace(one, duration=min(one.duration, longest)) for one in generate(spec)]
    if cluster.node_size != GENERATED_NODE:
        made = [replace(one, parallelism=None) for one in made]
    order = np.random.default_rng((seed, 1)).permutation(len(made))
    asked = np.cumsum([made[i].gpus * made[i].duration for i in order]) / (gpus * seconds)
    kept = min(len(made), int(np.searchsorted(asked, load)) + 1)
    records = tuple(made[i] for i in sorted(order[:kept].tolist()))
    return BackgroundJobs(records, float(asked[kept - 1]) if kept else 0.0)
