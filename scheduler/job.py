"""Job and Parallelism: a training job, its degrees of parallelism, what it asks of its nodes, and what it reads.

Megatron numbers the GPUs of a job by a mixed radix over its dimensions, the first of ``order`` running fastest, and
numbers them once more for the layers of experts.  Expert parallelism does not multiply the number of GPUs: expert
groups are cut out of the ranks of tensor x context x data parallelism.  A *cell* of the job is one node; how cells form
a grid is the matter of :mod:`scheduler.grid`.

Of each data set a job reads a number of samples, all of them or a random part that is independent of what other jobs
read.  Two jobs that read a and b samples out of N then have a b / N in common on average.  Any unit does, samples or
bytes, as long as all jobs use the same.  Without N nothing says which part a job reads: the larger of the two is taken
for the whole, so that the smaller lies inside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as dataclass_replace
from functools import cached_property
from math import inf, prod
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from annotated_types import Gt, Interval

from ground.errors import InvalidJob
from ground.records import AtLeastOne, Share, check_fields
from scheduler.grid import Grid, RankNumbering, digits_of, expert_numbering, grid_of, nodes_of_tp, shape_of
from topology.taints import Toleration

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from topology.cluster import Cluster, FloatArray, IntArray


Family = Literal["tp", "cp", "ep", "dp", "pp"]
FAMILIES: tuple[Family, ...] = ("tp", "cp", "ep", "dp", "pp")
DEGREES = (*FAMILIES, "etp")  # what a job says of its parallelism, beside the order
MEGATRON_ORDER = "tp-cp-ep-dp-pp"

DEFAULT_ALPHA = 0.3
"""DP affinity of a job of which neither alpha nor the model is known: the more even of the two that the Arnold paper
used, 0 for dense models and 0.3 for a mixture of experts (arXiv 2509.15940); it would not set more than 0.5 (ADR 12).
"""
DEFAULT_SPREAD_COST = 0.018 / (1.0 - DEFAULT_ALPHA)
"""Share of the step time that one unit of the objective costs, where neither the job nor its model says it: 2.57 %, of
the same mixture of experts, whose PP groups, 0.7 of that, were measured to gain 1.8 % (``scheduler.affinity``)."""

Avoid = Literal["strict", "price", "ignore"]
Weight = Annotated[float, Interval(ge=0, lt=inf)]


@dataclass(frozen=True)
class Parallelism:
    """Degrees of parallelism, all at least 1.

    :raises InvalidJob: a degree below 1, an order that does not name the five dimensions, expert groups that Megatron
        refuses (:func:`scheduler.grid.expert_numbering`).
    """

    tp: AtLeastOne = 1
    cp: AtLeastOne = 1
    ep: AtLeastOne = 1
    dp: AtLeastOne = 1
    pp: AtLeastOne = 1
    order: str = MEGATRON_ORDER  # dimensions from the fastest running rank to the slowest
    # expert tensor parallelism; None = tp, and tp is written as None, so that equals are equal
    etp: AtLeastOne | None = None

    def __post_init__(self) -> None:
        if self.etp == self.tp:
            object.__setattr__(self, "etp", None)
        check_fields(self, error=InvalidJob, within="parallelism.")
        if sorted(self.order.split("-")) != sorted(FAMILIES):
            problem = f"order {self.order!r} does not name tp, cp, ep, dp and pp once each"
            raise InvalidJob(problem, where="parallelism.order", fix=f"for example order: {MEGATRON_ORDER}")
        _ = self.expert  # refuses what Megatron refuses

    def degree(self, name: str) -> int:
        """Return one of :data:`DEGREES`: the size of the groups of a family, in GPUs, or expert tensor parallelism."""
        return self.tp if name == "etp" and self.etp is None else int(getattr(self, name))

    @property
    def gpus(self) -> int:
        """Number of GPUs of the job: tp * cp * dp * pp (expert groups are cut out of tp * cp * dp)."""
        return self.tp * self.cp * self.dp * self.pp

    @cached_property
    def dense(self) -> RankNumbering:
        """How ranks are numbered for all layers but those of experts."""
        return RankNumbering({name: 1 if name == "ep" else self.degree(name) for name in self.order.split("-")})

    @cached_property
    def expert(self) -> RankNumbering:
        """How ranks are numbered for the layers of experts."""
        return expert_numbering(self.dense, etp=self.degree("etp"), ep=self.ep)

    def grid(self, gpus_per_node: int) -> Grid:
        """Return the grid of node-sized cells; raises as :func:`scheduler.grid.grid_of`."""
        return grid_of(self.dense, self.expert, gpus_per_node)

    def shape(self, gpus_per_node: int) -> tuple[int, int]:
        """Return rows and columns of the grid without building it; raises as :meth:`grid`."""
        return shape_of(self.dense, self.expert, gpus_per_node)

    def nodes_of_tp(self, gpus_per_node: int) -> int:
        """Return how many nodes a TP group takes; 1 = it shares a node with others, or fills it."""
        return nodes_of_tp(self.dense, gpus_per_node)


@dataclass(frozen=True, slots=True)
class Hold:
    """A hard constraint: every group of a family lies inside one domain of a level."""

    family: Family
    level: str


@dataclass(frozen=True, slots=True)
class Count:
    """A soft term: ``weight`` times the spread of a family at a level is added to the objective."""

    family: Family
    level: str
    weight: Weight


@dataclass(frozen=True, slots=True)
class LevelWeight:
    """A level whose Eq. 2 is a part of the objective, with this weight."""

    level: str
    weight: Weight


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a job runs on a type of GPU, relative to the others: a factor above 0."""

    gpu_type: str
    factor: float

    def __post_init__(self) -> None:
        if not (isinstance(self.factor, Real) and 0.0 < self.factor < inf):
            fault = f"speed on {self.gpu_type} is {self.factor}"
            raise InvalidJob(fault, where="speed", fix="give a number above 0, 1 = as usual")


