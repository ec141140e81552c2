"""The grid of a job: which ranks communicate, its ranks cut into nodes, and which nodes each group touches.

A job has two numberings of the same ranks, as Megatron-LM has (``parallel_state.initialize_model_parallel``): one for
its dense layers, over tp, cp, dp and pp, and one for its expert layers: over expert tensor parallelism in place of tp,
ep, the data parallelism that is left without cp, and the same pp.

A *cell* is one node: ``gpus_per_node`` consecutive ranks.  The cells form a grid of ``rows`` x ``columns``: a row is a
pipeline (PP) group, a column holds the cells of one pipeline stage, over which gradients are reduced (Megatron's
data-parallel group with context parallel): the DP group of the Arnold paper.

Tensor-parallel groups either lie inside a node or take several whole nodes.  Then each such group is as many rows of a
column, one below the other: its *parts*.  They are held inside one domain of ``tp_level``, so that there and at broader
levels a column touches as many domains as each DP group in it: those nodes of a stage that have the same part.

Nodes are filled in the order of ranks, so the last one may have fewer ranks than GPUs.  Where stages begin inside nodes
there are no such rows and columns: all cells stand in one column, and each is in the groups that its ranks are in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, pairwise
from math import gcd, prod
from operator import mul
from typing import TYPE_CHECKING

from ground.errors import InvalidJob

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    from topology.cluster import IntArray


@dataclass(frozen=True, slots=True)
class RankNumbering:
    """Ranks numbered by a mixed radix over dimensions (Megatron-LM, ``parallel_state.RankGenerator``)."""

    sizes: dict[str, int]  # dimension -> its degree, from the fastest running to the slowest

    @property
    def ranks(self) -> int:
        """How many there are."""
        return prod(self.sizes.values())

    def stride(self, dimension: str) -> int:
        """Return how far apart the ranks are of neighbours in a dimension."""
        names = list(self.sizes)
        return prod(self.sizes[name] for name in names[: names.index(dimension)])

    def groups(self, *dimensions: str) -> IntArray:
        """Return the ranks of each group, shape [groups, members]: those that differ in these dimensions alone.

        Members are numbered over these dimensions, groups over the others, both as the ranks are: by first rank.
        """
        # not at the top: the options of commands are read from the module of jobs, and their help needs no arrays
        import numpy as np

        slowest_first = list(reversed(self.sizes))
        ranks = np.arange(self.ranks, dtype=np.int32).reshape([self.sizes[d] for d in slowest_first])
        outside = [i for i, name in enumerate(slowest_first) if name not in dimensions]
        inside = [i for i, name in enumerate(slowest_first) if name in dimensions]
        return ranks.transpose(*outside, *inside).reshape(-1, prod(self.sizes[name] for name in dimensions))


def expert_numbering(dense: RankNumbering, *, etp: int, ep: int) -> RankNumbering:
    """Return how the ranks of a job are numbered for its expert layers.

    :param dense: numbering for the other layers, over tp, cp, ep (of degree 1), dp and pp.
    :param etp: expert tensor parallelism; ``ep``: expert parallelism.
    :raises InvalidJob: settings that Megatron refuses.
    """
    tp, cp, dp, pp = (dense.sizes[name] for name in ("tp", "cp", "dp", "pp"))
    ranks = tp * cp * dp
    if ranks % (etp * ep):
        fits = f"etp: {gcd(etp, ranks // ep)}" if ranks % ep == 0 else f"ep: {gcd(ep, ranks // gcd(etp, ranks))}"
        raise InvalidJob(
            f"expert groups of {ep} with expert tensor parallelism of {etp} do not divide the {ranks} ranks of "
            f"tensor x context x data parallelism",
            where=f"parallelism.{'ep' if ep > 1 else 'etp'}",
            fix="choose ep and etp so that ep * etp divides tp * cp * dp (expert groups are cut out of them, as in "
            f"Megatron), such as {fits}",
        )
    expert = RankNumbering({**dense.sizes, "tp": etp, "cp": 1, "ep": ep, "dp": tp * cp * dp // (etp * ep)})
    order = "-".join(dense.sizes)
    if pp > 1 and not order.endswith("pp") and expert.sizes["dp"] != dp:
        raise InvalidJob(
            f"in order {order} the experts have data parallelism of {expert.sizes['dp']} and the other layers of {dp}; "
            f"only where pp runs slowest may they differ",
            where="parallelism.order",
            fix=f"let order end with pp, or choose ep and etp with ep * etp = tp * cp = {tp * cp}",
        )
    if pp > 1 and expert.stride("pp") != dense.stride("pp"):
        raise InvalidJob(
            f"in order {order} the pipelines of the experts step over {expert.stride('pp')} ranks and those of the "
            f"other layers over {dense.stride('pp')}; they have to be the same",
            where="parallelism.order",
            fix="let order end with pp",
        )
    return expert


@dataclass(frozen=True)
class CellGroups:
    """Which cells of a job the groups of one family touch: pairs of a cell and a group, in order of the cells.

    Mostly each cell is in one group.  Context and expert groups that do not cut into nodes evenly share cells, so that
    some cells are in several.
    """

    cell: IntArray  # shape [pairs], the number of a cell in the grid, row by row; every cell has a pair
    group: IntArray  # shape [pairs], the number of a group, by its first node

    @cached_property
    def one_each(self) -> bool:
        """Whether each cell is in one group: then pair i is that of cell i."""
        return len(self.cell) == int(self.cell[-1]) + 1

    @property
    def sizes(self) -> IntArray:
        """Shape [groups], the cells of each."""
        import numpy as np

        return np.bincount(self.group).astype(np.int32)

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """The cells of each group, ascending; of groups with the same cells one."""
        import numpy as np

        parts = np.split(self.cell[np.lexsort((self.cell, self.group))], np.cumsum(self.sizes)[:-1])
        return tuple(dict.fromkeys(tuple(part.tolist()) for part in parts))

    @cached_property
    def largest(self) -> int:
        """Cells of the largest group."""
        return int(self.sizes.max())

    def of_pairs(self, of_cell: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return for each pair what is given for its cell; any shape with as many entries as there are cells."""
        return of_cell.ravel() if self.one_each else of_cell.ravel()[self.cell]

    def paired(self, of_cell: IntArray) -> tuple[IntArray, IntArray]:
        """Return for each pair its group, and what is given for its cell."""
        return self.group, self.of_pairs(of_cell)


