"""The question recounted from the cluster and the job alone: which nodes a placement can keep to, which grid, how many
cells in each domain.

A job's cells form a grid; what hard constraints hold together are *blocks* of cells, and the grid is one of blocks.
The choices of nodes are those that a certificate must rule out one by one.  Nothing here knows how the search counts.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import inf

import numpy as np

from scheduler.job import Family, Job
from scheduler.objective import Spread
from topology.cluster import BoolArray, Cluster, IntArray, count_nodes
from topology.flags import HEALTHY


@dataclass(frozen=True, slots=True)
class CountedGrid:
    """A grid whose cells go to domains that take so many of them."""

    rows: int
    columns: int
    capacities: tuple[int, ...]  # in descending order, none of them zero

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.rows * self.columns

    @property
    def largest(self) -> Spread:
        """Spreads that no placement exceeds."""
        domains = len(self.capacities)
        return Spread(min(domains, self.rows), min(domains, self.columns))


def usable(cluster: Cluster, job: Job, *, slowest: float, trunk: int | None = None) -> BoolArray:
    """Return shape [nodes]: idle nodes of the job's size and types up to a slowdown, in one trunk if one is given."""
    cluster = cluster.tolerating(job.tolerations)
    named = [job.gpu_types is None or name in job.gpu_types for name in cluster.gpu_types]
    fitting: BoolArray = (
        cluster.idle & (cluster.gpus == job.gpus_per_node) & np.array(named, dtype=np.bool_)[cluster.gpu_type_of]
    )
    fitting &= cluster.slowdown <= slowest
    if trunk is not None:
        fitting &= cluster.levels[0].domain_of == trunk
    return fitting


def counted_grid(cluster: Cluster, job: Job, nodes: BoolArray, level: str) -> CountedGrid | None:
    """Return the grid of a job on some nodes, counted at a level; ``None`` = its groups make no grid of equal blocks.

    The columns of the grid touch as many domains as the DP groups in them, its rows as many as the PP groups.

    :param nodes: shape [nodes].
    """
    counted = grid_and_room(cluster, job, nodes, level)
    if counted is None:
        return None
    rows, columns, blocks_in = counted
    capacities = np.sort(blocks_in)[::-1]
    return CountedGrid(rows, columns, tuple(capacities[capacities > 0].tolist()))


def grid_and_room(cluster: Cluster, job: Job, nodes: BoolArray, level: str) -> tuple[int, int, IntArray] | None:
    """Return rows and columns of that grid, and shape [domains of the level], the blocks that each takes."""
    blocks = _blocks(job, _held(cluster, job, cluster.level_index(level)))
    if blocks is None or not blocks.in_grid:
        return None
    return blocks.rows, blocks.columns, room(cluster, job, nodes, level) // blocks.size


def room(cluster: Cluster, job: Job, nodes: BoolArray, level: str) -> IntArray:
    """Return shape [domains of the level]: the cells that each takes, where held cells come in whole blocks."""
    closest, depth = len(cluster.levels) - 1, cluster.level_index(level)
    cells = _whole(count_nodes(cluster.levels[closest], nodes), job, _held(cluster, job, closest))
    for closer in range(closest, depth, -1):
        above = np.zeros(len(cluster.levels[closer - 1]), dtype=cells.dtype)
        np.add.at(above, cluster.levels[closer].parent_of, cells)
        cells = _whole(above, job, _held(cluster, job, closer - 1))
    return cells


def counted_out(cluster: Cluster, job: Job, nodes: BoolArray) -> bool:
    """Return whether the job has more cells than some nodes take in whole blocks, at any level or second hierarchy."""
    cells = job.grid.cells
    if int(room(cluster, job, nodes, cluster.levels[0].name).sum()) < cells:
        return True
    for second in cluster.second_levels:
        held = tuple(hold.family for hold in job.holds if hold.level == second.name)
        if held and int(_whole(count_nodes(second, nodes), job, held).sum()) < cells:
            return True
    return False


def _held(cluster: Cluster, job: Job, depth: int) -> tuple[Family, ...]:
    """Return the families whose groups lie in one domain each of the level of that depth."""
    beside = {level.name for level in cluster.second_levels}
    holds = [hold for hold in job.holds_on(cluster) if hold.level not in beside]
    return tuple(hold.family for hold in holds if cluster.level_index(hold.level) >= depth)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The equal blocks of a job's cells."""

    rows: int  # of the grid of blocks
    columns: int
    size: int  # cells of each
    in_grid: bool  # whether they stand in rows and columns that touch what the groups touch; else there are no such


@lru_cache(maxsize=64)
def _blocks(job: Job, held: tuple[Family, ...]) -> _Blocks | None:
    """Return the blocks where groups of some families are held together; ``None`` = they are not equal."""
    grid = job.grid
    block = _together(job, held).reshape(grid.rows, grid.columns)
    sizes = np.bincount(block.ravel())
    sizes = sizes[sizes > 0]
    if sizes.min() < sizes.max():
        return None
    rows, first_row, row_of = np.unique(block[:, 0], return_index=True, return_inverse=True)
    columns, first_column, column_of = np.unique(block[0, :], return_index=True, return_inverse=True)
    whole = block[np.ix_(first_row, first_column)]
    crossed = len(sizes) == whole.size and bool((block == whole[row_of[:, None], column_of[None, :]]).all())
    row, column = np.meshgrid(row_of.astype(np.int32), column_of.astype(np.int32), indexing="ij")
    in_grid = crossed and _runs_through(job, "dp", row, column) and _runs_through(job, "pp", column, row)
    return _Blocks(len(rows), len(columns), int(sizes[0]), in_grid)


