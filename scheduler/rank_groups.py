"""Which ranks of a job communicate, and which nodes that joins: the groups of every kind of parallelism.

A job has two numberings of the same ranks, as Megatron-LM has (``parallel_state.initialize_model_parallel``): one for
its dense layers, over tp, cp, dp and pp, and one for its expert layers: over expert tensor parallelism in place of tp,
ep, the data parallelism that is left without cp, and the same pp.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
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

        order = np.lexsort((self.cell, self.group))
        parts = np.split(self.cell[order], np.cumsum(self.sizes)[:-1])
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


def cell_groups(numbering: RankNumbering, dimension: str, *, gpus: int, cell_of_node: IntArray) -> CellGroups:
    """Return which cells the groups of a dimension touch; groups that touch the same cells count once.

    :param gpus: ranks of a node; ``cell_of_node``: shape [nodes].
    """
    import numpy as np

    step = numbering.stride(dimension)
    # neighbours in a run of this length lie in one node, and so do the ranks that each is grouped with
    run = gcd(step, gpus)
    node, offset = np.divmod(numbering.groups(dimension)[::run, 0], np.int32(gpus))
    # which further nodes a group touches depends on where in its first node it begins
    offsets, kind = np.unique(offset, return_inverse=True)
    further = (offsets[:, None].astype(np.int64) + step * np.arange(numbering.sizes[dimension])) // gpus
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


def groups_of_ranks(ranks: IntArray, *, gpus: int) -> CellGroups:
    """Return which nodes groups of ranks touch, each node a cell; groups that touch the same nodes count once.

    :param ranks: shape [groups, members], those of a group ascending; ``gpus``: ranks of a node.
    """
    import numpy as np

    nodes = ranks // np.int32(gpus)
    nothing = int(nodes.max()) + 1
    nodes[:, 1:][nodes[:, 1:] == nodes[:, :-1]] = nothing
    nodes = np.unique(np.sort(nodes, axis=1), axis=0)
    group, member = np.nonzero(nodes < nothing)
    cell = nodes[group, member]
    by_cell = np.argsort(cell, kind="stable")
    return CellGroups(cell[by_cell].astype(np.int32), group[by_cell].astype(np.int32))


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
