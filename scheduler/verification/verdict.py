"""The verdict on a certificate: what it claims, recounted from the cluster and the job.

Nothing is believed but arithmetic.  The placement is weighed by the evaluator, each part of the question is counted
anew, each refutation is recounted, and what would be better than the answer must be ruled out by those that hold.

*Rivals*: whatever would be better must be ruled out, on all nodes that the job may use.  Better is what has a smaller
objective; with types of GPU, a smaller objective for the speed there; and where slow nodes have a price, what has a
shorter step.  So every choice of nodes, and every slowdown up to which they may be used, is a question of its own: what
do the pairs that are not ruled out on these nodes cost at least?
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import inf
from time import perf_counter
from typing import Literal

import numpy as np
import numpy.typing as npt

from ground.errors import InvalidPlacement
from ground.quantities import decimal
from ground.records import AtLeastOne, JsonRecord
from scheduler.certificates.certificate import Certificate, CertifiedPart
from scheduler.job import Job
from scheduler.objective import TOLERANCE, Evaluation, Spread, evaluate, objective_terms, slowest_in_use, step_time
from scheduler.verification.question import (
    CountedGrid,
    NodeChoice,
    counted_grid,
    counted_out,
    job_on,
    node_choices,
    sizes_on,
)
from scheduler.verification.refutations import Effort, Recount, Told, recount
from topology.cluster import BoolArray, Cluster, count_nodes
from topology.flags import HEALTHY

# -- verification --
# What checking a certificate says, as it is printed.


Verdict = Literal["verified", "not verified", "cannot be told"]
"""``not verified``: a claim is wrong, or nothing in the certificate shows it; ``cannot be told``: what it shows holds,
and is not enough."""


@dataclass(frozen=True, slots=True)
class CheckedPair(JsonRecord):
    """A refuted pair, recounted."""

    part: str
    """The part of the question, in words; empty = there is one part only."""
    dp: AtLeastOne
    """DP spread S."""
    pp: AtLeastOne
    """PP spread R."""
    by: str
    """The kind of refutation."""
    told: Told
    """Whether the refutation holds, fails, or cannot be told."""
    sentence: str
    """Why, in words."""

    @property
    def line(self) -> str:
        """All of it in one line."""
        where = f" on {self.part}" if self.part else ""
        words = {"holds": "refuted by", "fails": "NOT refuted by", "not told": "left open:"}[self.told]
        return f"({self.dp}, {self.pp}){where} {words} {self.by}: {self.sentence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification(JsonRecord):
    """What `arnold verify` prints."""

    job: str
    """Name of the job."""
    verdict: Verdict
    """What comes of it."""
    sentence: str
    """The verdict in words."""
    status: Literal["optimal", "feasible", "infeasible"]
    """What the certificate claims."""
    objective: float | None
    """Objective of the placement, by the evaluator; null = there is none, or it is not valid."""
    bound: float | None
    """No placement has a smaller objective, by what was recounted; null = there is none, or a claim is wrong."""
    checked: tuple[CheckedPair, ...]
    """Every refuted pair of the certificate."""
    faults: tuple[str, ...]
    """What is wrong with it, a sentence each."""
    untold: tuple[str, ...]
    """What it does not show, a sentence each."""
    seconds: float
    """Seconds that it took to check, without reading files."""


# -- recounted_parts --
# The parts of a certificate, recounted: is the grid that of the cluster and the job, and does each refutation hold?


SolverCheck = Callable[[CountedGrid, Spread], Recount]  # Decides a pair that only a search can


@dataclass(frozen=True, slots=True)
class RecountedPart:
    """One part, with what recounting its refutations says."""

    part: CertifiedPart
    pairs: tuple[tuple[Spread, Recount], ...] = ()  # in the order of the certificate
    fault: str = ""  # why it is not a part of the question; empty = it is
    no_grid: bool = False  # whether the groups of the job make no grid there, so that nothing of it can be recounted

    @property
    def slowest(self) -> float:
        """The slowdown up to which it has nodes."""
        return inf if self.part.slowest is None else self.part.slowest


def recounted_parts(
    certificate: Certificate, cluster: Cluster, job: Job, solve: SolverCheck | None
) -> tuple[RecountedPart, ...]:
    """Recount all parts of a certificate."""
    effort, grids = Effort(), _Grids(cluster, job)
    return tuple(_recounted(part, grids, solve, effort) for part in certificate.parts)


def nodes_in_words(part: CertifiedPart, *, alone: bool) -> str:
    """Return which nodes a part is about; empty for one that stands ``alone``."""
    if alone:
        return ""
    types = " and ".join(part.gpu_types) if any(part.gpu_types) else ""
    pace = "any" if part.slowest is None else "healthy" if part.slowest == HEALTHY else f"up to {part.slowest:g} x slow"
    said = (types, f"trunk {part.trunk}" if part.trunk else "", f"{pace} nodes", f"{part.level} level")
    return ", ".join(word for word in said if word)


class _Grids:
    """The grids of a question by nodes and level, each counted once, however many parts are about it."""

    def __init__(self, cluster: Cluster, job: Job) -> None:
        self.cluster, self.job = cluster, job
        self._slowdowns = np.unique(cluster.slowdown)
        self.of = cache(self._counted)

    def widest(self, slowest: float | None) -> float:
        """Return the slowdown of the slowest nodes up to one, ``None`` = any; 1 where there are none."""
        within = self._slowdowns[self._slowdowns <= (inf if slowest is None else slowest)]
        return float(within[-1]) if len(within) else HEALTHY

    def _counted(
        self, gpu_types: tuple[str, ...], gpus_per_node: int, trunk: int | None, widest: float, level: str
    ) -> CountedGrid | None:
        choice = NodeChoice(job_on(self.job, gpu_types, gpus_per_node), gpu_types, trunk)
        return counted_grid(self.cluster, choice.job, choice.nodes(self.cluster, widest), level)


def _recounted(part: CertifiedPart, grids: _Grids, solve: SolverCheck | None, effort: Effort) -> RecountedPart:
    if fault := _stranger(part, grids.cluster, grids.job):
        return RecountedPart(part, fault=fault)
    trunk = grids.cluster.trunks.domains.index(part.trunk) if grids.cluster.trunks is not None else None
    grid = grids.of(part.gpu_types, part.gpus_per_node, trunk, grids.widest(part.slowest), part.level)
    if grid is None:
        return RecountedPart(part, no_grid=True)
    if fault := _difference(part, grid):
        return RecountedPart(part, fault=fault)
    pairs = []
    for one in part.refuted:
        pair = Spread(one.dp, one.pp)
        found = recount(grid, pair, one.by, one.witness, effort)
        if found.told == "not told" and solve is not None:
            found = solve(grid, pair)
        pairs.append((pair, found))
    return RecountedPart(part, tuple(pairs))


def _stranger(part: CertifiedPart, cluster: Cluster, job: Job) -> str:
    """Return which nodes a part names that the cluster and the job do not have; empty = none."""
    trunks = () if cluster.trunks is None else cluster.trunks.domains
    if (part.trunk or trunks) and part.trunk not in trunks:
        return f"the cluster has no trunk {part.trunk!r}"
    if part.level not in (level.name for level in cluster.levels):
        return f"the cluster has no level {part.level!r} in its tree"
    if not set(part.gpu_types) <= set(cluster.gpu_types) or not part.gpu_types:
        return f"the cluster has not the types of GPU {', '.join(part.gpu_types)}"
    if any(part.gpus_per_node not in sizes_on(job, name) for name in part.gpu_types):
        return f"the job does not go on nodes of {part.gpus_per_node} GPUs of its types"
    return ""


def _difference(part: CertifiedPart, grid: CountedGrid) -> str:
    """Return where a part differs from what was recounted; empty = nowhere."""
    if (part.rows, part.columns) != (grid.rows, grid.columns):
        claimed = f"{part.rows} x {part.columns}"
        return f"it is about a grid of {claimed}, and that of the job is {grid.rows} x {grid.columns}"
    if len(part.capacities) != len(grid.capacities):
        return f"it counts {len(part.capacities)} domains with room, and the cluster has {len(grid.capacities)}"
    differ = [
        (said, capacity) for said, capacity in zip(part.capacities, grid.capacities, strict=True) if said != capacity
    ]
    if not differ:
        return ""
    said, found = differ[0]
    more = f" ({len(differ) - 1} more)" if len(differ) > 1 else ""
    return f"it counts room for {said} cells in a domain that has room for {found}{more}"


# -- pair_bounds --
# What placements cost at least, given the pairs of spreads that are ruled out at some levels.
#
# A group touches no fewer domains of a closer level than of a broader one.  So the spreads of a placement, from the
# broadest level on, are pairs (S, R) that are not ruled out and that never become smaller.


Costs = npt.NDArray[np.float64]


def least_costs(
    cluster: Cluster,
    job: Job,
    nodes: BoolArray,
    grids: Mapping[str, CountedGrid],
    refuted: Mapping[str, Sequence[Spread]],
) -> Costs:
    """Return the least objective by the pair (S, R) at the closest level with a grid; infinite = it is ruled out.

    Terms of other families, and at levels without a grid, count what their largest group needs at least.

    :param nodes: shape [nodes], those that a placement may use.
    :param grids: by level; ``refuted``: by level, pairs that cannot be had.
    :returns: shape [S, R], both from 1.
    """
    paths = np.zeros((1, 1))
    rest = 0.0
    on_grids = {(family, level): 0.0 for level in grids for family in ("dp", "pp")}
    for term in objective_terms(cluster, job):
        if (term.family, term.level) in on_grids:
            on_grids[term.family, term.level] += term.weight
        else:
            largest = job.grid.groups[term.family].largest
            rest += term.weight * _fewest(cluster, nodes, term.level, largest)
    for level in (one.name for one in cluster.levels if one.name in grids):
        most = grids[level].largest
        shape = max(paths.shape[0], most.dp), max(paths.shape[1], most.pp)
        before = np.full(shape, np.inf)
        before[: paths.shape[0], : paths.shape[1]] = paths
        # the least of all pairs at the level above that are as small in both
        before = np.minimum.accumulate(np.minimum.accumulate(before, axis=0), axis=1)
        s, r = np.arange(1, shape[0] + 1)[:, None], np.arange(1, shape[1] + 1)[None, :]
        paths = before + on_grids["dp", level] * s + on_grids["pp", level] * r
        paths[most.dp :] = np.inf
        paths[:, most.pp :] = np.inf
        _rule_out(paths, refuted.get(level, ()))
    return paths + rest


def _rule_out(costs: Costs, pairs: Iterable[Spread]) -> None:
    for pair in pairs:
        costs[: pair.dp, : pair.pp] = np.inf


def _fewest(cluster: Cluster, nodes: BoolArray, level: str, cells: int) -> int:
    """Return how many domains of a level have so many of some nodes together, at least 1."""
    inside = np.sort(count_nodes(cluster.level(level), nodes))[::-1]
    return int(np.searchsorted(np.cumsum(inside), cells)) + 1


# -- rivals --
# Rivals: whatever would be better than the answer must be ruled out, on all nodes that the job may use.
#
# Better is what has a smaller objective; with types of GPU, a smaller objective for the speed there; and where slow
# nodes have a price, what has a shorter step.  So every choice of nodes, and every slowdown up to which they may be
# used, is a question of its own: what do the pairs that are not ruled out on these nodes cost at least?


LONGEST = 5  # Pairs that a sentence names


@dataclass(frozen=True, slots=True)
class RivalsLeft:
    """What would be better than the answer and is not ruled out on some nodes."""

    bound: float  # no placement on these nodes costs less, at the speed of the answer
    fault: str = ""  # what the certificate should rule out, and does not; empty = nothing
    untold: str = ""  # what goes beyond it; empty = nothing


@dataclass(frozen=True)
class Rivals:
    """The placements that might be better than the one of a certificate."""

    certificate: Certificate
    cluster: Cluster
    job: Job
    worth: Evaluation
    parts: Sequence[RecountedPart]

    def left(self) -> list[RivalsLeft]:
        """Return for every choice of nodes what is not ruled out."""
        return [
            found
            for choice in self._choices
            for slowest in self._slowdowns(choice)
            if (found := self._left(choice, slowest)) is not None
        ]

    @cached_property
    def _choices(self) -> tuple[NodeChoice, ...]:
        return node_choices(self.cluster, self.job)

    @cached_property
    def _several_types(self) -> bool:
        return len({(choice.gpu_types, choice.job.gpus_per_node) for choice in self._choices}) > 1

    def _by_time(self, choice: NodeChoice) -> bool:
        """Return whether step times are compared: slow nodes have a price, and the answer has such types of GPU.

        Types are compared with each other by objective and speed alone, whatever the slow nodes among them.
        """
        if self.job.avoid != "price" or self.certificate.status != "optimal":
            return False
        return choice.speed == self._speed and set(self.worth.gpu_types) <= {*choice.gpu_types}

    @cached_property
    def _slowest(self) -> float:
        """Slowdown of the slowest node of the answer."""
        return slowest_in_use(self.cluster, self.worth)

    def _slowdowns(self, choice: NodeChoice) -> tuple[float, ...]:
        """Return the slowdowns up to which nodes are looked at, one question each."""
        if self.job.avoid != "price" or self._by_time(choice):
            return choice.slowdowns(self.cluster)
        if self.certificate.status == "feasible":
            return (inf if self.certificate.slowest is None else self.certificate.slowest,)
        return (inf,)

    def _left(self, choice: NodeChoice, slowest: float) -> RivalsLeft | None:
        """Return what is left on some nodes; ``None`` = no placement, by counting."""
        cluster, job = self.cluster, choice.job
        nodes = choice.nodes(cluster, slowest)
        if counted_out(cluster, job, nodes):
            return None
        # what is ruled out on more nodes is ruled out on these
        widest = float(cluster.slowdown[nodes].max())
        parts = [part for part in self.parts if part.slowest >= widest and self._is_about(part, choice)]
        levels = {self.certificate.level, *(part.part.level for part in parts)}
        grids = {level: grid for level in levels if (grid := counted_grid(cluster, job, nodes, level)) is not None}
        refuted = {
            level: [
                pair
                for part in parts
                if part.part.level == level
                for pair, found in part.pairs
                if found.told == "holds"
            ]
            for level in grids
        }
        # what a placement there costs, as if it ran at the speed of the answer
        costs = least_costs(cluster, job, nodes, grids, refuted) / choice.speed * self._speed
        bound = min(float(costs.min()), self.worth.objective)
        by_time = self._by_time(choice)
        better = self._better(costs, slowest if by_time else None)
        if not better.any():
            return RivalsLeft(bound)
        where = self._in_words(choice, slowest)
        # which slowdown has the shortest step may be left open where the pair of the answer is not
        other_question = by_time and slowest != self._slowest
        plain = bool(parts) and len(grids) == 1 and not other_question and not self._more_than_pairs
        if not plain:
            why = "the groups of the job make no grid there"
            if grids:
                why = "the rest was not proved by pairs of spreads alone" if parts else "it has no part on them"
            return RivalsLeft(bound, untold=f"{where} it shows no more than the bound {bound:.6g}: {why}")
        return self._pairs_left(np.argwhere(better) + 1, parts, bound, where)

    def _pairs_left(
        self, left: npt.NDArray[np.int64], parts: Sequence[RecountedPart], bound: float, where: str
    ) -> RivalsLeft:
        """Return pairs that are left as what a solver would have to tell, or as what is missing."""
        open_ = [pair for part in parts for pair, found in part.pairs if found.told == "not told"]
        pairs = [(int(s), int(r)) for s, r in left]
        missing = [(s, r) for s, r in pairs if not any(s <= one.dp and r <= one.pp for one in open_)]
        if missing:
            return RivalsLeft(bound, fault=f"{where} nothing in it rules out {_listed(missing)}")
        needed = [(one.dp, one.pp) for one in open_ if any(s <= one.dp and r <= one.pp for s, r in pairs)]
        return RivalsLeft(bound, untold=f"{where} pairs {_listed(needed)} need a solver")

    def _is_about(self, one: RecountedPart, choice: NodeChoice) -> bool:
        """Return whether a part is about the nodes of a choice, up to some slowdown."""
        part, size = one.part, choice.job.gpus_per_node
        return (part.gpu_types, part.gpus_per_node, part.trunk) == (choice.gpu_types, size, self._trunk(choice))

    def _better(self, costs: Costs, slowest: float | None) -> npt.NDArray[np.bool_]:
        """Return which costs would be better than the answer, or than its bound.

        :param slowest: on nodes up to this slowdown, by the time of a step, and by the bound where slower ones than
            those of the answer are among them; ``None`` = times are not compared.
        """
        own = self.certificate
        if slowest is None or slowest == self._slowest:
            claimed = self.worth.objective if own.status == "optimal" else own.bound
            return costs < (-inf if claimed is None else claimed) - TOLERANCE
        bounded = own.bound is not None and (own.slowest is None or slowest <= own.slowest)
        cheaper: npt.NDArray[np.bool_] = costs < (own.bound or 0.0) - TOLERANCE if bounded else costs < -inf
        least = float(costs.min())
        step = step_time(self.job, objective=self.worth.objective, slowest=self._slowest)
        # the more it costs the longer its step, so the cheapest says whether there is any
        quicker = step_time(self.job, objective=least, slowest=slowest) < step - TOLERANCE
        return cheaper | (costs <= least) if quicker else cheaper

    @cached_property
    def _speed(self) -> float:
        """Relative speed of the answer."""
        return self.job.speed_on(self.worth.gpu_types)

    @cached_property
    def _more_than_pairs(self) -> bool:
        """Whether a bound on the pairs at one level may be less than what was proved."""
        job, cluster = self.job, self.cluster
        beside = {level.name for level in cluster.second_levels}
        depth = cluster.level_index(job.level)
        broader = any(hold.level in beside or cluster.level_index(hold.level) < depth for hold in job.holds)
        # one bound for several choices of nodes, each with its own slowdowns
        apart = len(self._choices) > 1 and job.avoid == "price"
        return bool(job.soft) or broader or apart

    def _trunk(self, choice: NodeChoice) -> str:
        return "" if choice.trunk is None else self.cluster.levels[0].domains[choice.trunk]

    def _in_words(self, choice: NodeChoice, slowest: float) -> str:
        types = " and ".join(choice.gpu_types) if self._several_types and any(choice.gpu_types) else ""
        trunk = f"in {self._trunk(choice)}" if choice.trunk is not None else ""
        slow = "" if self.job.avoid != "price" or slowest in (HEALTHY, inf) else f"with nodes up to {slowest:g} x slow"
        said = " ".join(word for word in (types and f"on {types}", trunk, slow) if word)
        return f"{said}," if said else "on the nodes of the job"


def _listed(pairs: Sequence[tuple[int, int]]) -> str:
    more = f" and {len(pairs) - LONGEST} more" if len(pairs) > LONGEST else ""
    # the dearest in both first: ruling these out rules out the others
    some = sorted(pairs, key=lambda pair: (-pair[0] * pair[1], pair))[:LONGEST]
    return ", ".join(f"({s}, {r})" for s, r in some) + more


# -- verdict --
# The verdict on a certificate: what it claims, recounted from the cluster and the job.
#
# Nothing is believed but arithmetic.  The placement is weighed by the evaluator, each part of the question is counted
# anew, each refutation is recounted, and what would be better than the answer must be ruled out by those that hold.


def verify(certificate: Certificate, cluster: Cluster, job: Job, *, solve: SolverCheck | None = None) -> Verification:
    """Check a certificate against a cluster and a job.

    :param solve: decides the pairs that only a search can; ``None`` = these are not told.
    :raises UnknownName: the job names a level that the cluster does not have.
    """
    begun = perf_counter()
    cluster = cluster.tolerating(job.tolerations)
    faults = _other_question(certificate, cluster, job)
    untold: list[str] = []
    worth: Evaluation | None = None
    parts: tuple[RecountedPart, ...] = ()
    bound: float | None = None
    if not faults:
        worth, faults = _placement(certificate, cluster, job)
    if not faults:
        parts = recounted_parts(certificate, cluster, job, solve)
        faults = [fault for part in parts for fault in _faults(part)]
    if not faults and worth is None:
        untold = _not_counted_out(cluster, job)
    elif not faults and worth is not None:
        left = Rivals(certificate, cluster, job, worth, parts).left()
        faults = [one.fault for one in left if one.fault]
        untold = [one.untold for one in left if one.untold]
        bound = None if faults else min([one.bound for one in left], default=worth.objective)
    verdict: Verdict = "not verified" if faults else "cannot be told" if untold else "verified"
    return Verification(
        job=certificate.job,
        verdict=verdict,
        sentence=_sentence(certificate, verdict, [*faults, *untold], cluster=cluster),
        status=certificate.status,
        objective=None if worth is None else worth.objective,
        bound=bound,
        checked=_checked(parts),
        faults=tuple(faults),
        untold=tuple(untold),
        seconds=perf_counter() - begun,
    )


def _other_question(certificate: Certificate, cluster: Cluster, job: Job) -> list[str]:
    """Return where the certificate is about something else than was asked."""
    asked = {"alpha": job.alpha, "level": cluster.level(job.level).name, "avoid": job.avoid}
    claimed = {"alpha": certificate.alpha, "level": certificate.level, "avoid": certificate.avoid}
    return [
        f"it is about {what} {claimed[what]}, and the job says {found}"
        for what, found in asked.items()
        if claimed[what] != found
    ]


def _placement(certificate: Certificate, cluster: Cluster, job: Job) -> tuple[Evaluation | None, list[str]]:
    """Return what the placement is worth, ``None`` = there is none, and what is wrong with what is said of it."""
    own = certificate
    if own.status == "infeasible":
        some = own.nodes or own.spread is not None or own.objective is not None or own.bound is not None
        return None, ["it claims that there is no placement, and has one"] if some else []
    if own.spread is None or own.objective is None or own.bound is None:
        return None, ["it claims that there is a placement, and does not say what it is worth"]
    try:
        worth = _weighed(certificate, cluster, job)
    except InvalidPlacement as error:
        return None, [f"its placement is none: {error.message}"]
    faults = []
    if worth.spread != own.spread:
        said = f"({own.spread.dp}, {own.spread.pp})"
        faults.append(f"its placement has the pair ({worth.dp}, {worth.pp}), and it says {said}")
    if abs(worth.objective - own.objective) > TOLERANCE:
        faults.append(f"its placement has the objective {worth.objective:.9g}, and it says {own.objective:.9g}")
    # where slow nodes have a price the shortest step is claimed, which need not have the least objective
    priced = job.avoid == "price" and bool((cluster.slowdown[cluster.idle] > HEALTHY).any())
    least = worth.objective if own.status == "optimal" and not priced else -inf
    if not least - TOLERANCE <= own.bound <= worth.objective + TOLERANCE:
        faults.append(f"its bound of {own.bound:.9g} does not go with the status {own.status}")
    if own.slowest is not None and own.slowest < slowest_in_use(cluster, worth) and job.avoid == "price":
        faults.append(f"its bound is about nodes up to {own.slowest:g} x slow, and its placement uses slower ones")
    return worth, faults


def _weighed(certificate: Certificate, cluster: Cluster, job: Job) -> Evaluation:
    """Return what the evaluator says of the placement; raise InvalidPlacement where it is none."""
    names = certificate.nodes
    if not names or len({len(row) for row in names}) > 1:
        raise InvalidPlacement("its rows are not equally long")
    if strangers := [name for row in names for name in row if name not in cluster.index_of]:
        raise InvalidPlacement(f"the cluster has no node {strangers[0]!r}")
    nodes = np.array([[cluster.index_of[name] for name in row] for row in names], dtype=np.int32)
    if job.node_sizes:
        # the job leaves the size of its nodes to their type
        kind, size = cluster.gpu_types[cluster.gpu_type_of[nodes[0, 0]]], int(cluster.gpus[nodes[0, 0]])
        if size not in sizes_on(job, kind):
            raise InvalidPlacement(f"the job does not go on nodes of {size} GPUs of the type {kind!r}")
        job = job.replace(gpus_per_node=size, node_sizes=())
    return evaluate(cluster, job, nodes)


def _faults(one: RecountedPart) -> list[str]:
    if one.fault:
        return [one.fault]
    claimed = zip(one.part.refuted, one.pairs, strict=False)
    return [
        f"({claim.dp}, {claim.pp}) is not refuted by {claim.by}: {found.sentence}"
        for claim, (_, found) in claimed
        if found.told == "fails"
    ]


def _not_counted_out(cluster: Cluster, job: Job) -> list[str]:
    """Return why it is not plain that there is no placement; empty = counting shows it, whatever the nodes."""
    for choice in node_choices(cluster, job):
        slowest = choice.slowdowns(cluster)[-1]
        if not counted_out(cluster, choice.job, choice.nodes(cluster, slowest)):
            return ["counting alone does not show that there is no placement"]
    return []


def _checked(parts: tuple[RecountedPart, ...]) -> tuple[CheckedPair, ...]:
    return tuple(
        CheckedPair(
            nodes_in_words(part.part, alone=len(parts) == 1),
            claim.dp,
            claim.pp,
            claim.by,
            found.told,
            found.sentence,
        )
        for part in parts
        for claim, (_, found) in zip(part.part.refuted, part.pairs, strict=False)
    )


def _sentence(certificate: Certificate, verdict: Verdict, reasons: list[str], *, cluster: Cluster) -> str:
    """Return the verdict in words."""
    if reasons:
        more = f" ({len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return f"{verdict}: {reasons[0]}{more}"
    if certificate.status == "infeasible":
        return "verified: there is no placement"
    if certificate.status == "optimal":
        return "verified: no placement is better"
    where = ""
    slow = inf if certificate.slowest is None else certificate.slowest
    if certificate.avoid == "price" and (cluster.slowdown[cluster.idle] > slow).any():
        where = " on healthy nodes" if slow == HEALTHY else f" on nodes up to {slow:g} x slow"
    return f"verified: no placement{where} has an objective below {decimal(certificate.bound or 0.0)}"
