"""Questions about jobs on a cluster: shapes of jobs, how fast spread lets them be, the largest that fits, the others.

A shape is a job whose size is left open, as people write it: ``8x16``, tensor-parallel degree and pipeline stages, and
with a size ``8x16x20``.  The cluster is given as a file, or made: minipods and nodes of each, with jobs that fill it.
Where it is replayed, a sampler looks at it again and again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from annotated_types import Interval

from ground.errors import InvalidInput, InvalidJob
from ground.quantities import DAY
from ground.records import AtLeastOne, Count, JsonRecord, Seed, Share
from scheduler.job import DEFAULT_ALPHA, DEFAULT_SPREAD_COST, Job, Parallelism
from scheduler.job_files.own_records import OwnRecords
from scheduler.placement.types import ALGORITHMS, Limits, PlacementAlgorithm
from simulator.capacity.question import A, CapacityQuestion

if TYPE_CHECKING:
    from scheduler.affinity import JobAffinity, Model
    from scheduler.outcome import Outcome
    from simulator.engine import SimulatedCluster
    from simulator.job_record import JobRecord
    from topology.cluster import Cluster
else:
    # no option is made of a cluster, and reading the options imports no numpy
    Cluster = Any

NO_OPTION = {"option": False}  # Metadata of fields for scripts, which no option of a command sets
T = TypeVar("T")

GENERATED_NODE = 8  # GPUs of the nodes that the generator of workloads divides its jobs over

GRID = {"option": "--grid", "metavar": "TPxPPxROWS"}
"""Metadata of the field that holds jobs as :func:`parse_job` reads them."""

# bounded, as int() refuses numbers of thousands of digits
_NUMBER = re.compile(r"[0-9]{1,7}")


@dataclass(frozen=True, slots=True)
class JobShape:
    """A job without its number of replicas."""

    tp: int = 8  # Tensor-parallel degree, a divisor of the GPUs of a node
    pp: int = 8  # Pipeline stages: nodes of one PP group
    gpus_per_node: int = 8  # GPUs of the nodes that the job runs on

    @property
    def name(self) -> str:
        """``8x16``: tp and pp."""
        return f"{self.tp}x{self.pp}"

    def job(
        self,
        rows: int,
        *,
        alpha: float = DEFAULT_ALPHA,
        spread_cost: float = DEFAULT_SPREAD_COST,
        level: str | None = None,
    ) -> Job:
        """Return the job with so many PP groups.

        :raises InvalidJob: the shape does not cut into nodes.
        """
        if self.tp < 1 or self.gpus_per_node % self.tp:
            problem = f"tp {self.tp} does not divide a node of {self.gpus_per_node} GPUs"
            fix = f"choose tp among the divisors of {self.gpus_per_node}"
            raise InvalidJob(problem, where=f"shape {self.name}", fix=fix)
        degrees = Parallelism(tp=self.tp, dp=rows * (self.gpus_per_node // self.tp), pp=self.pp)
        return Job(
            f"{rows} x {self.name}",
            degrees,
            alpha=alpha,
            gpus_per_node=self.gpus_per_node,
            level=level,
            spread_cost=spread_cost,
        )


def usual_shapes(gpus_per_node: int = 8) -> tuple[JobShape, ...]:
    """Return shapes with tensor parallelism over the node, and 1 to 16 pipeline stages."""
    return tuple(JobShape(gpus_per_node, stages, gpus_per_node) for stages in (1, 4, 8, 16))


def parse_shape(text: str, *, gpus_per_node: int = 8) -> JobShape:
    """Return ``8x16`` as tp 8, pp 16.

    :raises InvalidJob: it is nothing of the kind.
    """
    degrees = numbers_between_x(text, 9_999, 9_999)
    if degrees is None:
        raise InvalidJob(f"{text[:40]!r} is no shape", where="--shape", fix="give tp and pp, for example 8x16")
    shape = JobShape(degrees[0], degrees[1], gpus_per_node)
    shape.job(1)
    return shape


def parse_job(text: str, *, gpus_per_node: int = 8) -> tuple[JobShape, int]:
    """Return ``8x16x20`` as a shape of tp 8, pp 16 and 20 PP groups.

    :raises InvalidJob: it is nothing of the kind.
    """
    sizes = numbers_between_x(text, 9_999, 9_999, 100_000)
    if sizes is None:
        fix = "give tp, pp and the number of PP groups, for example 8x16x20"
        raise InvalidJob(f"{text[:40]!r} is no job", where="--grid", fix=fix)
    return parse_shape(f"{sizes[0]}x{sizes[1]}", gpus_per_node=gpus_per_node), sizes[2]


def numbers_between_x(text: str, *limits: int) -> tuple[int, ...] | None:
    """Return the numbers of a text such as ``22x93``, each from 1 to its limit; ``None`` where it is no such text."""
    parts = text.strip().lower().split("x")
    if len(parts) != len(limits) or not all(map(_NUMBER.fullmatch, parts)):
        return None
    numbers = tuple(map(int, parts))
    return numbers if all(0 < number <= limit for number, limit in zip(numbers, limits, strict=True)) else None


SizedShape: TypeAlias = "tuple[JobShape, int]"  # Shape and PP groups of a job


@dataclass(frozen=True, kw_only=True)
class AffinityQuestion(OwnRecords, CapacityQuestion[A]):
    """A question about jobs that are placed to be fast."""

    alpha: Share | None = field(
        default=None, metadata={"metavar": "SHARE", "default": f"by --model, else {DEFAULT_ALPHA:g}"}
    )
    """DP affinity of the job, 0 to 1; the PP affinity is 1 minus this."""
    model: str | None = field(default=None, metadata={"metavar": "NAME|YAML"})
    """Model that the jobs train, for their alpha: its name or shape, as in a job file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.trained, self.measured

    @cached_property
    def trained(self) -> Model | None:
        """The shape of what the jobs train.

        :raises InvalidInput: the model is neither a name that is known nor a shape.
        """
        if self.model is None:
            return None
        # not at the top: it takes pydantic, which the help can do without
        from scheduler.job_files.job_file import read_model

        try:
            # How many microbatches there are depends on the size, and a batch divides into few of those that are tried.
            return replace(read_model(self.model), global_batch=None)
        except InvalidJob as error:
            raise InvalidInput(error.message, where="--model", fix=error.fix) from None

    def affinity(self, shape: JobShape, rows: int) -> JobAffinity:
        """Return the affinity of a job, by the rule that job files have."""
        from scheduler.affinity import job_affinity

        return job_affinity(shape.job(rows).parallelism, alpha=self.alpha, model=self.trained, records=self.measured)

    def alpha_of_all(self, jobs: Iterable[SizedShape]) -> float | None:
        """Return the alpha that all jobs have; ``None`` where they differ, or there are none."""
        alphas = {self.affinity(shape, rows).alpha for shape, rows in jobs}
        return alphas.pop() if len(alphas) == 1 else None

    def where_alpha_is_from(self, jobs: Iterable[SizedShape]) -> Iterator[str]:
        """Yield a sentence for each reason why jobs have their alpha; none where it is given."""
        shapes: dict[str, dict[str, None]] = {}
        for shape, rows in jobs:
            shapes.setdefault(self.affinity(shape, rows).reason, {})[shape.name] = None
        for reason, names in shapes.items():
            if reason and self.model is None and self.records is None:
                yield f"Alpha is {DEFAULT_ALPHA:g} by default: neither --alpha nor --model is given."
            elif reason:
                yield f"Jobs of shape {', '.join(names)}: {reason}."