def cell_groups(numbering: RankNumbering, *dimensions: str, gpus: int, cell_of_node: IntArray) -> CellGroups:
    """Return which cells the groups of some dimensions touch; groups that touch the same cells count once.

    :param gpus: ranks of a node; ``cell_of_node``: shape [nodes].
    """
    import numpy as np

    groups = numbering.groups(*dimensions)
    # neighbours in a run of this length lie in one node, and so do the ranks that each is grouped with
    run = gcd(gpus, *map(numbering.stride, dimensions))
    node, offset = np.divmod(groups[::run, 0], np.int32(gpus))
    # which further nodes a group touches depends on where in its first node it begins
    offsets, kind = np.unique(offset, return_inverse=True)
    further = (offsets[:, None].astype(np.int64) + groups[0]) // gpus  # the first group begins with rank 0
    nothing = len(cell_of_node)
    further[:, 1:][further[:, 1:] == further[:, :-1]] = nothing
    kinds, kind_of = _distinct_rows(np.sort(further, axis=1))
    distinct = np.unique(node.astype(np.int64) * len(kinds) + kind_of[kind])
    first, touched = distinct // len(kinds), kinds[distinct % len(kinds)]
    group, member = np.nonzero(touched < nothing)
    cell = cell_of_node[first[group] + touched[group, member]]
    by_cell = np.argsort(cell, kind="stable")
    return CellGroups(cell[by_cell], group[by_cell].astype(np.int32))


