"""Which nodes a gang may use, and which of its cells must stay together, decided in one place for every algorithm.

A gang takes whole nodes: idle (no GPU in use), of the job's size, of types of GPU that it admits, never faulty, none
that is kept out.  Slow nodes are admitted unless the job says ``avoid: strict``; weighing them under ``avoid: price``
is the business of the algorithm that can, and it narrows the admitted nodes with ``slowest``.  Hard constraints of a
job (``holds``) concern groups, not nodes: they make blocks.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from ground.errors import InvalidJob
from ground.quantities import one_of
from scheduler.job import Family, Job
from topology.cluster import BoolArray, Cluster, IntArray, count_nodes, shortage_apart
from topology.flags import FAULTY, HEALTHY, NodeFlag
from topology.taints import Taint


def admissible(cluster: Cluster, job: Job, *, slowest: float | None = None) -> BoolArray:
    """Return nodes that may host a cell of the job.

    :param slowest: admit nodes up to this slowdown, 1.0 = no flagged node; default by the job's ``avoid``: 1.0 when
        ``strict``, any otherwise.
    :returns: shape [nodes].
    """
    cluster = cluster.tolerating(job.tolerations)
    limit = _slowest(job) if slowest is None else slowest
    admitted: BoolArray = cluster.idle & sized(cluster, job)
    if limit < inf and cluster.flags:
        admitted &= cluster.slowdown <= limit
    return admitted if job.gpu_types is None else admitted & typed(cluster, job.gpu_types)


def prices_slow_nodes(cluster: Cluster, job: Job) -> bool:
    """Return whether slow nodes have a price: the job weighs them against spread, and might be on one."""
    if job.avoid != "price" or not cluster.flags:
        return False
    return bool((cluster.slowdown[admissible(cluster, job)] > HEALTHY).any())


def choices(cluster: Cluster, job: Job) -> tuple[Job, ...]:
    """Return the job as a job for one type of GPU and size of node, for each that it may be on; then for several types,
    where it may mix them.

    :returns: the job itself, alone, where there is nothing to choose.
    """
    pairs = [(name, size) for name in types_of(cluster, job) for size in _sizes(job, name)]
    if len(pairs) < 2:
        return (job.replace(node_sizes=(), gpus_per_node=pairs[0][1]) if job.node_sizes and pairs else job,)
    job = job.replace(node_sizes=())
    alone = [job.replace(gpu_types=(name,), mix_types=False, gpus_per_node=size) for name, size in pairs]
    if not job.mix_types:
        return tuple(alone)
    mixed = []
    # nodes of one gang are of one size, whatever their types
    for size in sorted({size for _, size in pairs}):
        alike = [name for name, its in pairs if its == size]
        for pace in sorted({job.speed_on([name]) for name in alike}):
            several = tuple(name for name in alike if job.speed_on([name]) >= pace)
            mixed.append(job.replace(gpu_types=several, gpus_per_node=size))
    return (*alone, *(several for several in mixed if len(several.gpu_types or ()) > 1))


def for_each_size(cluster: Cluster, job: Job) -> tuple[Job, ...]:
    """Return the job as one for nodes of one size, for each that it may have, with the types of GPU of such nodes; the
    job itself where it says the size.
    """
    if not job.node_sizes:
        return (job,)
    types: dict[int, list[str]] = {}
    for name in types_of(cluster, job):
        for size in _sizes(job, name):
            types.setdefault(size, []).append(name)
    alike = job.replace(node_sizes=())
    return tuple(alike.replace(gpus_per_node=size, gpu_types=tuple(names)) for size, names in types.items()) or (alike,)


def _sizes(job: Job, gpu_type: str) -> tuple[int, ...]:
    """Return how many GPUs the job's nodes may have, if they are of a type."""
    return tuple(node_size.gpus for node_size in job.node_sizes if node_size.gpu_type == gpu_type) or (
        job.gpus_per_node,
    )


@dataclass(frozen=True, slots=True)
class TypeChoice:
    """A job as one for some of the types of GPU that it may be on, and what holds before it is placed."""

    job: Job
    gpu_types: tuple[str, ...]  # of the cluster; empty text = nodes of which no type is said, empty = nothing says any
    usable: int  # nodes that may host a cell, where types are said
    # why it cannot fit whatever its shape: it has more nodes than it may, or, of several choices, too few are free
    shortage: str = ""


