"""Job and Parallelism: a training job as a grid of node-sized cells with communication groups.

Megatron numbers the GPUs of a job by a mixed radix over its dimensions, the first of ``order`` running fastest, and
numbers them once more for the layers of experts (:mod:`scheduler.rank_groups`).  Expert parallelism does not multiply
the number of GPUs: expert groups are cut out of the ranks of tensor x context x data parallelism.

A *cell* is one node: ``gpus_per_node`` consecutive ranks.  Tensor-parallel groups never leave it.  The cells form a
grid of ``rows`` x ``columns``: a row is a pipeline (PP) group, a column holds the cells of one pipeline stage, over
which gradients are reduced (Megatron's data-parallel group with context parallel): the DP group of the Arnold paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as dataclass_replace
from functools import cached_property, partial
from math import inf, prod
from typing import TYPE_CHECKING, Any, Literal

from scheduler.rank_groups import CellGroups, RankNumbering, cell_groups, expert_numbering, joined
from topology.errors import InvalidJob

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from topology.cluster import IntArray

Family = Literal["tp", "cp", "ep", "dp", "pp"]
FAMILIES: tuple[Family, ...] = ("tp", "cp", "ep", "dp", "pp")
DEGREES = (*FAMILIES, "etp")  # what a job says of its parallelism, beside the order
MEGATRON_ORDER = "tp-cp-ep-dp-pp"
MOST_RANKS = 2**24  # of a job with context or expert groups, which are laid out by rank: a million nodes of 16 GPUs

DEFAULT_ALPHA = 0.3
"""DP affinity of a job of which neither alpha nor the model is known: the more even of the two that the Arnold paper
used, 0 for dense models and 0.3 for a mixture of experts (arXiv 2509.15940); it would not set more than 0.5 (ADR 12).
"""
DEFAULT_SPREAD_COST = 0.023
"""Share of the step time that one unit of the objective costs, where the job does not say it: the gain of aligning PP
groups that the Arnold paper measured for a dense 24B model (arXiv 2509.15940; ``scheduler.affinity``)."""

Avoid = Literal["strict", "price", "ignore"]


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of a job, a row for each PP group and a column for each pipeline stage at node level."""

    rows: int
    columns: int
    node_rank: IntArray  # shape [rows, columns], the rank of each cell among the job's nodes
    groups: Mapping[Family, CellGroups]

    @property
    def cells(self) -> int:
        """Number of cells, which is the number of nodes the job needs."""
        return self.rows * self.columns

    def tied(self, families: Iterable[Family]) -> tuple[IntArray, IntArray]:
        """Return what stays together when no group of some families is split: in every column the same rows, in every
        row the same columns.

        :returns: shape [rows], the part that each row is in, and shape [columns], the same of columns; from 0.
        """
        import numpy as np

        row_of = np.arange(self.rows, dtype=np.int32)
        column_of = np.arange(self.columns, dtype=np.int32)
        for groups in map(self.groups.__getitem__, families):
            row, column = np.divmod(groups.cell, np.int32(self.columns))
            row_of = joined(row_of, row[column == 0], groups.group[column == 0])
            column_of = joined(column_of, column[row == 0], groups.group[row == 0])
        return row_of, column_of


