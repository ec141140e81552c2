"""Asking an algorithm for a proposal: of the whole cluster, or of each trunk where nothing joins the trunks.

There the best answer counts: so every algorithm heeds trunks without knowing of them, and a proof in each trunk is a
proof for the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from ground.errors import Infeasible, SolverTimeout
from scheduler.job import Job
from scheduler.objective import TOLERANCE, Evaluation, slowest_in_use, step_time, worth_of
from scheduler.placement.admission import admissible, shortage
from scheduler.placement.types import Limits, ParetoPoint, PlacementAlgorithm, Proposal, Refutation, corners
from scheduler.work_clock import clock, share_until
from topology.cluster import Cluster, IntArray, count_nodes


@dataclass(frozen=True, slots=True)
class WeighedProposal:
    """What an algorithm says of a part of the question, with nodes of the whole cluster."""

    proposal: Proposal
    evaluation: Evaluation | None  # `None` = no placement, or none that is valid
    time: float  # predicted step time; `inf` without a placement

    @property
    def rank(self) -> tuple[float, ...]:
        """By which answers are compared, the least the best."""
        if self.evaluation is None:
            return inf, inf, float(self.proposal.nodes is None)
        # alpha 0 or 1 gives one of the spreads no weight: of equal objectives the smaller spreads are a corner
        worth = self.evaluation
        costs = (self.time, *worth.goals)
        return *(round(one, 9) for one in costs), worth.dp + worth.pp


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
    end = clock() + limits.seconds
    answers = []
    for number, trunk in enumerate(fitting):
        seconds = share_until(end, len(fitting) - number)
        nodes = np.flatnonzero(trunks.domain_of == trunk).astype(np.int32)
        proposal = propose(algorithm, cluster.subset(nodes), job, replace(limits, seconds=seconds))
        proofs = tuple(replace(proof, trunk=trunks.domains[trunk]) for proof in proposal.proofs)
        proposal = replace(proposal, proofs=proofs)
        answers.append(weighed(cluster, job, nodes, proposal))
    return _together(answers)


def weighed(cluster: Cluster, job: Job, nodes: IntArray, proposal: Proposal) -> WeighedProposal:
    """Return a proposal for some nodes (a trunk's, by their indices in the cluster) as one for the cluster."""
    if proposal.nodes is None:
        return WeighedProposal(proposal, None, inf)
    chosen = nodes[proposal.nodes]
    proposal = replace(proposal, nodes=chosen)
    if (evaluation := worth_of(cluster, job, chosen)) is None:
        return WeighedProposal(proposal, None, inf)
    slowest = slowest_in_use(cluster, evaluation)
    time = step_time(job, objective=evaluation.objective, slowest=slowest)
    return WeighedProposal(proposal, evaluation, time)


def _together(answers: Sequence[WeighedProposal]) -> Proposal:
    best = min(answers, key=lambda answer: answer.rank)
    unrivalled = _unrivalled(best, answers)
    proposals = [answer.proposal for answer in answers]
    placed = [proposal for proposal in proposals if not proposal.infeasible]
    infeasible = "" if placed else proposals[0].infeasible
    return replace(
        best.proposal,
        expert_bound=best.proposal.expert_bound if unrivalled else 1.0,
        closer_bounds=best.proposal.closer_bounds if unrivalled else {},
        lower_bound=_least([proposal.lower_bound for proposal in placed]),
        step_time_bound=_least([proposal.step_time_bound for proposal in placed]),
        complete=all(proposal.complete for proposal in proposals),
        infeasible=infeasible,
        pareto=_front(placed),
        refutations=_refuted_everywhere(best.proposal, placed),
        proofs=(
            *best.proposal.proofs,
            *(one for other in answers if other is not best for one in other.proposal.proofs),
        ),
        solve_seconds=sum(proposal.solve_seconds for proposal in proposals),
    )


def _least(bounds: Sequence[float | None]) -> float | None:
    """Return what holds in all trunks; ``None`` = in one nothing is claimed, or there is none."""
    return None if None in bounds else min((bound for bound in bounds if bound is not None), default=None)


def _unrivalled(best: WeighedProposal, answers: Sequence[WeighedProposal]) -> bool:
    """Return whether a placement in no other trunk is as good, so that what is said of the goals after holds of all."""
    if best.evaluation is None:
        return False
    reached = best.evaluation.objective + TOLERANCE
    others = (one.proposal for one in answers if one is not best and not one.proposal.infeasible)
    return all(other.lower_bound is not None and other.lower_bound > reached for other in others)


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
