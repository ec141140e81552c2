"""A placement problem, and the outcome of a run: an algorithm's proposal, weighed by the one evaluator.

Every command, study and service calls algorithms through :func:`run`, so that no algorithm scores itself and no
placement that breaks a rule is ever shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from scheduler.job import Job
from scheduler.objective import Evaluation, Spread, evaluate, job_level, objective_of
from scheduler.placement.trunks import propose, propose_in_a_trunk
from scheduler.placement.types import Limits, PlacementAlgorithm, Proposal
from topology.cluster import Cluster, Level
from topology.errors import InvalidPlacement
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
    source: str = ""
    """Name of the cluster's file."""
    notes: tuple[str, ...] = ()
    """What is worth knowing about how the two were read, a sentence each."""

    @cached_property
    def level(self) -> Level:
        """The level at which spread counts.

        :raises UnknownName: the job names a level that the cluster does not have.
        """
        return job_level(self.cluster, self.job)


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
    """Let an algorithm propose, and weigh its proposal.

    :raises InvalidJob: the job cannot be cut into nodes.
    :raises UnknownName: the job names a level that the cluster does not have.
    """
    ask = propose if cluster.trunks is None else propose_in_a_trunk
    proposal = ask(algorithm, cluster, job, limits)
    outcome = judge(algorithm.name, cluster, job, proposal)
    stopped = not proposal.complete and outcome.status in ("feasible", "timeout")
    return replace(outcome, stopped_at=limits.seconds) if stopped else outcome


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