def type_choices(cluster: Cluster, job: Job) -> tuple[tuple[TypeChoice, ...], str]:
    """Return the job for each of its :func:`choices`; and why it fits on none of several, empty = it may."""
    jobs = choices(cluster, job)
    if len(jobs) == 1 and not any(cluster.gpu_types):
        return (TypeChoice(job, (), 0, over_limit(cluster, job)),), ""
    reasons = [_short(cluster, of_type) if len(jobs) > 1 else over_limit(cluster, of_type) for of_type in jobs]
    usable = [int(admissible(cluster, of_type).sum()) for of_type in jobs]
    names = [types_of(cluster, of_type) for of_type in jobs]
    of_types = tuple(TypeChoice(*facts) for facts in zip(jobs, names, usable, reasons, strict=True))
    return of_types, _short_of_all(cluster, job, reasons)


def types_of(cluster: Cluster, job: Job) -> tuple[str, ...]:
    """Return the types of GPU of the cluster that the job may be on; empty text = nodes of which no type is said."""
    return tuple(name for name in cluster.gpu_types if job.gpu_types is None or name in job.gpu_types)


def flags_of_usable(cluster: Cluster, job: Job) -> tuple[NodeFlag, ...]:
    """Return flags of the nodes that the job could use if nothing were held against them, by node."""
    cluster = cluster.tolerating(job.tolerations)
    usable = sized(cluster, job) & (cluster.free_gpus == cluster.gpus) & typed(cluster, job.gpu_types)
    usable[list(cluster.kept_out)] = False
    flagged = [flag for i, flag in cluster.flags.items() if usable[i] and flag.slowdown > HEALTHY]
    return tuple(sorted(flagged, key=lambda flag: flag.node))


def shortage(cluster: Cluster, job: Job) -> str:
    """Return why the job cannot fit whatever its shape: fewer admissible nodes than cells, and what holds the others.

    :returns: one sentence for the user; empty when there are enough nodes, in one trunk where nothing joins the trunks.
    :raises InvalidJob: the job cannot be cut into nodes.
    """
    reasons = [_short(cluster, choice) for choice in choices(cluster, job)]
    return reasons[0] if len(reasons) == 1 else _short_of_all(cluster, job, reasons)


def _short(cluster: Cluster, job: Job) -> str:
    """Return why a job for nodes of one size cannot fit, on any of its types; empty = there are enough nodes."""
    if too_many := over_limit(cluster, job):
        return too_many
    admitted = admissible(cluster, job)
    if (free := int(admitted.sum())) < job.grid.cells:
        return _too_few(cluster, job, free)
    apart = shortage_apart(cluster, admitted, job.grid.cells)
    return apart and f"{_needs(job)} {apart}"


def _short_of_all(cluster: Cluster, job: Job, reasons: Sequence[str]) -> str:
    """Return why a job fits on none of its several :func:`choices`, given why not on each; empty = on one it may."""
    if not all(reasons):
        return ""
    if too_many := over_limit(cluster, job):
        return too_many
    if job.node_sizes:
        return "; ".join(reasons)
    admitted = admissible(cluster, job)
    if job.mix_types or admitted.sum() < job.grid.cells:
        return _short(cluster, job)
    free = np.bincount(cluster.gpu_type_of[admitted], minlength=len(cluster.gpu_types)).tolist()
    counts = zip(cluster.gpu_types, free, strict=True)
    listed = ", ".join(f"{count} of {name or 'no type that is said'}" for name, count in counts if count)
    return f"{_needs(job)}, all with the same type of GPU; free are {listed} (gpu_types: any would mix them)"


def over_limit(cluster: Cluster, job: Job) -> str:
    """Return that the job has more nodes than any job may have, and who says so; empty = it has not."""
    limit = cluster.node_limit
    if limit is None or job.grid.cells <= limit.nodes:
        return ""
    return f"the job has {job.grid.cells:,} nodes, and may have {limit.nodes:,} ({limit.why})"


def held_nodes(cluster: Cluster, job: Job) -> dict[str, int]:
    """Return why nodes are not admissible -> how many are not; each counts once, by the first reason of those in order:
    GPUs that are shared or of another number or type, faulty, kept out (in the words of who does), in use, flagged.
    """
    cluster = cluster.tolerating(job.tolerations)
    shared = ~cluster.whole  # told before their size, which is that of GPUs that no job gets
    fits_size = sized(cluster, job)
    faulty = cluster.slowdown == FAULTY
    in_use = cluster.free_gpus != cluster.gpus
    whole_nodes = "" if fits_size.any() else ": ask for whole nodes"
    if whole_nodes and cluster.gpus_assumed:
        whole_nodes = f", which is assumed: give --gpus-per-node {job.gpus_per_node} if that is what they have"
    fits = fits_size & typed(cluster, job.gpu_types)
    kept_out = np.zeros(len(cluster), dtype=np.bool_)
    kept_out[list(cluster.kept_out)] = True
    reasons = Counter(why for i, why in cluster.kept_out.items() if (fits[i] or shared[i]) and not faulty[i])
    held = {
        f"with another number of GPUs{whole_nodes}": int((~fits_size & ~shared).sum()),
        "with another type of GPU": int((fits_size & ~fits & ~shared).sum()),
        "faulty": int(((fits | shared) & faulty).sum()),
        **reasons,
    }
    fits &= ~faulty & ~kept_out
    held["in use"] = int((fits & in_use).sum())
    held["flagged (avoid: strict)"] = int((fits & ~in_use & (cluster.slowdown > _slowest(job))).sum())
    return {why: nodes for why, nodes in held.items() if nodes}