def _distinct_rows(rows: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], IntArray]:
    """Return the distinct ones of a few rows, in lexicographic order, and for each row which of them it is.

    As ``np.unique(axis=0)`` does, which takes a type of as many fields as a row is long: minutes for a million.
    """
    import numpy as np

    order = sorted(range(len(rows)), key=lambda i: rows[i].tolist())
    first, number_of = [order[0]], np.zeros(len(rows), dtype=np.int32)
    for i in order:
        if not np.array_equal(rows[i], rows[first[-1]]):
            first.append(i)
        number_of[i] = len(first) - 1
    return rows[first], number_of


def joined(classes: IntArray, member: IntArray, group: IntArray) -> IntArray:
    """Return the finest partition that keeps both the classes of a partition and some groups whole.

    :param classes: shape [things], the class of each; ``member``, ``group``: pairs of a thing and a group it is in.
    :returns: shape [things], classes numbered by their first member.
    """
    import numpy as np

    things = np.arange(len(classes), dtype=np.int32)
    label = things.copy()
    while True:
        before = label.copy()
        for members, groups in ((things, classes), (member, group)):
            least = np.full(int(groups.max()) + 1, len(things), dtype=np.int32)
            np.minimum.at(least, groups, label[members])
            np.minimum.at(label, members, least[groups])
        if np.array_equal(label, before):
            return np.unique(label, return_inverse=True)[1].astype(np.int32)


