"""The one evaluator: whether a placement is valid and what it is worth.

The evaluator knows no algorithm.  Every algorithm's result passes through :func:`evaluate` before it is shown.

Spread of a group = number of distinct domains its cells touch.  The objective is Eq. 2 of the Arnold paper
(arXiv 2509.15940): ``alpha * max over DP groups + beta * max over PP groups`` of spread, plus the soft terms that a
job asks for.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from ground.errors import InvalidPlacement
from ground.records import AtLeastOne, JsonRecord
from scheduler.grid import Grid
from scheduler.job import FAMILIES, Count, Family, Job, stage_slowdown
from topology.cluster import Cluster, IntArray, Level
from topology.flags import HEALTHY

TOLERANCE = 1e-9  # Two objectives closer than this are the same: they are sums of a few products of small integers
FEW_CELLS = 32  # up to here a set of pairs is counted faster than an array is sorted: several times at four cells


class Spread(JsonRecord):
    """Largest number of domains that a group touches."""

    dp: AtLeastOne
    """DP spread, S."""
    pp: AtLeastOne
    """PP spread, R."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a valid placement is worth."""

    dp: int  # S, largest number of domains a DP group (column) touches at the job's level; pp: R, the same for rows
    pp: int
    objective: float  # alpha * S + beta * R plus soft terms
    closer: Mapping[str, float]  # Eq. 2 at each of the `closer_levels`, from the broadest
    by_level: Mapping[str, Mapping[Family, int]]  # level or second hierarchy -> family -> largest spread of a group
    domains: Mapping[str, int]  # cells in each domain of the job's level, domains without cells left out
    flagged: tuple[int, ...]  # indices of the flagged nodes in use
    gpu_types: tuple[str, ...]  # types of GPU in use, in the cluster's order; empty text = not said
    level: str  # name of the job's level
    # EP spread, largest number of domains an expert group touches at the job's level; None = each lies on one node
    experts: int | None = None

    @property
    def spread(self) -> Spread:
        """Both spreads as one value."""
        return Spread(self.dp, self.pp)

    @property
    def goals(self) -> tuple[float, ...]:
        """What :func:`goals` come to: the better of two placements has the smaller number at the first difference."""
        return self.objective, *(() if self.experts is None else (float(self.experts),)), *self.closer.values()