@dataclass(frozen=True, slots=True)
class NodeSize:
    """GPUs of nodes of a type."""

    gpu_type: str  # empty text = nodes of which no type is said
    gpus: AtLeastOne


class DataSet(NamedTuple):
    """What a job reads of a data set."""

    name: str
    size: Annotated[float, Gt(0)]  # samples or bytes that it reads of it


@dataclass(frozen=True, slots=True)
class ContainerImage:
    """An image that each node of a job needs."""

    name: str
    gb: Weight  # that a node pulls which does not have it


@dataclass(frozen=True)
class Job:
    """A gang that starts whole or not at all."""

    name: str
    parallelism: Parallelism
    alpha: Share = DEFAULT_ALPHA  # DP affinity; beta = 1 - alpha is the PP affinity (Eq. 2)
    gpus_per_node: AtLeastOne = 8
    # by type of GPU, where the job leaves them to the cluster and its nodes differ; of these a placement has one
    node_sizes: tuple[NodeSize, ...] = ()
    level: str | None = None  # at which spread counts; None = the broadest with more than one domain
    # whose domains hold each TP group that takes several nodes; None = the closest of the cluster
    tp_level: str | None = None
    avoid: Avoid = "price"  # what to do about slow nodes: never use them, weigh them against spread, or take no notice
    gpu_types: tuple[str, ...] | None = None  # the types of GPU that its nodes may have; None = any
    mix_types: bool = False  # whether its nodes may have several of these; else all have the same
    speed: tuple[Speed, ...] = ()  # by type of GPU; 1 on those left out
    holds: tuple[Hold, ...] = ()
    counts: tuple[Count, ...] = ()
    levels: tuple[LevelWeight, ...] = ()  # whose Eq. 2 is added to the objective; that of other closer ones comes after
    # microbatches a step, for the price of a slow node; None = unknown, the full price
    microbatches: AtLeastOne | None = None
    # share of the step time that one unit of the objective costs, between one domain and two: for weighing slow nodes,
    # and for what spread costs in a replay
    spread_cost: Weight = DEFAULT_SPREAD_COST
    data_sets: tuple[
        DataSet, ...
    ] = ()  # what it reads: among equal placements it goes where running jobs read the same
    data_level: str | None = None  # whose domains have a cache in common; None = the closest of the cluster
    images: tuple[ContainerImage, ...] = ()
    tolerations: tuple[Toleration, ...] = ()  # taints that it puts up with, so that their nodes are its too
    expected_hours: Annotated[float, Gt(0)] | None = None  # how long it runs; None = not said
    interruptible: bool = False  # whether it may lose nodes before it ends: those then have a price

    def __post_init__(self) -> None:
        check_fields(self, error=InvalidJob)
        if self.gpu_types is not None and not self.gpu_types:
            raise InvalidJob("gpu_types names no type", where="gpu_types", fix="name one, or leave gpu_types out")

    @property
    def beta(self) -> float:
        """PP affinity."""
        return 1.0 - self.alpha

    def speed_on(self, gpu_types: Iterable[str]) -> float:
        """Return how fast it runs on nodes of some types of GPU, at least one: the slowest sets the pace of all."""
        factors = {speed.gpu_type: speed.factor for speed in self.speed}
        return min(factors.get(name, 1.0) for name in gpu_types)

    @cached_property
    def soft(self) -> tuple[Count, ...]:
        """What its objective has besides Eq. 2 at its level: soft constraints, and Eq. 2 at levels that it weighs."""
        return (*self.counts, *(term for level in self.levels for term in self.eq2_terms(level.level, level.weight)))

    @property
    def least_soft(self) -> float:
        """The least that :attr:`soft` can add: every group touches one domain."""
        return sum(count.weight for count in self.soft)

    def eq2_terms(self, level: str, weight: float = 1.0) -> tuple[Count, Count]:
        """Return Eq. 2 at a level, times a weight, as terms."""
        return Count("dp", level, weight * self.alpha), Count("pp", level, weight * self.beta)

    @property
    def constrained_levels(self) -> tuple[str, ...]:
        """Levels that its constraints name, hard and soft, and the ``tp_level`` that it names."""
        named = () if self.tp_level is None else (self.tp_level,)
        return (*(hold.level for hold in self.holds), *(count.level for count in self.soft), *named)

    @property
    def nodes_of_tp(self) -> int:
        """How many nodes a TP group takes; see :meth:`Parallelism.nodes_of_tp`."""
        return self.parallelism.nodes_of_tp(self.gpus_per_node)

    @property
    def holds_groups(self) -> bool:
        """Whether groups must lie inside one domain of a level: by a constraint, or TP groups of several nodes."""
        return bool(self.holds) or self.nodes_of_tp > 1

    @property
    def experts_apart(self) -> bool:
        """Whether expert groups take several nodes, so that they may lie in several domains."""
        return self.parallelism.ep > 1 and self.grid.groups["ep"].largest > 1

    def holds_on(self, cluster: Cluster) -> tuple[Hold, ...]:
        """Return what must be kept on a cluster: the constraints, and TP groups of several nodes inside ``tp_level``.

        :raises UnknownName: the cluster has no such level.
        :raises InvalidJob: spread counts at a level closer than ``tp_level``: there the parts of a TP group may lie
            apart, so that a column touches more domains than any DP group in it, and no proof would hold.
        """
        if self.nodes_of_tp == 1:
            return self.holds
        counted = cluster.level(self.level).name
        held = cluster.levels[-1].name if self.tp_level is None else self.tp_level
        if cluster.level_index(counted) > cluster.level_index(held):
            raise InvalidJob(
                f"TP groups of {self.nodes_of_tp} nodes are held inside one {held}, and spread is to be counted "
                f"at a closer level, {counted}, where nothing could be proved",
                where="tp_level",  # the closest of all, which stands where none is named, is closer than no level
                fix=f"set level to {held} or a broader one, or tp_level to {counted} or a closer one",
            )
        return (*self.holds, Hold("tp", held))

    @cached_property
    def grid(self) -> Grid:
        """The job's cells; raises as :meth:`Parallelism.grid`."""
        return self.parallelism.grid(self.gpus_per_node)

    @cached_property
    def rank_digits(self) -> tuple[int, ...]:
        """The digits of a node's rank that may be renumbered; see :func:`scheduler.grid.digits_of`."""
        return digits_of(self.parallelism.dense, self.parallelism.expert, self.gpus_per_node)

    def replace(self, **changes: Any) -> Job:
        """Return a copy with some fields changed."""
        return dataclass_replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says instead of the job file; ``None`` = nothing."""

    alpha: float | None = field(default=None, metadata={"metavar": "SHARE", "default": "the job's"})
    """DP affinity of the job, 0 to 1; the PP affinity is 1 minus this."""
    level: str | None = field(default=None, metadata={"metavar": "NAME", "default": "the job's"})
    """Level of the cluster whose domains spread counts."""
    avoid: Avoid | None = field(default=None, metadata={"default": "the job's"})
    """Whether slow nodes are used: never, at the price of their slowdown, or freely."""
    dp: int | None = field(default=None, metadata={"option": False})
    """Replicas of the job."""


def stage_slowdown(slowdown: npt.ArrayLike, *, stages: int, microbatches: int | None) -> npt.NDArray[np.float64]:
    """Return how much one slow worker slows its whole job: ``1 + (f - 1) * m / (m + p - 1)``.

    Source: what-if replay of pipelines (arXiv 2505.05713): the slow stage delays each of the m microbatches, the fill
    and drain of the pipeline (p stages, p - 1 slots) are not affected.

    :param slowdown: factor f of the worker, at least 1; any shape.
    :param microbatches: m; ``None`` = unknown, taken as very many, the full price.
    """
    import numpy as np

    factor = np.asarray(slowdown, dtype=np.float64)
    share = 1.0 if microbatches is None else microbatches / (microbatches + stages - 1)
    return np.asarray(1.0 + (factor - 1.0) * share)


def data_affinity(
    first: Iterable[DataSet], second: Iterable[DataSet], *, whole: Mapping[str, float] = MappingProxyType({})
) -> float:
    """Return what two jobs have in common of what either reads, ``|A and B| / |A or B|``: 0 = nothing, 1 = all.

    :param whole: size of each data set where that is known.
    """
    ours, theirs = dict(first), dict(second)
    both = ours.keys() & theirs.keys()
    common = sum(ours[name] * theirs[name] / whole.get(name, max(ours[name], theirs[name])) for name in sorted(both))
    read = sum(ours.values()) + sum(theirs.values())
    return common / (read - common) if read else 0.0


def union_size(parts: Iterable[float], whole: float) -> float:
    """Return how many samples out of ``whole`` are expected in at least one of some random parts of these sizes.

    ``N (1 - product of (1 - n / N))``; parts that are all of it make it exact.
    """
    return whole * (1.0 - prod(1.0 - part / whole for part in parts))


def near_shared_data(
    data: Sequence[DataSet],
    cache_of: IntArray,
    running: Iterable[tuple[Sequence[DataSet], IntArray]],
    *,
    whole: Mapping[str, float] = MappingProxyType({}),
) -> FloatArray:
    """Return shape [nodes]: the affinity with a job that reads the same data near the node's cache, 0 = there is none.

    :param data: what the new job reads.
    :param cache_of: shape [nodes], the number of the cache that each node uses.
    :param running: what each running job reads, and the indices of its nodes, any shape; of several jobs near a cache
        the one with the largest affinity counts.
    :param whole: as in :func:`data_affinity`.
    """
    import numpy as np  # here, as the help of commands reads the types of jobs alone

    best = np.zeros(int(cache_of.max(initial=-1)) + 1)
    for theirs, nodes in running:
        if shared := data_affinity(data, theirs, whole=whole):
            caches = cache_of[nodes].ravel()
            best[caches] = np.maximum(best[caches], shared)
    return best[cache_of]