def digits_of(dense: RankNumbering, expert: RankNumbering, gpus_per_node: int) -> tuple[int, ...]:
    """Return the digits of a node's rank, slowest first: how many values each has.

    However the values of one digit are renumbered, the groups of every family are of the same nodes as before, called
    otherwise.  A dimension of either numbering is made of whole digits.

    :returns: one digit of one value where dimensions do not nest: no renumbering is known.
    """
    strides = {gpus_per_node}
    for numbering in (dense, expert):
        strides.update(accumulate(numbering.sizes.values(), mul))
    chain = sorted(strides)
    if chain[-1] % gpus_per_node and not any(gpus_per_node % stride for stride in chain[:-1]):
        # the last node is part-filled: each group lies in one node or has ranks on all of them
        return (-(-chain[-1] // gpus_per_node),)
    # those inside a node count as well: groups of 6 ranks on nodes of 8 share nodes with their neighbours
    if any(slower % faster for faster, slower in pairwise(chain)):
        return (1,)
    return tuple(slower // faster for faster, slower in pairwise(chain) if faster >= gpus_per_node)[::-1]


MOST_RANKS_IN_TURN = 2**20  # of a job with stages that share nodes, whose every rank is looked at
MOST_RANKS = 2**24  # of a job with context or expert groups, which are laid out by rank: a million nodes of 16 GPUs


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of a job, a row for each PP group and a column for each pipeline stage at node level."""

    rows: int
    columns: int
    node_rank: IntArray  # shape [rows, columns], the rank of each cell among the job's nodes
    groups: Mapping[str, CellGroups]  # by family
    parts: int = 1  # nodes of a TP group; row r is part r mod parts of its group
    # whether rows are PP groups and columns stages; false = stages share nodes, and all cells stand in one column
    aligned: bool = True

    @property
    def cells(self) -> int:
        """Number of cells, which is the number of nodes the job needs."""
        return self.rows * self.columns

    @property
    def cell_of_rank(self) -> tuple[IntArray, IntArray]:
        """The row and the column of each node rank, each of shape [cells]."""
        import numpy as np

        rows, columns = np.divmod(np.argsort(self.node_rank, axis=None), self.columns)
        return rows.astype(np.int32), columns.astype(np.int32)

    @property
    def dp_group(self) -> IntArray:
        """Shape [rows, columns], the DP group of each cell: the nodes of a stage that have the same part of it."""
        import numpy as np

        row, column = np.indices((self.rows, self.columns), dtype=np.int32)
        return (column * self.parts + row % self.parts).astype(np.int32)

    def tied(self, families: Iterable[str]) -> tuple[IntArray, IntArray]:
        """Return what stays together when no group of some families is split: in every column the same rows, in every
        row the same columns.

        :returns: shape [rows], the part that each row is in, and shape [columns], the same of columns; from 0.
        :raises InvalidJob: these are not equally many everywhere, which part-filled nodes can bring about.
        """
        import numpy as np

        row_of = np.arange(self.rows, dtype=np.int32)
        column_of = np.arange(self.columns, dtype=np.int32)
        families = tuple(families)
        for groups in map(self.groups.__getitem__, families):
            row, column = np.divmod(groups.cell, np.int32(self.columns))
            row_of = joined(row_of, row[column == 0], groups.group[column == 0])
            column_of = joined(column_of, column[row == 0], groups.group[row == 0])
        together = max((np.bincount(row_of), np.bincount(column_of)), key=np.ptp)
        if np.ptp(together):
            raise InvalidJob(
                f"the {' and '.join(families)} groups keep {together.max()} nodes together here and {together.min()} "
                f"there, as they share nodes; only equally many can be held",
                where="constraints",
                fix="choose degrees that fill whole nodes, or make the constraint soft (level and weight)",
            )
        return row_of, column_of


def grid_of(dense: RankNumbering, expert: RankNumbering, gpus_per_node: int) -> Grid:
    """Return the grid of node-sized cells.

    :param dense: how ranks are numbered for all layers but those of experts; ``expert``: for those of experts.
    :raises InvalidJob: TP groups do not cut into nodes evenly, or there are too many ranks.
    """
    # not at the top: the options of commands are read from the module of jobs, and their help needs no arrays
    import numpy as np

    _check_ranks(dense, expert)
    numbering = _cells(dense, gpus_per_node)
    aligned = numbering is not None
    # a DP group, with context parallel, is a column; its members run along the rows
    cells = (numbering or _in_turn(dense, gpus_per_node)).groups("faster", "slower")
    node_rank = np.ascontiguousarray(cells.T)
    number = np.arange(node_rank.size, dtype=np.int32)
    cell_of_node = np.empty_like(number)
    cell_of_node[node_rank.ravel()] = number
    rows, columns = node_rank.shape
    touched = partial(cell_groups, gpus=gpus_per_node, cell_of_node=cell_of_node)
    row, column = np.divmod(number, np.int32(columns))
    alone, parts = CellGroups(number, number), nodes_of_tp(dense, gpus_per_node)
    groups: dict[str, CellGroups] = {
        "tp": touched(dense, "tp") if parts > 1 else alone,
        "cp": touched(dense, "cp") if dense.sizes["cp"] > 1 else alone,
        "ep": touched(expert, "ep") if expert.sizes["ep"] > 1 else alone,
        # gradients are reduced between the nodes of a stage that have the same part of it
        "dp": CellGroups(number, (column * parts + row % parts).astype(np.int32))
        if aligned
        else touched(dense, "dp", "cp"),
        "pp": CellGroups(number, row) if aligned else touched(dense, "pp"),
    }
    return Grid(rows, columns, node_rank, groups, parts, aligned)


def shape_of(dense: RankNumbering, expert: RankNumbering, gpus_per_node: int) -> tuple[int, int]:
    """Return rows and columns of the grid without building it; raises as :func:`grid_of`."""
    _check_ranks(dense, expert)
    cells = (_cells(dense, gpus_per_node) or _in_turn(dense, gpus_per_node)).sizes
    return cells["faster"] * cells["slower"], cells["pp"]


def _cells(dense: RankNumbering, gpus_per_node: int) -> RankNumbering | None:
    """Return how the cells are numbered: over rows that run faster than stages, stages (pp), and slower rows.

    :returns: ``None`` where some nodes have a part of one stage and a part of the next.
    :raises InvalidJob: tensor-parallel groups have parts of nodes.
    """
    tp, apart = dense.sizes["tp"], dense.stride("tp")
    if gpus_per_node % tp and tp % gpus_per_node:
        raise InvalidJob(
            f"tensor-parallel groups of {tp} GPUs neither divide a node of {gpus_per_node} GPUs nor fill whole nodes",
            where="parallelism.tp",
            fix=f"choose tp among the divisors and the multiples of {gpus_per_node}",
        )
    if tp > gpus_per_node and apart > 1:
        raise InvalidJob(
            f"in order {'-'.join(dense.sizes)} the {tp} ranks of a tensor-parallel group are {apart} apart: they do "
            f"not fill whole nodes of {gpus_per_node} GPUs",
            where="parallelism.order",
            fix="let order begin with tp",
        )
    if 1 < tp <= gpus_per_node and gpus_per_node % (apart * tp):
        raise InvalidJob(
            f"in order {'-'.join(dense.sizes)} the {tp} ranks of a tensor-parallel group are {apart} apart: some leave "
            f"their node of {gpus_per_node} GPUs",
            where="parallelism.order",
            fix="let order begin with tp: a tensor-parallel group that a node has room for stays inside it",
        )
    if dense.ranks <= gpus_per_node:
        return RankNumbering({"faster": 1, "pp": 1, "slower": 1})
    names = list(dense.sizes)
    at = names.index("pp") if dense.sizes["pp"] > 1 else len(names)
    axes = {"faster": names[:at], "pp": names[at : at + 1], "slower": names[at + 1 :]}
    sizes = {part: prod(dense.sizes[axis] for axis in named) for part, named in axes.items()}
    slowest = max((part for part in sizes if sizes[part] > 1), key=list(sizes).index, default="faster")
    left, room = {}, gpus_per_node
    # a node is filled with all that runs faster than pp, or a part of it; then with stages, or a part; and so on
    for part, size in sizes.items():
        # of what runs slowest the last node may have less than others, as nothing follows it
        if part != slowest and size % room and room % size:
            return None
        left[part] = -(-size // room)
        room = max(1, room // size)
    return RankNumbering(left)


def _in_turn(dense: RankNumbering, gpus_per_node: int) -> RankNumbering:
    """Return how cells are numbered that share stages: one below the other, as their ranks follow each other."""
    if dense.ranks > MOST_RANKS_IN_TURN:
        raise InvalidJob(
            f"the job has {dense.ranks:,} GPUs, and stages that share nodes; such jobs are laid out for up to "
            f"{MOST_RANKS_IN_TURN:,}",
            where="parallelism",
            fix=f"choose dp so that tp * cp * dp is a multiple or a divisor of {gpus_per_node}",
        )
    return RankNumbering({"faster": -(-dense.ranks // gpus_per_node), "pp": 1, "slower": 1})


def nodes_of_tp(dense: RankNumbering, gpus_per_node: int) -> int:
    """Return how many nodes a TP group takes; 1 = it shares a node with others, or fills it."""
    return max(1, dense.sizes["tp"] // gpus_per_node)


def filling(dense: RankNumbering, gpus_per_node: int) -> tuple[str, ...]:
    """Return what is unusual about how the ranks fill their nodes, a sentence each; mostly nothing."""
    sentences = []
    nodes = -(-dense.ranks // gpus_per_node)
    if used := dense.ranks % gpus_per_node:
        which = f"the last of the {nodes:,} nodes" if nodes > 1 else "the node"
        sentences.append(f"{which} has ranks for {used} of its {gpus_per_node} GPUs, and is taken whole")
    if nodes > 1 and _cells(dense, gpus_per_node) is None:
        sentences.append("stages begin inside nodes, which are filled in the order of ranks: there is no grid of nodes")
    return tuple(sentences)


def _check_ranks(dense: RankNumbering, expert: RankNumbering) -> None:
    """Refuse more ranks than groups are laid out for."""
    if dense.sizes["cp"] * expert.sizes["ep"] > 1 and dense.ranks > MOST_RANKS:
        problem = f"the job has {dense.ranks:,} GPUs; context and expert groups are laid out for up to {MOST_RANKS:,}"
        raise InvalidJob(problem, where="parallelism", fix="lower dp or pp, or check the degrees for a slip")
