"""Job and Parallelism: a training job as a grid of node-sized cells with communication groups.

Megatron numbers the GPUs of a job by a mixed radix over its dimensions, the first of ``order`` running fastest
(Megatron-LM, ``parallel_state.RankGenerator``).  Expert parallelism does not multiply the number of GPUs: an expert
group is cut out of ``ep`` consecutive ranks of the combined context x data dimension, as Megatron does it.

A *cell* is one node: ``gpus_per_node`` consecutive ranks.  Tensor-parallel groups never leave it.  The cells form a
grid of ``rows`` x ``columns``: a row is a pipeline (PP) group, a column holds the cells of one pipeline stage, over
which gradients are reduced (Megatron's data-parallel group with context parallel): the DP group of the Arnold paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import replace as dataclass_replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from topology.errors import InvalidJob

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from topology.cluster import IntArray

Family = Literal["tp", "cp", "ep", "dp", "pp"]
FAMILIES: tuple[Family, ...] = ("tp", "cp", "ep", "dp", "pp")
MEGATRON_ORDER = "tp-cp-ep-dp-pp"

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
    # for each family, shape [rows, columns], the number of the group each cell belongs to
    groups: Mapping[Family, IntArray]

    @property
    def cells(self) -> int:
        """Number of cells, which is the number of nodes the job needs."""
        return self.rows * self.columns


@dataclass(frozen=True)
class Parallelism:
    """Degrees of parallelism, all at least 1.

    :raises InvalidJob: a degree below 1, an order that does not name the five dimensions, ``ep`` that does not divide
        ``cp * dp``.
    """

    tp: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1
    order: str = MEGATRON_ORDER  # dimensions from the fastest running rank to the slowest

    def __post_init__(self) -> None:
        for name in FAMILIES:
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
        if (self.cp * self.dp) % self.ep:
            raise InvalidJob(
                f"expert groups of {self.ep} do not divide the {self.cp * self.dp} ranks of context x data parallelism",
                where="parallelism.ep",
                fix="choose ep so that it divides cp * dp (expert groups are cut out of them, as in Megatron)",
            )

    def degree(self, family: Family) -> int:
        """Return the size of the groups of a family, in GPUs."""
        return int(getattr(self, family))

    @property
    def gpus(self) -> int:
        """Number of GPUs of the job: tp * cp * dp * pp (expert groups are cut out of cp * dp)."""
        return self.tp * self.cp * self.dp * self.pp

    def grid(self, gpus_per_node: int) -> Grid:
        """Return the grid of node-sized cells.

        Walking the order from the fastest dimension, the node is filled with whole dimensions and at most one part of
        a dimension; what is left of each dimension is its degree at node level.

        :raises InvalidJob: the groups do not cut into nodes evenly; the message names the dimension.
        """
        # not at the top: the options of commands are read from this module, and their help needs no arrays
        import numpy as np

        inside, degree = self._split(gpus_per_node)
        # the axes from the slowest to the fastest: ranks count the cells in this order
        axes = [axis for axis in reversed(self.order.split("-")) if axis != "ep"]
        coordinate = dict(zip(axes, np.indices([degree[axis] for axis in axes], dtype=np.int32), strict=True))
        cp_first = axes.index("cp") > axes.index("dp")
        fast, slow = ("cp", "dp") if cp_first else ("dp", "cp")
        row = coordinate[fast] + coordinate[slow] * degree[fast]
        rows, columns = degree["cp"] * degree["dp"], degree["pp"]
        node_rank = np.empty((rows, columns), dtype=np.int32)
        node_rank[row.ravel(), coordinate["pp"].ravel()] = np.arange(rows * columns, dtype=np.int32)

        r, c = np.indices((rows, columns), dtype=np.int32)
        cp_group = r // degree["cp"] if cp_first else r % degree["dp"]
        expert_rows = self._expert_rows(inside["cp"] * inside["dp"])
        groups: dict[Family, IntArray] = {
            "tp": r * columns + c,
            "cp": cp_group * columns + c,
            "ep": (r // expert_rows) * columns + c,
            "dp": c,
            "pp": r,
        }
        return Grid(rows, columns, node_rank, groups)

    def shape(self, gpus_per_node: int) -> tuple[int, int]:
        """Return rows and columns of the grid without building it; raises as :meth:`grid`."""
        inside, degree = self._split(gpus_per_node)
        self._expert_rows(inside["cp"] * inside["dp"])
        return degree["cp"] * degree["dp"], degree["pp"]

    def _split(self, gpus_per_node: int) -> tuple[dict[str, int], dict[str, int]]:
        """Return how much of each dimension lies inside a node, and what is left of it at node level."""
        if gpus_per_node % self.tp:
            raise InvalidJob(
                f"tensor-parallel groups of {self.tp} GPUs do not divide a node of {gpus_per_node} GPUs",
                where="parallelism.tp",
                fix=f"choose tp among the divisors of {gpus_per_node}: a tensor-parallel group never leaves its node",
            )
        inside, degree, room = {}, {}, gpus_per_node
        for axis in ("tp", *(axis for axis in self.order.split("-") if axis not in ("tp", "ep"))):
            size = int(getattr(self, axis))
            if size % room and room % size:
                raise InvalidJob(
                    f"{axis} = {size} does not cut into nodes: each node has room for {room} of its ranks",
                    where=f"parallelism.{axis}",
                    fix=f"choose {axis} as a multiple or a divisor of {room}",
                )
            inside[axis] = min(size, room)
            degree[axis] = size // inside[axis]
            room //= inside[axis]
        if room > 1:
            raise InvalidJob(
                f"the job has {self.gpus} GPUs, less than one node of {gpus_per_node}",
                where="parallelism",
                fix="a gang is made of whole nodes: raise dp, or lower gpus_per_node to the node's real size",
            )
        return inside, degree

    def _expert_rows(self, ranks_in_cell: int) -> int:
        """Return rows of cells that one expert group touches."""
        if self.ep % ranks_in_cell and ranks_in_cell % self.ep:
            raise InvalidJob(
                f"expert groups of {self.ep} ranks do not cut into nodes that hold {ranks_in_cell} of them",
                where="parallelism.ep",
                fix=f"choose ep as a multiple or a divisor of {ranks_in_cell}",
            )
        return max(1, self.ep // ranks_in_cell)


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


@dataclass(frozen=True)
class Job:
    """A gang that starts whole or not at all."""

    name: str
    parallelism: Parallelism
    alpha: float = DEFAULT_ALPHA  # DP affinity in [0, 1]; beta = 1 - alpha is the PP affinity (Eq. 2)
    gpus_per_node: int = 8
    level: str | None = None  # at which spread counts; None = the broadest with more than one domain
    avoid: Avoid = "price"  # what to do about slow nodes: never use them, weigh them against spread, or take no notice
    holds: tuple[Hold, ...] = ()
    counts: tuple[Count, ...] = ()
    microbatches: int | None = None  # microbatches a step, for the price of a slow node; None = unknown, the full price
    # share of the step time that one unit of the objective costs, for weighing slow nodes
    spread_cost: float = DEFAULT_SPREAD_COST

    def __post_init__(self) -> None:
        if not 0.0 <= self.alpha <= 1.0:
            raise InvalidJob(f"alpha is {self.alpha}", where="alpha", fix="alpha lies between 0 and 1")

    @property
    def beta(self) -> float:
        """PP affinity."""
        return 1.0 - self.alpha

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