def spread(groups: IntArray, domains: IntArray) -> int:
    """Return the largest number of distinct domains that a group touches.

    :param groups: any shape, the group of each cell (of each pair, where cells are in several groups), numbered from 0;
        ``domains``: its domain, same shape.
    """
    if groups.size <= FEW_CELLS:
        pairs = set(zip(groups.ravel().tolist(), domains.ravel().tolist(), strict=True))
        return max(Counter(group for group, _ in pairs).values())
    width = int(domains.max()) + 1
    touched = groups.ravel() * np.int64(width) + domains.ravel()
    touched.sort()
    distinct = np.ones(len(touched), dtype=np.bool_)
    np.not_equal(touched[1:], touched[:-1], out=distinct[1:])
    return int(np.bincount(touched[distinct] // width).max())


def objective_of(job: Job, dp: int, pp: int, soft: float = 0.0) -> float:
    """Return Eq. 2 for a pair of spreads, plus the soft terms."""
    return job.alpha * dp + job.beta * pp + soft


def trivial_bound(job: Job) -> float:
    """Return what any placement costs at least: every group touches one domain."""
    return objective_of(job, 1, 1, job.least_soft)


def objective_terms(cluster: Cluster, job: Job) -> tuple[Count, ...]:
    """Return the terms of the objective: Eq. 2 at the job's level, and the soft terms."""
    return *job.eq2_terms(cluster.level(job.level).name), *job.soft


def goals(cluster: Cluster, job: Job) -> tuple[tuple[Count, ...], ...]:
    """Return the terms of what placements are compared by, one goal after another.

    First the objective; then, where expert groups take several nodes, the EP spread at the job's level, as all-to-all
    between domains is the largest traffic of such a job, and Eq. 2 does not know it; then Eq. 2 at each closer level.
    """
    experts = ((Count("ep", cluster.level(job.level).name, 1.0),),) if job.experts_apart else ()
    return (objective_terms(cluster, job), *experts, *(job.eq2_terms(level) for level in closer_levels(cluster, job)))


def closer_levels(cluster: Cluster, job: Job) -> tuple[str, ...]:
    """Return the levels closer than the job's, from the broadest, but for those that its objective weighs.

    Of placements with equal objectives and EP spreads the better one has less of Eq. 2 at the first of them, then at
    the second.
    """
    return _closer_than(cluster.level(job.level), cluster, job)


def _closer_than(level: Level, cluster: Cluster, job: Job) -> tuple[str, ...]:
    weighed = {level.level for level in job.levels if level.weight}
    inside = takewhile(lambda closer: closer is not level, reversed(cluster.levels))
    return tuple(closer.name for closer in inside if closer.name not in weighed)[::-1]


def evaluate(cluster: Cluster, job: Job, nodes: IntArray) -> Evaluation:
    """Check a placement and say what it is worth.

    :param nodes: shape [rows, columns], index of the node of each cell.
    :raises InvalidPlacement: wrong shape, a cell without a node, a node twice, a node that is not free or has the wrong
        number of GPUs, a faulty node, a slow node under ``avoid: strict``, a hard constraint broken, GPUs of a type
        that the job does not admit or several that it does not mix, nodes in several trunks that nothing joins.
    """
    grid = job.grid
    _check_nodes(cluster, job, grid, nodes)
    by_level = spread_by_level(cluster, grid, nodes)
    gpu_types = tuple(cluster.gpu_types[kind] for kind in _kinds(cluster, nodes.ravel()))
    holds = job.holds_on(cluster)
    # each name that the job uses is looked up once
    names = [job.level, *(hold.level for hold in holds), *(count.level for count in job.soft)]
    named = {name: cluster.level(name) for name in names}
    for hold in holds:
        if by_level[named[hold.level].name][hold.family] > 1:
            fix = "report this as a bug"
            raise InvalidPlacement(f"one of the {hold.family} groups leaves its {hold.level}", fix=fix)
    level = named[job.level]
    dp, pp = by_level[level.name]["dp"], by_level[level.name]["pp"]
    soft = sum(count.weight * by_level[named[count.level].name][count.family] for count in job.soft)
    cells = np.bincount(level.domain_of[nodes.ravel()], minlength=len(level))
    closer = ((name, by_level[name]) for name in _closer_than(level, cluster, job))
    tolerated, flat = cluster.tolerating(job.tolerations), nodes.ravel()
    flagged = sorted(flat[tolerated.slowdown[flat] > HEALTHY].tolist()) if tolerated.flags else []
    return Evaluation(
        dp=dp,
        pp=pp,
        objective=objective_of(job, dp, pp, soft),
        experts=by_level[level.name]["ep"] if job.experts_apart else None,
        closer={name: objective_of(job, of["dp"], of["pp"]) for name, of in closer},
        by_level=by_level,
        domains={level.domains[k]: int(cells[k]) for k in np.flatnonzero(cells)},
        flagged=tuple(flagged),
        gpu_types=gpu_types,
        level=level.name,
    )


def worth_of(cluster: Cluster, job: Job, nodes: IntArray) -> Evaluation | None:
    """Return what a placement is worth; ``None`` = it breaks a rule.  See :func:`evaluate`."""
    try:
        return evaluate(cluster, job, nodes)
    except InvalidPlacement:
        return None


def spread_by_level(cluster: Cluster, grid: Grid, nodes: IntArray) -> dict[str, Mapping[Family, int]]:
    """Return the largest spread of a group for every level, every second hierarchy and every family.

    :param nodes: shape [rows, columns], index of the node of each cell; whether they may be used is not asked.
    """
    by_level: dict[str, Mapping[Family, int]] = {}
    for level in (*cluster.levels, *cluster.second_levels):
        domains = level.domain_of[nodes]
        if np.count_nonzero(domains == domains[0, 0]) == domains.size:
            by_level[level.name] = dict.fromkeys(FAMILIES, 1)
        else:
            by_level[level.name] = {
                family: spread(*groups.paired(domains)) if (groups := grid.groups[family]).largest > 1 else 1
                for family in FAMILIES
            }
    return by_level


def _check_nodes(cluster: Cluster, job: Job, grid: Grid, nodes: IntArray) -> None:
    if not isinstance(nodes, np.ndarray) or nodes.dtype.kind not in "iu":
        raise InvalidPlacement("the placement is no array of indices of nodes")
    if nodes.shape != (grid.rows, grid.columns):
        raise InvalidPlacement(f"the placement has shape {nodes.shape}, the job {(grid.rows, grid.columns)}")
    cluster = cluster.tolerating(job.tolerations)
    if (limit := cluster.node_limit) is not None and nodes.size > limit.nodes:
        raise InvalidPlacement(f"the placement has {nodes.size} nodes, and may have {limit.nodes} ({limit.why})")
    flat = nodes.ravel()
    ordered = np.sort(flat)
    if ordered[0] < 0 or ordered[-1] >= len(cluster):
        raise InvalidPlacement("a cell has no node of this cluster")
    if np.count_nonzero(ordered[1:] == ordered[:-1]):
        twice = int(flat[np.flatnonzero(np.bincount(flat)[flat] > 1)[0]])
        raise InvalidPlacement(f"node {cluster.names[twice]!r} is used twice")
    if (bad := flat[~cluster.idle[flat]]).size:
        why = f": {cluster.kept_out[int(bad[0])]}" if int(bad[0]) in cluster.kept_out else ""
        raise InvalidPlacement(f"node {cluster.names[bad[0]]!r} is not free{why}")
    if (bad := flat[cluster.gpus[flat] != job.gpus_per_node]).size:
        raise InvalidPlacement(f"node {cluster.names[bad[0]]!r} has not {job.gpus_per_node} GPUs")
    kinds = _kinds(cluster, flat)
    barred = [kind for kind in kinds if job.gpu_types is not None and cluster.gpu_types[kind] not in job.gpu_types]
    if barred:
        node = flat[np.isin(cluster.gpu_type_of[flat], barred)][0]
        gpu_type = cluster.gpu_types[cluster.gpu_type_of[node]]
        raise InvalidPlacement(
            f"node {cluster.names[node]!r} has GPUs of the type {gpu_type!r}, which the job does not admit"
        )
    if len(kinds) > 1 and not job.mix_types:
        first, second = (cluster.gpu_types[kind] for kind in kinds[:2])
        raise InvalidPlacement(f"GPUs of the types {first!r} and {second!r} are mixed, and the job does not say any")
    if (trunks := cluster.trunks) is not None and len(touched := np.unique(trunks.domain_of[flat])) > 1:
        first, second = (trunks.domains[k] for k in touched[:2])
        raise InvalidPlacement(f"nothing joins {first!r} and {second!r}, and the placement lies in both")
    if job.avoid == "strict" and (bad := flat[cluster.slowdown[flat] > 1.0]).size:
        raise InvalidPlacement(f"node {cluster.names[bad[0]]!r} is flagged and the job avoids flagged nodes")


def _kinds(cluster: Cluster, flat: IntArray) -> list[int]:
    """Return the indices of the types of GPU of some nodes, ascending."""
    # most clusters have one type, and many placements are evaluated
    return [0] if len(cluster.gpu_types) == 1 else np.unique(cluster.gpu_type_of[flat]).tolist()


def step_time(job: Job, *, objective: float, slowest: float) -> float:
    """Return the predicted step time relative to a job without spread or slow node; under ``ignore`` no node is slow.

    ``(1 + spread_cost * (objective - 1)) * (1 + (f - 1) * m / (m + p - 1))`` with f the slowest node in use, which sets
    the pace of all.

    :param objective: Eq. 2 of the placement, 1 = no spread.
    :param slowest: slowdown of the slowest node in use, 1.0 = none is slow.
    """
    pace = (
        1.0
        if job.avoid == "ignore"
        else float(stage_slowdown(slowest, stages=job.parallelism.pp, microbatches=job.microbatches))
    )
    return (1.0 + job.spread_cost * (objective - 1.0)) * pace


def slowest_in_use(cluster: Cluster, evaluation: Evaluation) -> float:
    """Return the slowdown of the slowest node of a placement, 1.0 = none is slow."""
    return max((float(cluster.slowdown[i]) for i in evaluation.flagged), default=HEALTHY)