def _too_few(cluster: Cluster, job: Job, free: int) -> str:
    """Return that fewer nodes than the job has cells are admissible, and what holds the others."""
    others = ", ".join(f"{nodes:,} {why}" for why, nodes in held_nodes(cluster, job).items())
    few = f"{_needs(job)}, the cluster has {free:,} of {len(cluster):,}" + (f" ({others})" if others else "")
    ways = ", ".join(f"--tolerate {taint}" for taint in dict.fromkeys(map(str, repelling_taints(cluster, job))))
    return few + (f"; {ways}, or tolerations of the job, would admit it to nodes that taints keep" if ways else "")


def repelling_taints(cluster: Cluster, job: Job) -> tuple[Taint, ...]:
    """Return the taints that keep a job off nodes that would suit it and are not faulty, those of most nodes first."""
    cluster = cluster.tolerating(job.tolerations)
    fits = sized(cluster, job) & typed(cluster, job.gpu_types) & (cluster.slowdown < FAULTY)
    counts = Counter(taint for i, taints in cluster.taints.items() if fits[i] for taint in taints if taint.repels)
    return tuple(sorted(counts, key=lambda taint: (-counts[taint], str(taint), taint.effect)))


def _needs(job: Job) -> str:
    types = f" of the type {' or '.join(job.gpu_types)}" if job.gpu_types and any(job.gpu_types) else ""
    return f"the job needs {job.grid.cells:,} free nodes of {job.gpus_per_node} GPUs{types}"


def check_held_together(cluster: Cluster, job: Job) -> None:
    """Make sure that groups could be held where the job says, were no node in use.

    :raises UnknownName: the cluster has no such level.
    :raises InvalidJob: holds tie unequally many cells together; or TP groups take several nodes, and spread counts at
        a closer level than they are held at, or no domain has as many nodes of the job's size.
    """
    parts = job.nodes_of_tp > 1 and not job.node_sizes  # of types that differ, each is looked at when it is tried
    size = job.gpus_per_node
    alike = cluster.whole & (cluster.gpus == size) & typed(cluster, job.gpu_types)
    holds = job.holds_on(cluster) if job.holds or parts else ()
    held = [(cluster.level_index(hold.level), hold.family) for hold in holds if job.holds]
    for depth in sorted({within for within, _ in held}):
        job.grid.tied([family for within, family in held if within >= depth])
    if not parts:
        return
    level = cluster.level(holds[-1].level)
    nodes = count_nodes(level, alike)
    # a cluster without a single node of that size is told by the count of nodes, which knows why
    if not 0 < (most := int(nodes.max())) < job.nodes_of_tp:
        return
    totals = (count_nodes(level, cluster.gpus == size) for level in cluster.levels)
    broader = [
        level.name for level, total in zip(cluster.levels, totals, strict=True) if total.max() >= job.nodes_of_tp
    ]
    wider = f", or set tp_level to a level that has room: {', '.join(broader)}" if broader else ""
    raise InvalidJob(
        f"a TP group of {job.parallelism.tp} GPUs takes {job.nodes_of_tp} nodes of {size}, and no "
        f"{one_of(level.name)} has more than {most} such nodes: {most * size} GPUs would fit",
        where="parallelism.tp" if job.tp_level is None else "tp_level",
        fix=f"choose tp among the divisors and the multiples of {size}, at most {most * size}{wider}",
    )


def held_in_cut_domains(cluster: Cluster, job: Job) -> str:
    """Return why domains that the job holds groups inside are cut in pieces, so that what fits none of the pieces may
    fit the whole; empty = none is known to be.
    """
    held = dict.fromkeys(hold.level for hold in (job.holds_on(cluster) if job.holds_groups else ()))
    return "; ".join(cluster.cut[level] for level in held if level in cluster.cut)


def typed(cluster: Cluster, gpu_types: Collection[str] | None) -> BoolArray:
    """Return shape [nodes], whether the GPUs are of one of the types; ``None`` = of any."""
    of_type = [gpu_types is None or name in gpu_types for name in cluster.gpu_types]
    return np.array(of_type, dtype=np.bool_)[cluster.gpu_type_of]


