"""A placement problem, and the outcome of a run: an algorithm's proposal, weighed by the one evaluator.

Every command, study and service calls algorithms through :func:`run`, so that no algorithm scores itself and no
placement that breaks a rule is ever shown.

Where a cluster falls into trunks which nothing joins, an algorithm is asked in each trunk, and the best answer counts:
so every algorithm heeds them without knowing of them, and a proof in each trunk is a proof for the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from time import perf_counter
from typing import Literal

import numpy as np

from scheduler.job import Job
from scheduler.objective import Evaluation, Spread, evaluate, objective_of, slowest_in_use, step_time
from scheduler.placement.admission import admissible, flags_of_usable, shortage
from scheduler.placement.types import Limits, ParetoPoint, PlacementAlgorithm, Proposal, Refutation, corners
from topology.capacity import count_nodes
from topology.cluster import BoolArray, Cluster, IntArray, Level
from topology.errors import Infeasible, InvalidPlacement, SolverTimeout
from topology.flags import NodeFlag
from topology.quantities import decimal

Status = Literal["optimal", "feasible", "infeasible", "timeout", "gave-up", "refused"]
"""``optimal``: proved; ``feasible``: valid, with a gap; ``infeasible``: the algorithm shows that its rule admits no
placement; ``timeout``: out of time with nothing valid; ``gave-up``: a heuristic ended without a placement and proved
nothing; ``refused``: the algorithm proposed what the evaluator refuses."""

STATUS: Mapping[Status, str] = {
    "optimal": "proved optimal",
    "feasible": "feasible",
    "infeasible": "infeasible",
    "timeout": "stopped at its time limit",
    "gave-up": "gave up",
    "refused": "refused",
}
"""Statuses of an outcome as text and pages show them."""

TOLERANCE = 1e-9  # Two objectives closer than this are the same: they are sums of a few products of small integers


@dataclass(frozen=True)
class Instance:
    """A job, the cluster it is to be placed on, and where both come from."""

    cluster: Cluster
    job: Job
    source: str = ""  # Name of the cluster's file
    notes: tuple[str, ...] = ()  # What is worth knowing about how the two were read, a sentence each

    @cached_property
    def level(self) -> Level:
        """The level at which spread counts; raises as :meth:`Cluster.level`."""
        return self.cluster.level(self.job.level)

    @cached_property
    def usable(self) -> BoolArray:
        """Shape [nodes]: whether a cell of the job may be there."""
        return admissible(self.cluster, self.job)

    @cached_property
    def flags(self) -> tuple[NodeFlag, ...]:
        """What is held against nodes that the job could use otherwise, by node."""
        return flags_of_usable(self.cluster, self.job)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A proposal with its worth."""

    algorithm: str
    status: Status
    proposal: Proposal
    evaluation: Evaluation | None = None  # present exactly when the status is optimal or feasible
    bound: float | None = None  # no placement has a smaller objective; present with evaluation
    gap: float | None = None  # (objective - bound) / objective, 0 when proved; present with evaluation
    reason: str = ""  # why there is no placement; empty when there is one
    notes: tuple[str, ...] = ()  # what a user should know about this run, one sentence each
    # seconds of the time limit that stopped the algorithm; None = it ended by itself, or proved its answer all the same
    stopped_at: float | None = None

    @property
    def objective(self) -> float | None:
        """Worth of the placement; ``None`` = there is no placement."""
        return None if self.evaluation is None else self.evaluation.objective

    @property
    def spread(self) -> Spread | None:
        """Spreads of the placement; ``None`` = there is no placement."""
        return None if self.evaluation is None else self.evaluation.spread

    @property
    def verdict(self) -> str:
        """The outcome in one sentence: ``proved optimal: DP spread 2, PP spread 4, objective 3.0``."""
        status, worth = status_words(self.status, self.stopped_at), self.evaluation
        if worth is None:
            return f"{status}: {self.reason}"
        found = f"DP spread {worth.dp}, PP spread {worth.pp}, objective {decimal(worth.objective)}"
        if self.status == "optimal":
            return f"{status}: {found}"
        return f"{status}, gap {self.gap:.1%}: {found}, proved bound {decimal(self.bound or 0.0)}"