@dataclass(frozen=True)
class Parallelism:
    """Degrees of parallelism, all at least 1.

    :raises InvalidJob: a degree below 1, an order that does not name the five dimensions, expert groups that Megatron
        refuses (:func:`scheduler.rank_groups.expert_numbering`).
    """

    tp: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1
    order: str = MEGATRON_ORDER  # dimensions from the fastest running rank to the slowest
    etp: int | None = None  # expert tensor parallelism; None = tp, and tp is written as None, so that equals are equal

    def __post_init__(self) -> None:
        if self.etp == self.tp:
            object.__setattr__(self, "etp", None)
        for name in DEGREES:
            if self.degree(name) < 1:
                raise InvalidJob(
                    f"{name} is {self.degree(name)}", where=f"parallelism.{name}", fix=f"{name} is at least 1"
                )
        if sorted(self.order.split("-")) != sorted(FAMILIES):
            raise InvalidJob(
                f"order {self.order!r} does not name tp, cp, ep, dp and pp once each",
                where="parallelism.order",
                fix=f"for example order: {MEGATRON_ORDER}",
            )
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
        """Return the grid of node-sized cells.

        :raises InvalidJob: the groups do not cut into nodes evenly; the message names the dimension.
        """
        # not at the top: the options of commands are read from this module, and their help needs no arrays
        import numpy as np

        # a DP group, with context parallel, is a column; its members run along the rows
        node_rank = np.ascontiguousarray(self._cells(gpus_per_node).groups("faster", "slower").T)
        number = np.arange(node_rank.size, dtype=np.int32)
        cell_of_node = np.empty_like(number)
        cell_of_node[node_rank.ravel()] = number
        rows, columns = node_rank.shape
        touched = partial(cell_groups, gpus=gpus_per_node, cell_of_node=cell_of_node)
        row, column = np.divmod(number, np.int32(columns))
        alone = CellGroups(number, number)
        groups: dict[Family, CellGroups] = {
            "tp": alone,
            "cp": touched(self.dense, "cp") if self.cp > 1 else alone,
            "ep": touched(self.expert, "ep") if self.ep > 1 else alone,
            "dp": CellGroups(number, column),
            "pp": CellGroups(number, row),
        }
        return Grid(rows, columns, node_rank, groups)

    def shape(self, gpus_per_node: int) -> tuple[int, int]:
        """Return rows and columns of the grid without building it; raises as :meth:`grid`."""
        cells = self._cells(gpus_per_node).sizes
        return cells["faster"] * cells["slower"], cells["pp"]

    def _cells(self, gpus_per_node: int) -> RankNumbering:
        """Return how the cells are numbered: over rows that run faster than stages, stages (pp), and slower rows."""
        self._check_sizes(gpus_per_node)
        names = self.order.split("-")
        at = names.index("pp") if self.pp > 1 else len(names)
        left, room = {}, gpus_per_node
        # a node is filled with all that runs faster than pp, or a part of it; then with stages, or a part; and so on
        for part, axes in (("faster", names[:at]), ("pp", names[at : at + 1]), ("slower", names[at + 1 :])):
            size = prod(self.dense.sizes[axis] for axis in axes)
            if size % room and room % size:
                many = [axis for axis in axes if self.dense.sizes[axis] > 1]
                raise InvalidJob(
                    f"{' * '.join(many)} = {size} does not cut into nodes: each node has room for {room} of its ranks",
                    where=f"parallelism.{many[-1]}",
                    fix=f"choose {many[-1]} so that {' * '.join(many)} is a multiple or a divisor of {room}",
                )
            inside = min(size, room)
            left[part] = size // inside
            room //= inside
        if room > 1:
            raise InvalidJob(
                f"the job has {self.gpus} GPUs, less than one node of {gpus_per_node}",
                where="parallelism",
                fix="a gang is made of whole nodes: raise dp, or lower gpus_per_node to the node's real size",
            )
        return RankNumbering(left)

    def _check_sizes(self, gpus_per_node: int) -> None:
        """Refuse tensor-parallel groups that leave their node, and more ranks than groups are laid out for."""
        if gpus_per_node % self.tp:
            raise InvalidJob(
                f"tensor-parallel groups of {self.tp} GPUs do not divide a node of {gpus_per_node} GPUs",
                where="parallelism.tp",
                fix=f"choose tp among the divisors of {gpus_per_node}: a tensor-parallel group never leaves its node",
            )
        apart = self.dense.stride("tp")
        if self.tp > 1 and gpus_per_node % (apart * self.tp):
            raise InvalidJob(
                f"in order {self.order} the {self.tp} ranks of a tensor-parallel group are {apart} apart: some leave "
                f"their node of {gpus_per_node} GPUs",
                where="parallelism.order",
                fix="let order begin with tp: a tensor-parallel group never leaves its node",
            )
        if self.cp * self.ep > 1 and self.gpus > MOST_RANKS:
            raise InvalidJob(
                f"the job has {self.gpus:,} GPUs; context and expert groups are laid out for up to {MOST_RANKS:,}",
                where="parallelism",
                fix="lower dp or pp, or check the degrees for a slip",
            )


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
    weight: float


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a job runs on a type of GPU, relative to the others: a factor above 0."""

    gpu_type: str
    factor: float


@dataclass(frozen=True, slots=True)
class NodeSize:
    """GPUs of every node of a type."""

    gpu_type: str  # empty text = nodes of which no type is said
    gpus: int


@dataclass(frozen=True)
class Job:
    """A gang that starts whole or not at all."""

    name: str
    parallelism: Parallelism
    alpha: float = DEFAULT_ALPHA  # DP affinity in [0, 1]; beta = 1 - alpha is the PP affinity (Eq. 2)
    gpus_per_node: int = 8
    # by type of GPU, where the job leaves them to the cluster and its types differ; of these a placement has one
    node_sizes: tuple[NodeSize, ...] = ()
    level: str | None = None  # at which spread counts; None = the broadest with more than one domain
    avoid: Avoid = "price"  # what to do about slow nodes: never use them, weigh them against spread, or take no notice
    gpu_types: tuple[str, ...] | None = None  # the types of GPU that its nodes may have; None = any
    mix_types: bool = False  # whether its nodes may have several of these; else all have the same
    speed: tuple[Speed, ...] = ()  # by type of GPU; 1 on those left out
    holds: tuple[Hold, ...] = ()
    counts: tuple[Count, ...] = ()
    microbatches: int | None = None  # microbatches a step, for the price of a slow node; None = unknown, the full price
    # share of the step time that one unit of the objective costs, for weighing slow nodes
    spread_cost: float = DEFAULT_SPREAD_COST

    def __post_init__(self) -> None:
        if not 0.0 <= self.alpha <= 1.0:
            raise InvalidJob(f"alpha is {self.alpha}", where="alpha", fix="alpha lies between 0 and 1")
        for one in self.speed:
            if not 0.0 < one.factor < inf:
                wrong = f"speed on {one.gpu_type} is {one.factor}"
                raise InvalidJob(wrong, where="speed", fix="give a number above 0, 1 = as usual")
        if self.gpu_types == ():
            raise InvalidJob("gpu_types names no type", where="gpu_types", fix="name one, or leave gpu_types out")

    @property
    def beta(self) -> float:
        """PP affinity."""
        return 1.0 - self.alpha

    def speed_on(self, gpu_types: Iterable[str]) -> float:
        """Return how fast it runs on nodes of some types of GPU, at least one: the slowest sets the pace of all."""
        factors = {one.gpu_type: one.factor for one in self.speed}
        return min(factors.get(name, 1.0) for name in gpu_types)

    @property
    def constrained_levels(self) -> tuple[str, ...]:
        """Levels that its constraints name, hard and soft."""
        return (*(hold.level for hold in self.holds), *(count.level for count in self.counts))

    @cached_property
    def grid(self) -> Grid:
        """The job's cells; raises as :meth:`Parallelism.grid`."""
        return self.parallelism.grid(self.gpus_per_node)

    def replace(self, **changes: Any) -> Job:
        """Return a copy with some fields changed."""
        return dataclass_replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says instead of the job file; ``None`` = nothing."""

    alpha: float | None = field(default=None, metadata={"metavar": "SHARE"})
    """DP affinity, instead of the job's."""
    level: str | None = field(default=None, metadata={"metavar": "NAME"})
    """Level whose domains spread counts, instead of the job's."""
    avoid: Avoid | None = None
    """Slow nodes: never, at a price, or freely."""


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