def sized(cluster: Cluster, job: Job) -> BoolArray:
    """Return shape [nodes], whether a node has as many GPUs as the job wants of each, or of each of its type."""
    if not job.node_sizes:
        alike: BoolArray = cluster.gpus == job.gpus_per_node
        return alike
    fitting = np.zeros(len(cluster), dtype=np.bool_)
    for node_size in job.node_sizes:
        fitting |= typed(cluster, (node_size.gpu_type,)) & (cluster.gpus == node_size.gpus)
    return fitting


def _slowest(job: Job) -> float:
    return HEALTHY if job.avoid == "strict" else inf


@dataclass(frozen=True, slots=True)
class Blocks:
    """The grid of blocks of one level: cell (r, c) is in block row ``row_of[r]`` and block column ``column_of[c]``.

    A hold keeps every group of a family inside one domain of a level, hence of every broader one.  At a level the cells
    of groups that share a cell stay together: a *block*, one cell without holds.  Groups run along whole rows or down
    columns in the same way everywhere, so blocks are equal, and those of a closer level cut those of a broader one.
    """

    row_of: IntArray
    column_of: IntArray

    @property
    def rows(self) -> int:
        """Number of block rows."""
        return int(self.row_of.max()) + 1

    @property
    def columns(self) -> int:
        """Number of block columns."""
        return int(self.column_of.max()) + 1

    @property
    def size(self) -> int:
        """Cells in each block."""
        return len(self.row_of) * len(self.column_of) // (self.rows * self.columns)

    @property
    def of_cell(self) -> IntArray:
        """Shape [rows of cells, columns of cells], the number of each cell's block, row by row."""
        return self.row_of[:, None] * np.int32(self.columns) + self.column_of[None, :]


def blocks_at(cluster: Cluster, job: Job, depth: int) -> Blocks:
    """Return the blocks that must stay inside one domain of the level of that depth.

    :param depth: index of the level, 0 the broadest; ``len(cluster.levels)`` stands for the nodes themselves.
    """
    held = [hold.family for hold in job.holds_on(cluster) if cluster.level_index(hold.level) >= depth]
    return Blocks(*job.grid.tied(held))


@dataclass(frozen=True, slots=True)
class RoomBeside:
    """What holds at a second hierarchy ask, and what there is."""

    level: str
    families: tuple[Family, ...]  # held inside one domain each
    size: int  # cells of each block
    wanted: int  # blocks
    room: int  # blocks that the domains can take

    @property
    def refusal(self) -> str:
        """Why a job cannot be held there, by counting; empty = nothing says so."""
        if self.room >= self.wanted:
            return ""
        families = " and ".join(f"every {family} group" for family in self.families)
        return (
            f"holding {families} inside one {self.level} makes {self.wanted} blocks of {self.size} nodes, and the free "
            f"nodes have room for {self.room} such blocks"
        )


def room_beside(cluster: Cluster, job: Job, usable: BoolArray) -> Iterator[RoomBeside]:
    """Yield what is asked, of the usable nodes, of each second hierarchy that a job holds groups at."""
    for second in cluster.second_levels:
        if held := tuple(hold.family for hold in job.holds if hold.level == second.name):
            blocks = Blocks(*job.grid.tied(held))
            room = int((count_nodes(second, usable) // blocks.size).sum())
            yield RoomBeside(second.name, held, blocks.size, blocks.rows * blocks.columns, room)


def capacity_by_level(cluster: Cluster, job: Job, usable: BoolArray) -> tuple[IntArray, ...]:
    """Return the cells that each domain can take in whole blocks, for every level.

    :param usable: shape [nodes].
    :returns: for each level shape [domains]: a multiple of the size of the level's blocks, at most the usable nodes.
    """
    capacities: list[IntArray] = []
    for depth in reversed(range(len(cluster.levels))):
        level = cluster.levels[depth]
        if capacities:
            cells = np.zeros(len(level), dtype=np.int32)
            np.add.at(cells, cluster.levels[depth + 1].parent_of, capacities[-1])
        else:
            cells = count_nodes(level, usable)
        size = blocks_at(cluster, job, depth).size
        # whole blocks alone: what is left over of a domain takes none
        capacities.append(cells // size * size)
    return tuple(reversed(capacities))


def least_spread(cluster: Cluster, job: Job, family: Family, level: str | None, usable: BoolArray) -> int:
    """Return a bound by counting: a group of a family touches at least so many domains of a level.

    Its largest group has one cell on each node, and no fewer domains than the largest ones have as many nodes.

    :param usable: shape [nodes], at least as many as the group has cells.
    """
    largest_first = np.sort(count_nodes(cluster.level(level), usable))[::-1]
    return int(np.searchsorted(np.cumsum(largest_first), job.grid.groups[family].largest)) + 1