def status_words(status: Status, stopped_at: float | None = None) -> str:
    """Return a status as text and pages show it: ``proved optimal``, ``feasible``, ``stopped at 5 s``."""
    return STATUS[status] if stopped_at is None else f"stopped at {stopped_at:.3g} s"


class RefusedPlacement(InvalidPlacement):
    """An algorithm proposed what the evaluator refuses: the algorithm's doing, not the user's."""

    exit_code = 1

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(
            f"the algorithm {outcome.algorithm!r} proposed an invalid placement: {outcome.reason}",
            fix="use --algorithm exact, which heeds all constraints; if that is refused, report it as a bug",
        )


def trivial_bound(job: Job) -> float:
    """Return what any placement costs at least: every group touches one domain."""
    return objective_of(job, 1, 1, sum(count.weight for count in job.counts))


def run(algorithm: PlacementAlgorithm, cluster: Cluster, job: Job, limits: Limits) -> Outcome:
    """Let an algorithm propose, and weigh its proposal; raises as :meth:`PlacementAlgorithm.place`."""
    ask = propose if cluster.trunks is None else propose_in_a_trunk
    proposal = ask(algorithm, cluster, job, limits)
    outcome = judge(algorithm.name, cluster, job, proposal)
    stopped = not proposal.complete and outcome.status in ("feasible", "timeout")
    return replace(outcome, stopped_at=limits.seconds) if stopped else outcome


def fits(cluster: Cluster, job: Job, *, solver: PlacementAlgorithm, limits: Limits) -> bool | None:
    """Return whether a job has any placement; ``None`` = not settled in time."""
    if job.holds:
        return {"optimal": True, "feasible": True, "infeasible": False}.get(run(solver, cluster, job, limits).status)
    # without holds any choice of enough free nodes is a placement
    return not shortage(cluster, job)


def judge(name: str, cluster: Cluster, job: Job, proposal: Proposal) -> Outcome:
    """Weigh a proposal of any algorithm by the one evaluator."""
    if proposal.nodes is None:
        status: Status = "infeasible" if proposal.infeasible else "gave-up" if proposal.complete else "timeout"
        reason = (
            f"{name} found no placement" if proposal.complete else "time ran out before a valid placement was found"
        )
        return Outcome(name, status, proposal, reason=proposal.infeasible or reason, notes=proposal.notes)
    try:
        evaluation = evaluate(cluster, job, proposal.nodes)
    except InvalidPlacement as error:
        return Outcome(name, "refused", proposal, reason=error.message, notes=proposal.notes)
    notes = proposal.notes
    bound = trivial_bound(job)
    if proposal.lower_bound is not None and proposal.lower_bound > evaluation.objective + TOLERANCE:
        notes += (f"{name} claims the bound {proposal.lower_bound:g}, which its own placement refutes: report this.",)
    elif proposal.lower_bound is not None:
        bound = max(bound, proposal.lower_bound)
    proved = bound >= evaluation.objective - TOLERANCE
    return Outcome(
        name,
        "optimal" if proved else "feasible",
        proposal,
        evaluation=evaluation,
        bound=evaluation.objective if proved else bound,
        gap=0.0 if proved else (evaluation.objective - bound) / evaluation.objective,
        notes=notes,
    )


_LEAST_SECONDS = 0.05  # Time that a trunk gets when the others have used all of it up


@dataclass(frozen=True, slots=True)
class _Answer:
    """What an algorithm says of one trunk, with nodes of the whole cluster."""

    proposal: Proposal
    evaluation: Evaluation | None  # `None` = no placement, or none that is valid
    time: float  # predicted step time; `inf` without a placement

    @property
    def rank(self) -> tuple[float, float, int, bool]:
        """By which answers are compared, the least the best."""
        if self.evaluation is None:
            return inf, inf, 0, self.proposal.nodes is None
        # alpha 0 or 1 gives one of the spreads no weight: of equal objectives the smaller spreads are a corner
        spreads = self.evaluation.dp + self.evaluation.pp
        return round(self.time, 9), round(self.evaluation.objective, 9), spreads, False


