"""The verdict on a certificate: what it claims, recounted from the cluster and the job.

Nothing is believed but arithmetic.  The placement is weighed by the evaluator, each part of the question is counted
anew, each refutation is recounted, and what would be better than the answer must be ruled out by those that hold.

*Rivals*: whatever would be better must be ruled out, on all nodes that the job may use.  Better is what has a smaller
objective; with types of GPU, a smaller objective for the speed there; and where slow nodes have a price, what has a
shorter step.  So every choice of nodes, and every slowdown up to which they may be used, is a question of its own: what
do the pairs that are not ruled out on these nodes cost at least?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from math import inf
from time import perf_counter
from typing import Literal

import numpy as np
import numpy.typing as npt

from ground.errors import InvalidPlacement
from ground.quantities import decimal
from ground.records import AtLeastOne, JsonRecord, checked
from scheduler.certificates.certificate import Certificate, CertifiedPart, RefutedPair
from scheduler.job import Job
from scheduler.objective import (
    TOLERANCE,
    Evaluation,
    Spread,
    evaluate,
    objective_terms,
    slowest_in_use,
    step_time,
    trivial_bound,
)
from scheduler.verification.closer_levels import CheckedClaim, CloserCheck, check_closer
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
from scheduler.witnesses import NOT_TO_BE_CHECKED
from topology.cluster import BoolArray, Cluster, count_nodes
from topology.flags import HEALTHY

Verdict = Literal["verified", "not verified", "cannot be told"]
"""``not verified``: a claim is wrong, or nothing in the certificate shows it; ``cannot be told``: what it shows holds,
and is not enough."""


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


class Verification(JsonRecord, kw_only=True):
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
    claims: tuple[CheckedClaim, ...]
    """What is claimed, and whether it was checked: what decides, then the EP spread and closer levels, each among
    placements as good in what comes before."""
    checked: tuple[CheckedPair, ...]
    """Every refuted pair that was recounted."""
    faults: tuple[str, ...]
    """What is wrong with it, a sentence each."""
    untold: tuple[str, ...]
    """What it does not show, a sentence each."""
    seconds: float
    """Seconds that it took to check, without reading files."""


SolverCheck = Callable[[CountedGrid, Spread], Recount]  # Decides a pair that only a search can


@checked
def verify(certificate: Certificate, cluster: Cluster, job: Job, *, solve: SolverCheck | None = None) -> Verification:
    """Check a certificate against a cluster and a job.

    :param solve: decides the pairs that only a search can; ``None`` = these are not told.
    :raises UnknownName: the job names a level that the cluster does not have.
    """
    begun = perf_counter()
    cluster = cluster.tolerating(job.tolerations)
    # whether it is about what was asked
    of_job = {"alpha": job.alpha, "level": cluster.level(job.level).name, "avoid": job.avoid}
    faults = [
        f"it is about {what} {claimed}, and the job says {value}"
        for what, value in of_job.items()
        if (claimed := getattr(certificate, what)) != value
    ]
    untold: list[str] = []
    worth: Evaluation | None = None
    parts: tuple[RecountedPart, ...] = ()
    bound: float | None = None
    closer = CloserCheck()
    if not faults:
        worth, faults = _placement(certificate, cluster, job)
    if not faults:
        parts = recounted_parts(certificate, cluster, job, solve)
        for part in parts:
            faults += [part.fault] if part.fault else []
            faults += [
                f"({claim.dp}, {claim.pp}) is not refuted by {claim.by}: {answer.sentence}"
                for claim, answer in part.claims
                if answer.told == "fails"
            ]
    if not faults and worth is None:
        # counting must show that there is no placement, on whatever nodes
        for choice in node_choices(cluster, job):
            if not counted_out(cluster, choice.job, choice.nodes(cluster, choice.slowdowns(cluster)[-1])):
                untold = ["counting alone does not show that there is no placement"]
                break
    elif not faults and worth is not None:
        left = Rivals(certificate, cluster, job, worth, parts).left()
        faults = [rival.fault for rival in left if rival.fault]
        untold = [rival.untold for rival in left if rival.untold]
        closer = check_closer(certificate, cluster, job, worth, partial(_refuted, certificate, cluster, parts))
        faults += [
            *closer.faults,
            *(
                f"({claim.dp}, {claim.pp}) at {level} is not refuted by {claim.by}: {answer.sentence}"
                for level, claim, answer in closer.pairs
                if answer.told == "fails"
            ),
        ]
        bound = None if faults else min([rival.bound for rival in left], default=worth.objective)
    verdict: Verdict = "not verified" if faults else "cannot be told" if untold else "verified"
    what = {"optimal": "no placement is better", "feasible": "the bound", "infeasible": "there is no placement"}
    decides = f"{what[certificate.status]}, {'checked' if verdict == 'verified' else verdict}"
    claims = (CheckedClaim("objective", verdict == "verified", decides), *(() if faults else closer.claims))
    return Verification(
        job=certificate.job,
        verdict=verdict,
        sentence=_sentence(certificate, verdict, [*faults, *untold], cluster=cluster),
        status=certificate.status,
        objective=None if worth is None else worth.objective,
        bound=bound,
        claims=claims,
        checked=tuple(
            CheckedPair(where, claim.dp, claim.pp, claim.by, answer.told, answer.sentence)
            for where, claim, answer in (
                *(
                    (nodes_in_words(part.part, alone=len(parts) == 1), claim, answer)
                    for part in parts
                    for claim, answer in part.claims
                ),
                *((f"{level} level", claim, answer) for level, claim, answer in closer.pairs),
            )
        ),
        faults=tuple(faults),
        untold=tuple(untold),
        seconds=perf_counter() - begun,
    )


def not_shown(certificate: Certificate, cluster: Cluster, job: Job) -> dict[str, str]:
    """Return what an honest certificate claims and does not show, by claim, with a sentence each.

    Its refutations of what decides are believed; those of closer levels are recounted, as there are few.
    """
    cluster = cluster.tolerating(job.tolerations)
    if certificate.status == "infeasible":
        shown = all(
            counted_out(cluster, choice.job, choice.nodes(cluster, choice.slowdowns(cluster)[-1]))
            for choice in node_choices(cluster, job)
        )
        return {} if shown else {"objective": f"there is no placement: {NOT_TO_BE_CHECKED}"}
    worth, _ = _placement(certificate, cluster, job)
    if worth is None:
        # its nodes are free once others have moved, or gone: on the cluster as it is there is nothing to recount
        return {"objective": f"objective {decimal(certificate.objective or 0.0)}: {NOT_TO_BE_CHECKED}"}
    believed = Recount("holds", "")
    parts = tuple(
        RecountedPart(part, tuple((Spread(pair.dp, pair.pp), believed) for pair in part.refuted))
        for part in certificate.parts
    )
    unshown = {}
    trivial = certificate.bound is not None and certificate.bound <= trivial_bound(job) + TOLERANCE
    if not trivial and any(
        left.fault or left.untold for left in Rivals(certificate, cluster, job, worth, parts).left()
    ):
        what = "objective" if certificate.status == "optimal" else "bound"
        unshown["objective"] = f"{what} {decimal(certificate.bound or 0.0)}: {NOT_TO_BE_CHECKED}"
    closer = check_closer(certificate, cluster, job, worth, partial(_refuted, certificate, cluster, parts))
    proved = {claim.level for claim in certificate.closer.levels if claim.proved} if certificate.closer else set()
    for claim in closer.claims:
        if not claim.checked and (claim.claim == "ep" or claim.claim in proved):
            unshown[claim.claim] = claim.sentence
    return unshown


def _refuted(
    certificate: Certificate, cluster: Cluster, parts: Sequence[RecountedPart], choice: NodeChoice
) -> dict[str, list[Spread]]:
    """Return by level the pairs that no placement has on some of the nodes that closer levels are claimed of."""
    claims = certificate.closer
    if claims is None or cluster.trunks is not None:
        return {}
    slowest = inf if claims.slowest is None else claims.slowest
    refuted: dict[str, list[Spread]] = {}
    for part in parts:
        size = part.part.gpus_per_node
        about = {*part.part.gpu_types} >= {*choice.gpu_types} and size == choice.job.gpus_per_node
        if about and part.slowest >= slowest:
            holding = (pair for pair, answer in part.pairs if answer.told == "holds")
            refuted.setdefault(part.part.level, []).extend(holding)
    return refuted


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
        claimed = f"({own.spread.dp}, {own.spread.pp})"
        faults.append(f"its placement has the pair ({worth.dp}, {worth.pp}), and it says {claimed}")
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


@dataclass(frozen=True, slots=True)
class RecountedPart:
    """One part, with what recounting its refutations says."""

    part: CertifiedPart
    pairs: tuple[tuple[Spread, Recount], ...] = ()  # in the order of the certificate
    fault: str = ""  # why it is not a part of the question; empty = it is

    @property
    def slowest(self) -> float:
        """The slowdown up to which it has nodes."""
        return inf if self.part.slowest is None else self.part.slowest

    @property
    def claims(self) -> Iterator[tuple[RefutedPair, Recount]]:
        """Each refuted pair of the certificate with what recounting says; none where nothing could be recounted."""
        return zip(self.part.refuted, (answer for _, answer in self.pairs), strict=False)


def recounted_parts(
    certificate: Certificate, cluster: Cluster, job: Job, solve: SolverCheck | None
) -> tuple[RecountedPart, ...]:
    """Recount all parts of a certificate."""
    effort, slowdowns = Effort(), np.unique(cluster.slowdown)

    @cache  # however many parts are about the same nodes and level, these are counted once
    def grid_of(
        gpu_types: tuple[str, ...], gpus_per_node: int, trunk: int | None, widest: float, level: str
    ) -> CountedGrid | None:
        choice = NodeChoice(job_on(job, gpu_types, gpus_per_node), gpu_types, trunk)
        return counted_grid(cluster, choice.job, choice.nodes(cluster, widest), level)

    parts = []
    for part in certificate.parts:
        if fault := _stranger(part, cluster, job):
            parts.append(RecountedPart(part, fault=fault))
            continue
        trunk = None if cluster.trunks is None else cluster.trunks.domains.index(part.trunk)
        within = slowdowns[slowdowns <= (inf if part.slowest is None else part.slowest)]
        widest = float(within[-1]) if len(within) else HEALTHY
        grid = grid_of(part.gpu_types, part.gpus_per_node, trunk, widest, part.level)
        if grid is None:
            parts.append(
                RecountedPart(part)
            )  # the groups of the job make no grid there: nothing of it can be recounted
        elif fault := _difference(part, grid):
            parts.append(RecountedPart(part, fault=fault))
        else:
            pairs = []
            for claim in part.refuted:
                pair = Spread(claim.dp, claim.pp)
                answer = recount(grid, pair, claim.by, claim.witness, effort)
                if answer.told == "not told" and solve is not None:
                    answer = solve(grid, pair)
                pairs.append((pair, answer))
            parts.append(RecountedPart(part, tuple(pairs)))
    return tuple(parts)


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
    differ = [pair for pair in zip(part.capacities, grid.capacities, strict=True) if pair[0] != pair[1]]
    if not differ:
        return ""
    more = f" ({len(differ) - 1} more)" if len(differ) > 1 else ""
    return f"it counts room for {differ[0][0]} cells in a domain that has room for {differ[0][1]}{more}"


def nodes_in_words(part: CertifiedPart, *, alone: bool) -> str:
    """Return which nodes a part is about; empty for one that stands ``alone``."""
    if alone:
        return ""
    types = " and ".join(part.gpu_types) if any(part.gpu_types) else ""
    pace = "any" if part.slowest is None else "healthy" if part.slowest == HEALTHY else f"up to {part.slowest:g} x slow"
    words = (types, f"trunk {part.trunk}" if part.trunk else "", f"{pace} nodes", f"{part.level} level")
    return ", ".join(word for word in words if word)


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
        questions = ((choice, slowest) for choice in self._choices for slowest in self._slowdowns(choice))
        return [left for question in questions if (left := self._left(*question)) is not None]

    @cached_property
    def _choices(self) -> tuple[NodeChoice, ...]:
        return node_choices(self.cluster, self.job)

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
        about = (choice.gpu_types, job.gpus_per_node, self._trunk(choice))
        parts = [
            part
            for part in self.parts
            if part.slowest >= widest and (part.part.gpu_types, part.part.gpus_per_node, part.part.trunk) == about
        ]
        levels = {self.certificate.level, *(part.part.level for part in parts)}
        grids = {level: grid for level in levels if (grid := counted_grid(cluster, job, nodes, level)) is not None}
        refuted = {
            level: [
                pair
                for part in parts
                if part.part.level == level
                for pair, answer in part.pairs
                if answer.told == "holds"
            ]
            for level in grids
        }
        # what a placement there costs, as if it ran at the speed of the answer
        costs = least_costs(cluster, job, nodes, grids, refuted) * (self._speed / choice.speed)
        bound = min(float(costs.min()), self.worth.objective)
        by_time = self._by_time(choice)
        better = self._better(costs, slowest if by_time else None)
        if not better.any():
            return RivalsLeft(bound)
        where = self._in_words(choice, slowest)
        # which slowdown has the shortest step may be left open where the pair of the answer is not
        other_question = by_time and slowest != self._slowest
        # a bound on the pairs at one level may be less than what was proved: by soft terms and broader holds, and where
        # one bound is for several choices of nodes, each with its own slowdowns
        own, beside = self.job, {level.name for level in cluster.second_levels}
        depth = cluster.level_index(own.level)
        broader = any(hold.level in beside or cluster.level_index(hold.level) < depth for hold in own.holds)
        more_than_pairs = bool(own.soft) or broader or (len(self._choices) > 1 and own.avoid == "price")
        if not parts or len(grids) > 1 or other_question or more_than_pairs:
            why = "the groups of the job make no grid there"
            if grids:
                why = "the rest was not proved by pairs of spreads alone" if parts else "it has no part on them"
            return RivalsLeft(bound, untold=f"{where} it shows no more than the bound {bound:.6g}: {why}")
        # what is left is missing, or a solver would have to tell it
        unsettled = [pair for part in parts for pair, answer in part.pairs if answer.told == "not told"]
        pairs = [(int(s), int(r)) for s, r in np.argwhere(better) + 1]
        missing = [(s, r) for s, r in pairs if not any(s <= pair.dp and r <= pair.pp for pair in unsettled)]
        if missing:
            return RivalsLeft(bound, fault=f"{where} nothing in it rules out {_listed(missing)}")
        needed = [(pair.dp, pair.pp) for pair in unsettled if any(s <= pair.dp and r <= pair.pp for s, r in pairs)]
        return RivalsLeft(bound, untold=f"{where} pairs {_listed(needed)} need a solver")

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

    def _trunk(self, choice: NodeChoice) -> str:
        return "" if choice.trunk is None else self.cluster.levels[0].domains[choice.trunk]

    def _in_words(self, choice: NodeChoice, slowest: float) -> str:
        several = len({(other.gpu_types, other.job.gpus_per_node) for other in self._choices}) > 1
        types = " and ".join(choice.gpu_types) if several and any(choice.gpu_types) else ""
        trunk = f"in {self._trunk(choice)}" if choice.trunk is not None else ""
        slow = "" if self.job.avoid != "price" or slowest in (HEALTHY, inf) else f"with nodes up to {slowest:g} x slow"
        words = " ".join(word for word in (types and f"on {types}", trunk, slow) if word)
        return f"{words}," if words else "on the nodes of the job"


def _listed(pairs: Sequence[tuple[int, int]]) -> str:
    more = f" and {len(pairs) - LONGEST} more" if len(pairs) > LONGEST else ""
    # the dearest in both first: ruling these out rules out the others
    some = sorted(pairs, key=lambda pair: (-pair[0] * pair[1], pair))[:LONGEST]
    return ", ".join(f"({s}, {r})" for s, r in some) + more


Costs = npt.NDArray[np.float64]


def least_costs(
    cluster: Cluster,
    job: Job,
    nodes: BoolArray,
    grids: Mapping[str, CountedGrid],
    refuted: Mapping[str, Sequence[Spread]],
) -> Costs:
    """Return the least objective by the pair (S, R) at the closest level with a grid; infinite = it is ruled out.

    A group touches no fewer domains of a closer level than of a broader one.  So the spreads of a placement, from the
    broadest level on, are pairs (S, R) that are not ruled out and that never become smaller.  Terms of other families,
    and at levels without a grid, count what their largest group needs at least.

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
            # the largest group lies in as few domains as have so many nodes together
            inside = np.sort(count_nodes(cluster.level(term.level), nodes))[::-1]
            rest += term.weight * (int(np.searchsorted(np.cumsum(inside), job.grid.groups[term.family].largest)) + 1)
    for level in (level.name for level in cluster.levels if level.name in grids):
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
        for pair in refuted.get(level, ()):
            paths[: pair.dp, : pair.pp] = np.inf
    return paths + rest