def spelled(alpha: float | None) -> str:
    """Return an alpha in words: ``alpha 0.3``; of jobs that differ, that each has its own."""
    return "each job's own alpha" if alpha is None else f"alpha {alpha:g}"


Family = Literal["dp", "pp"]
FAMILIES: tuple[Family, ...] = ("pp", "dp")

ALPHA: dict[Family, float] = {"dp": 1.0, "pp": 0.0}
"""The affinity with which the algorithm minimises the spread of one family alone."""


class LargestJob(JsonRecord):
    """The largest job whose groups touch few domains."""

    family: Family
    """Family of the groups."""
    spread: AtLeastOne
    """Domains that each of them may touch."""
    nodes: Count
    """Nodes of the job; 0 = none fits."""
    proved: bool
    """No larger one fits; false = the algorithm ran out of time on a larger one."""


@dataclass
class Prober:
    """Places jobs of growing size on one cluster by one algorithm, and none of them twice."""

    cluster: Cluster
    algorithm: PlacementAlgorithm
    seconds: float = 0.3  # Time limit of each placement
    level: str | None = None  # Level whose domains count; `None` = the broadest with several
    seed: int = 0
    _placed: dict[tuple[JobShape, int, float], Outcome] = field(default_factory=dict)

    def most_rows(self, shape: JobShape) -> int:
        """Return the number of PP groups for which there are nodes that one job may have, whatever their spread."""
        from scheduler.placement.admission import admissible
        from topology.cluster import most_together

        most, limit = most_together(self.cluster, admissible(self.cluster, shape.job(1))), self.cluster.node_limit
        return (most if limit is None else min(most, limit.nodes)) // shape.pp

    def place(self, shape: JobShape, rows: int, alpha: float) -> Outcome:
        """Return what the algorithm makes of a job to which a slow node is as good as any.

        :raises ArnoldError: the shape does not cut into nodes, or the cluster has no such level.
        """
        from scheduler.algorithm_run import run

        key = (shape, rows, alpha)
        if key not in self._placed:
            job = shape.job(rows, alpha=alpha, level=self.level).replace(avoid="ignore")
            limits = Limits(seconds=self.seconds, seed=self.seed, workers=1, told="placement", clock="work")
            self._placed[key] = run(self.algorithm, self.cluster, job, limits)
        return self._placed[key]

    def largest(self, shape: JobShape, family: Family, spread: int) -> LargestJob:
        """Return the largest job with groups of a family that touch at most so many domains.

        A job with fewer rows never needs a larger spread than one with more: halving the distance finds the largest.
        That holds as long as spread alone decides, so slow nodes have no price here: a job may spread wider to avoid
        one.
        """
        low, high, proved = 0, self.most_rows(shape) + 1, True
        while high - low > 1:
            middle = (low + high) // 2
            outcome = self.place(shape, middle, ALPHA[family])
            if outcome.evaluation is not None and getattr(outcome.evaluation, family) <= spread:
                low = middle
            else:
                high, proved = middle, outcome.status in ("optimal", "infeasible")
        return LargestJob(family, spread, low * shape.pp, proved)


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
    load: float  # GPU time that the jobs ask for, as a share of the cluster's


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
    made = [replace(record, duration=min(record.duration, longest)) for record in generate(spec)]
    if cluster.node_size != GENERATED_NODE:
        made = [replace(record, parallelism=None) for record in made]
    order = np.random.default_rng((seed, 1)).permutation(len(made))
    shares = np.cumsum([made[i].gpus * made[i].duration for i in order]) / (gpus * seconds)
    kept = min(len(made), int(np.searchsorted(shares, load)) + 1)
    records = tuple(made[i] for i in sorted(order[:kept].tolist()))
    return BackgroundJobs(records, float(shares[kept - 1]) if kept else 0.0)


@dataclass(slots=True)
class Sampler(Generic[T]):
    """An observer of an engine looks at the cluster again and again, while nothing else changes between two looks."""

    look: Callable[[SimulatedCluster], T]
    begin: float  # Time of the first sample, seconds
    end: float  # Time of the last sample, at most
    step: float  # Seconds from one sample to the next
    samples: list[T] = field(default_factory=list)

    def elapsed(self, cluster: SimulatedCluster, until: float) -> None:
        """Take the samples of a stretch of time in which nothing changes."""
        now, last = self.begin + self.step * len(self.samples), min(until, self.end)
        if now <= last:
            # one look for all of them
            sample = self.look(cluster)
            while now <= last:
                self.samples.append(sample)
                now += self.step