def propose(algorithm: PlacementAlgorithm, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
    """Return what an algorithm proposes; that nothing fits, or that time ran out, is a proposal too."""
    try:
        return algorithm.place(cluster, job, limits)
    except Infeasible as error:
        return Proposal(None, infeasible=error.message)
    except SolverTimeout:
        return Proposal(None, complete=False)


def propose_in_a_trunk(algorithm: PlacementAlgorithm, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
    """Return the best proposal over all trunks with enough nodes; of equal ones, that in the tightest trunk."""
    trunks = cluster.levels[0]
    # the level is the cluster's: a trunk by itself might count its spread elsewhere
    job = job.replace(level=cluster.level(job.level).name)
    if reason := shortage(cluster, job):
        return Proposal(None, infeasible=reason)
    free = count_nodes(trunks, admissible(cluster, job))
    fitting = [int(k) for k in np.argsort(free, kind="stable") if free[k] >= job.grid.cells]
    end = perf_counter() + limits.seconds
    answers = []
    for number, trunk in enumerate(fitting):
        seconds = max(_LEAST_SECONDS, (end - perf_counter()) / (len(fitting) - number))
        nodes = np.flatnonzero(trunks.domain_of == trunk).astype(np.int32)
        proposal = propose(algorithm, cluster.subset(nodes), job, replace(limits, seconds=seconds))
        answers.append(_weighed(cluster, job, nodes, proposal))
    return _together(answers)


def _weighed(cluster: Cluster, job: Job, nodes: IntArray, proposal: Proposal) -> _Answer:
    """Return a proposal for some nodes (a trunk's, by their indices in the cluster) as one for the cluster."""
    if proposal.nodes is None:
        return _Answer(proposal, None, inf)
    chosen = nodes[proposal.nodes]
    proposal = replace(proposal, nodes=chosen)
    try:
        evaluation = evaluate(cluster, job, chosen)
    except InvalidPlacement:
        return _Answer(proposal, None, inf)
    slowest = slowest_in_use(cluster, evaluation)
    return _Answer(proposal, evaluation, step_time(job, objective=evaluation.objective, slowest=slowest))


def _together(answers: Sequence[_Answer]) -> Proposal:
    best = min(answers, key=lambda answer: answer.rank)
    proposals = [answer.proposal for answer in answers]
    placed = [proposal for proposal in proposals if not proposal.infeasible]
    infeasible = "" if placed else proposals[0].infeasible
    bounds = [proposal.lower_bound for proposal in placed]
    return replace(
        best.proposal,
        lower_bound=None if None in bounds else min((bound for bound in bounds if bound is not None), default=None),
        complete=all(proposal.complete for proposal in proposals),
        infeasible=infeasible,
        pareto=_front(placed),
        refutations=_refuted_everywhere(best.proposal, placed),
        solve_seconds=sum(proposal.solve_seconds for proposal in proposals),
    )


def _front(proposals: Sequence[Proposal]) -> tuple[ParetoPoint, ...]:
    """Return the corners of all fronts that no other corner beats; proved where each trunk's front is."""
    points = {point for proposal in proposals for point in proposal.pareto}
    all_proved = all(point.proved for point in points) and all(proposal.pareto for proposal in proposals)
    return tuple(ParetoPoint(dp, pp, all_proved) for dp, pp in corners((point.dp, point.pp) for point in points))


def _refuted_everywhere(best: Proposal, proposals: Sequence[Proposal]) -> tuple[Refutation, ...]:
    """Return what rules a pair out in the chosen trunk, where something rules it out in each other trunk too."""
    return tuple(
        known
        for known in best.refutations
        if all(any(other.covers(*known.pair) for other in one.refutations) for one in proposals)
    )
