"""A placement problem, and the outcome of a run: an algorithm's proposal, weighed by the one evaluator.

Every command, study and service calls algorithms through :func:`run`, so that no algorithm scores itself and no
placement that breaks a rule is ever shown.

An algorithm is asked for each type of GPU that the job may be on (:mod:`scheduler.gpu_types`), there for each trunk
(:mod:`scheduler.trunks`), and the best answer counts; constraints beside the tree are laid into it
(:mod:`scheduler.second_constraints`): so every algorithm heeds all of these without knowing of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from time import perf_counter

from scheduler.gpu_types import TypeAnswer, TypeComparison, TypeOption, compare_types, in_words
from scheduler.job import Job
from scheduler.objective import TOLERANCE, Evaluation, Spread, evaluate, objective_of
from scheduler.placement.admission import TypeChoice, admissible, flags_of_usable, shortage, type_choices
from scheduler.placement.types import Limits, PlacementAlgorithm, Proposal, Status
from scheduler.second_constraints import SecondConstraints, named_beside
from scheduler.trunks import LEAST_SECONDS, propose, propose_in_a_trunk
from topology.cluster import BoolArray, Cluster, Level
from topology.errors import InvalidPlacement
from topology.flags import NodeFlag
from topology.quantities import decimal

STATUS: Mapping[Status, str] = {
    "optimal": "proved optimal",
    "feasible": "feasible",
    "infeasible": "infeasible",
    "timeout": "stopped at its time limit",
    "gave-up": "gave up",
    "refused": "refused",
}
"""Statuses of an outcome as text and pages show them."""


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

    def settled(self, outcome: Outcome) -> Instance:
        """Return it with the size of node of the type of GPU that was chosen, where the job leaves that to the type."""
        if outcome.gpus_per_node is None:
            return self
        return replace(self, job=self.job.replace(gpus_per_node=outcome.gpus_per_node, node_sizes=()))

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
    types: tuple[TypeOption, ...] = ()  # the types of GPU that it could be on; empty = nothing says any
    gpus_per_node: int | None = None  # of its nodes, where the job leaves that to them
    by_type: tuple[
        tuple[Job, Outcome], ...
    ] = ()  # what was compared: the job for each choice of types, and its outcome
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
    return objective_of(job, 1, 1, sum(count.weight for count in job.soft))


def run(algorithm: PlacementAlgorithm, cluster: Cluster, job: Job, limits: Limits) -> Outcome:
    """Let an algorithm propose, and weigh its proposal; raises as :meth:`PlacementAlgorithm.place`."""
    choices, short = type_choices(cluster, job)
    outcomes = list(_outcomes(algorithm, cluster, choices, limits))
    outcome = replace(outcomes[0], gpus_per_node=choices[0].job.gpus_per_node if job.node_sizes else None)
    options: tuple[TypeOption, ...] = ()
    if choices[0].gpu_types:
        comparison = compare_types([_of_type(*pair) for pair in zip(choices, outcomes, strict=True)])
        options = comparison.options
        if len(outcomes) > 1:
            outcome = _best_of_types(choices, outcomes, comparison, short)
    stopped = not outcome.proposal.complete and outcome.status in ("feasible", "timeout")
    return replace(outcome, types=options, stopped_at=limits.seconds if stopped else None)


def _outcomes(
    algorithm: PlacementAlgorithm, cluster: Cluster, choices: Sequence[TypeChoice], limits: Limits
) -> Iterator[Outcome]:
    """Yield the outcome for each choice of types; those that nothing rules out share the time."""
    ask = propose if cluster.trunks is None else propose_in_a_trunk
    if named_beside(cluster, choices[0].job) is not None:
        algorithm = SecondConstraints(algorithm)
    end, left = perf_counter() + limits.seconds, sum(not choice.shortage for choice in choices)
    for choice in choices:
        proposal = Proposal(None, infeasible=choice.shortage)
        if not choice.shortage:
            seconds = limits.seconds if len(choices) == 1 else max(LEAST_SECONDS, (end - perf_counter()) / left)
            proposal = ask(algorithm, cluster, choice.job, replace(limits, seconds=seconds))
            left -= 1
        yield judge(algorithm.name, cluster, choice.job, proposal)


def _best_of_types(
    choices: Sequence[TypeChoice], outcomes: Sequence[Outcome], comparison: TypeComparison, short: str
) -> Outcome:
    """Return the best outcome over some choices of types, its bound that of all of them.

    :param short: why the job cannot fit on any of them, whatever its shape; empty = on one it might.
    """
    chosen = choices[comparison.best]
    compared = tuple((choice.job, one) for choice, one in zip(choices, outcomes, strict=True))
    best = replace(outcomes[comparison.best], by_type=compared, gpus_per_node=chosen.job.gpus_per_node)
    proposal = replace(
        best.proposal,
        lower_bound=comparison.bound if best.evaluation else None,
        complete=all(outcome.proposal.complete for outcome in outcomes),
        solve_seconds=sum(outcome.proposal.solve_seconds for outcome in outcomes),
    )
    if best.evaluation is not None:
        return _weighed(best, proposal, best.evaluation, comparison.bound)
    pairs = zip(choices, outcomes, strict=True)
    reason = short or "; ".join(f"{in_words(choice.gpu_types)}: {found.reason}" for choice, found in pairs)
    return replace(best, proposal=replace(proposal, infeasible=proposal.infeasible and reason), reason=reason)


def _of_type(choice: TypeChoice, outcome: Outcome) -> TypeAnswer:
    """Return an outcome for some types as what is compared with those for others."""
    bound = outcome.bound
    if bound is None:
        least = max(trivial_bound(choice.job), outcome.proposal.lower_bound or 0.0)
        bound = inf if outcome.status == "infeasible" else least
    return TypeAnswer(choice, outcome.status, outcome.verdict, outcome.evaluation, bound)


def fits(cluster: Cluster, job: Job, *, solver: PlacementAlgorithm, limits: Limits) -> bool | None:
    """Return whether a job has any placement; ``None`` = not settled in time."""
    if job.holds_on(cluster):
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
    return _weighed(Outcome(name, "feasible", proposal, notes=notes), proposal, evaluation, bound)


def _weighed(outcome: Outcome, proposal: Proposal, evaluation: Evaluation, bound: float) -> Outcome:
    """Return an outcome with what its placement is worth, proved where the bound says so."""
    proved = bound >= evaluation.objective - TOLERANCE
    return replace(
        outcome,
        status="optimal" if proved else "feasible",
        proposal=proposal,
        evaluation=evaluation,
        bound=evaluation.objective if proved else bound,
        gap=0.0 if proved else (evaluation.objective - bound) / evaluation.objective,
    )