def _together(job: Job, held: tuple[Family, ...]) -> IntArray:
    """Return shape [cells], for each the first cell of its block: those that groups of some families join."""
    first = np.arange(job.grid.cells, dtype=np.int32)
    before = np.full_like(first, -1)
    while held and not np.array_equal(first, before):
        before = first.copy()
        for groups in map(job.grid.groups.__getitem__, held):
            least = np.full(int(groups.group.max()) + 1, job.grid.cells, dtype=np.int32)
            np.minimum.at(least, groups.group, first[groups.cell])
            # a cell may be in several groups
            np.minimum.at(first, groups.cell, least[groups.group])
    return first


def _whole(cells: IntArray, job: Job, held: tuple[Family, ...]) -> IntArray:
    """Return how many cells fit in whole blocks; all of them where blocks are not equal, which is no fewer."""
    blocks = _blocks(job, held) if held else None
    return cells if blocks is None else cells // blocks.size * blocks.size


def _runs_through(job: Job, family: Family, along: IntArray, across: IntArray) -> bool:
    """Return whether each group of a family lies in one line of the grid of blocks, one for each value of ``across``,
    and each line has a group with a cell in every block of it: then groups and lines touch equally many domains.

    :param along: shape [rows, columns] of cells, the place of each cell in its line.
    """
    groups = job.grid.groups[family]
    lengths, lines = int(along.max()) + 1, int(across.max()) + 1
    cell = groups.cell
    line, place = across.ravel()[cell].astype(np.int64), along.ravel()[cell]
    # (group, line, place) once each; then how many places of its line a group has
    seen = np.unique((groups.group.astype(np.int64) * lines + line) * lengths + place) // lengths
    group_and_line, places = np.unique(seen, return_counts=True)
    one_line_each = len(np.unique(group_and_line // lines)) == len(group_and_line)
    return one_line_each and len(np.unique((group_and_line % lines)[places == lengths])) == lines


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """Nodes of some types of GPU and of one size, in one trunk where nothing joins the trunks."""

    job: Job  # for these nodes
    gpu_types: tuple[str, ...]  # empty text = nodes of which no type is said
    trunk: int | None  # None = the whole cluster

    @property
    def speed(self) -> float:
        """Relative speed of the job, that of the slowest of the types."""
        return self.job.speed_on(self.gpu_types)

    def nodes(self, cluster: Cluster, slowest: float) -> BoolArray:
        """Return shape [nodes], those up to a slowdown."""
        return usable(cluster, self.job, slowest=slowest, trunk=self.trunk)

    def slowdowns(self, cluster: Cluster) -> tuple[float, ...]:
        """Return the slowdowns up to which the job may use nodes, ascending; under ``price`` each that a node has."""
        if self.job.avoid == "strict":
            return (HEALTHY,)
        if self.job.avoid == "ignore":
            return (inf,)
        slowdowns = np.unique(cluster.slowdown[self.nodes(cluster, inf)]).tolist()
        return (HEALTHY, *(slowdown for slowdown in slowdowns if slowdown > HEALTHY))


def node_choices(cluster: Cluster, job: Job) -> tuple[NodeChoice, ...]:
    """Return choices such that every placement keeps to one of them, and is no faster than its speed.

    Where types may be mixed: for each speed all types at least as fast, as the slowest type in use sets the pace.
    """
    names = [name for name in cluster.gpu_types if job.gpu_types is None or name in job.gpu_types]
    sizes = {name: sizes_on(job, name) for name in names}
    choices: dict[tuple[tuple[str, ...], int], None] = {}
    for name in names:
        for size in sizes[name]:
            if job.mix_types:
                several = tuple(
                    other for other in names if size in sizes[other] and job.speed_on([other]) >= job.speed_on([name])
                )
                choices[several, size] = None
            else:
                choices[(name,), size] = None
    trunks = [None] if cluster.trunks is None else range(len(cluster.trunks))
    return tuple(NodeChoice(job_on(job, types, size), types, trunk) for types, size in choices for trunk in trunks)


def job_on(job: Job, gpu_types: tuple[str, ...], gpus_per_node: int) -> Job:
    """Return a job as one for nodes of some types and one size."""
    mixed = job.mix_types and len(gpu_types) > 1
    return job.replace(gpu_types=gpu_types, mix_types=mixed, gpus_per_node=gpus_per_node, node_sizes=())


def sizes_on(job: Job, gpu_type: str) -> tuple[int, ...]:
    """Return how many GPUs the job's nodes may have, if they are of a type."""
    return tuple(size.gpus for size in job.node_sizes if size.gpu_type == gpu_type) or (job.gpus_per_node,)
