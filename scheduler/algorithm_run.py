"""The run of an algorithm: it proposes, and the one evaluator weighs its proposal.

Every command, study and service calls algorithms through :func:`run`, so that no algorithm scores itself and no
placement that breaks a rule is ever shown.

An algorithm is asked for each type of GPU that the job may be on, there for each trunk, and the best answer counts;
constraints beside the tree are laid into it: so every algorithm heeds all of these without knowing of them.  Among
placements that are worth the same, one on preferred nodes is taken (:mod:`scheduler.subproblems`).
"""

from dataclasses import replace
from functools import partial

from ground.errors import InvalidPlacement
from scheduler.job import Job
from scheduler.objective import TOLERANCE, evaluate, step_time, trivial_bound
from scheduler.outcome import Instance, Outcome, PredictedStep
from scheduler.placement.admission import held_in_cut_domains, prices_slow_nodes, shortage, type_choices
from scheduler.placement.node_order import numbered_by_name
from scheduler.placement.types import Limits, PlacementAlgorithm, Proposal, Status
from scheduler.subproblems import (
    Preference,
    SecondConstraints,
    best_of_types,
    prefer,
    propose,
    propose_in_a_trunk,
    pulls_of,
    rank_of_type,
)
from scheduler.work_clock import clock, ended_at, on_clock, share_until, stopwatch
from topology.cluster import Cluster, FloatArray
from topology.flags import HEALTHY

PREFERENCE_SHARE = 0.5  # Of the time limit, for the same question on preferred nodes alone


def run(
    algorithm: PlacementAlgorithm, cluster: Cluster, job: Job, limits: Limits, *, costs: FloatArray | None = None
) -> Outcome:
    """Let an algorithm propose, and weigh its proposal; raises as :meth:`PlacementAlgorithm.place`.

    :param costs: shape [nodes], what decides between placements worth the same: GB that each node would pull, minus its
        affinity; ``None`` = GB as the job names its images.
    """
    if limits.clock == "work":  # nobody waits
        return _preferred(algorithm, cluster, job, limits, costs)
    started = stopwatch()
    return replace(_preferred(algorithm, cluster, job, limits, costs), run_seconds=stopwatch() - started)


def _preferred(
    algorithm: PlacementAlgorithm, cluster: Cluster, job: Job, limits: Limits, costs: FloatArray | None
) -> Outcome:
    """Return the outcome, of placements worth the same one on nodes that cost least."""
    choices, short = type_choices(cluster, job)

    def asked(of_types: Job, part: Cluster, seconds: float) -> Outcome:
        ask = propose if part.trunks is None else propose_in_a_trunk
        proposal = ask(SecondConstraints(algorithm).place, part, of_types, replace(limits, seconds=seconds))
        return judge(algorithm.name, part, of_types, proposal)

    with on_clock(limits.clock, limits.seconds) as timer:
        # the choices of types that nothing rules out share the time
        end, left = clock() + limits.seconds, sum(not choice.shortage for choice in choices)
        outcomes = []
        for choice in choices:
            if choice.shortage:
                outcomes.append(judge(algorithm.name, cluster, choice.job, Proposal(None, infeasible=choice.shortage)))
            else:
                share = limits.seconds if len(choices) == 1 else share_until(end, left)
                outcomes.append(asked(choice.job, cluster, share))
                left -= 1
    costs, late = pulls_of(cluster, job) if costs is None else costs, timer.late
    if costs is not None:
        # of types that are not as good as the best none is taken for its nodes
        ranks = [rank_of_type(*pair)[0] for pair in zip(choices, outcomes, strict=True)]
        with on_clock(limits.clock, limits.seconds * PREFERENCE_SHARE) as timer:
            end = clock() + limits.seconds * PREFERENCE_SHARE
            for i, (choice, outcome) in enumerate(zip(choices, outcomes, strict=True)):
                if outcome.evaluation is not None and ranks[i] == min(ranks):
                    until = clock() + (end - clock()) / ranks[i:].count(ranks[i])
                    again = partial(asked, choice.job)
                    outcomes[i] = prefer(Preference(Instance(cluster, choice.job), costs, again, until), outcome)
    outcome = outcomes[0]
    if choices[0].gpu_types:
        outcome = best_of_types(cluster, choices, outcomes, short=short, costs=costs)
    if job.node_sizes:
        outcome = replace(outcome, gpus_per_node=outcome.gpus_per_node or choices[0].job.gpus_per_node)
    outcome = outcome.after(None if (outcome.proposal.complete and not late) else ended_at(limits.seconds), late=late)
    if outcome.status == "infeasible" and (cut := held_in_cut_domains(cluster, job)) and not shortage(cluster, job):
        outcome = replace(outcome, reason=f"{outcome.reason}. It rests on domains that are cut: {cut}")
    return outcome.after(ended_at(limits.seconds), late=True) if timer.late else outcome


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
    if not proposal.in_order:
        # worth the same; scripts that take the first name for rank 0 find it there
        proposal = replace(proposal, nodes=numbered_by_name(cluster, job, proposal.nodes))
    notes = proposal.notes
    bound = trivial_bound(job)
    if proposal.lower_bound is not None and proposal.lower_bound > evaluation.objective + TOLERANCE:
        notes += (f"{name} claims the bound {proposal.lower_bound:g}, which its own placement refutes: report this.",)
    elif proposal.lower_bound is not None:
        bound = max(bound, proposal.lower_bound)
    step = None
    if prices_slow_nodes(cluster, job):
        # no step is shorter than one with that bound on healthy nodes
        shortest = step_time(job, objective=bound, slowest=HEALTHY)
        step = PredictedStep.of(cluster, job, evaluation, bound=max(shortest, proposal.step_time_bound or 0.0))
        if (proposal.step_time_bound or 0.0) > step.time + TOLERANCE:
            claim = (
                f"{name} claims the bound {proposal.step_time_bound:g} of step times, which its own placement refutes"
            )
            notes += (f"{claim}: report this.",)
            step = PredictedStep.of(cluster, job, evaluation, bound=shortest)
    return Outcome(name, "feasible", proposal, notes=notes).weighed(proposal, evaluation, bound, step)


def fits(cluster: Cluster, job: Job, *, solver: PlacementAlgorithm, limits: Limits) -> bool | None:
    """Return whether a job has any placement; ``None`` = not settled in time."""
    if job.holds_groups:
        status = run(solver, cluster, job, replace(limits, told="placement")).status
        return {"optimal": True, "feasible": True, "infeasible": False}.get(status)
    # without holds any choice of enough free nodes is a placement
    return not shortage(cluster, job)
