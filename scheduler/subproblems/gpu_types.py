"""Which types of GPU a gang may be on, and on which of them it is best.

All nodes of a gang have GPUs of one type, unless its job says that it may mix them.  So a job is placed once for each
type that it admits, as a job for the nodes of that type alone; and the choice is what has the least
``objective / speed``, the speed of the job on the type.

A mixed gang is as fast as the slowest type in it.  Of all mixed placements the best is found by one more placement for
each speed: on all types that are at least as fast.  Every placement is one of those whose slowest type is its own, so
the least of ``bound / speed`` over all choices is a bound for every placement there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from scheduler.job import Job
from scheduler.objective import TOLERANCE, Evaluation, trivial_bound
from scheduler.outcome import Outcome, PredictedStep, TypeOption
from scheduler.placement.admission import TypeChoice
from scheduler.placement.types import Status
from topology.cluster import Cluster, IntArray

# Where nothing was placed: what leaves most hope comes first
_HOPE: Sequence[Status] = ("timeout", "gave-up", "refused", "infeasible")


def best_of_types(choices: Sequence[TypeChoice], outcomes: Sequence[Outcome], short: str) -> Outcome:
    """Return the best of the outcomes for all choices of types, at least one, its bound that of all of them.

    The least ``objective / speed`` wins; of equal ones fewest flagged nodes, one type before several, and the type of
    which most nodes are left.

    :param short: why the job cannot fit on any of them, whatever its shape; empty = on one it might.
    """
    pairs = list(zip(choices, outcomes, strict=True))
    ranks = [_rank(*pair) for pair in pairs]
    best = ranks.index(min(ranks))
    options = [_option(*pair, chosen=pair is pairs[best]) for pair in pairs]
    chosen = replace(outcomes[best], types=tuple(options))
    if len(pairs) == 1:
        return chosen
    compared = tuple((choice.job, outcome) for choice, outcome in pairs)
    chosen = replace(chosen, by_type=compared, gpus_per_node=choices[best].job.gpus_per_node)
    # of objective / speed: no placement on any of the types has less
    least = min(_bound(*pair) / pair[0].job.speed_on(pair[0].gpu_types) for pair in pairs)
    bound = least * options[best].speed
    proposal = replace(
        chosen.proposal,
        lower_bound=None if chosen.evaluation is None else bound,
        complete=all(outcome.proposal.complete for outcome in outcomes),
        solve_seconds=sum(outcome.proposal.solve_seconds for outcome in outcomes),
    )
    if chosen.evaluation is not None:
        weighed = chosen.weighed(proposal, chosen.evaluation, bound, chosen.step)
        if any(outcome.step is not None for outcome in outcomes):
            # each answer is the best on its types by its step, which the bound of objectives says nothing about
            rivals = (_open(*pair, cost=ranks[best][0]) for pair in pairs if pair is not pairs[best])
            proved = outcomes[best].status == "optimal" and not any(rivals)
            weighed = replace(weighed, status="optimal" if proved else "feasible")
        return weighed
    reason = short or "; ".join(f"{in_words(choice.gpu_types)}: {outcome.reason}" for choice, outcome in pairs)
    return replace(chosen, proposal=replace(proposal, infeasible=proposal.infeasible and reason), reason=reason)


def _rank(choice: TypeChoice, outcome: Outcome) -> tuple[float, ...]:
    """Return by what outcomes for several choices of types are compared, the least the best."""
    worth = outcome.evaluation
    if worth is None:
        return inf, _HOPE.index(outcome.status)
    left = choice.usable - choice.job.grid.cells
    cost = worth.objective / choice.job.speed_on(worth.gpu_types)
    return round(cost, 9), len(worth.flagged), len(choice.gpu_types) > 1, -left


def _open(choice: TypeChoice, outcome: Outcome, *, cost: float) -> bool:
    """Return whether an answer on some types is not settled, and may yet be chosen over one of some cost."""
    if outcome.status in ("optimal", "infeasible"):
        return False
    return _bound(choice, outcome) / choice.job.speed_on(choice.gpu_types) < cost - TOLERANCE


def _bound(choice: TypeChoice, outcome: Outcome) -> float:
    """Return what no placement on some types is below; infinite = there is none."""
    if outcome.bound is not None:
        return outcome.bound
    if outcome.status == "infeasible":
        return inf
    return max(trivial_bound(choice.job), outcome.proposal.lower_bound or 0.0)


def _option(choice: TypeChoice, outcome: Outcome, *, chosen: bool) -> TypeOption:
    """Return the outcome for some types as what is shown; chosen is one with a placement."""
    names, worth = choice.gpu_types, outcome.evaluation
    speed = choice.job.speed_on(names if worth is None else worth.gpu_types)
    sentence = f"{in_words(names)}: {outcome.verdict}"
    if worth is not None and speed != 1.0:
        sentence += f"; speed {speed:g}, so as good as {worth.objective / speed:.4g} at speed 1"
    placed = chosen and worth is not None
    return TypeOption(
        gpu_types=names,
        nodes=choice.usable,
        status=outcome.status,
        speed=speed,
        objective=outcome.objective,
        bound=outcome.bound,
        cost=None if worth is None else worth.objective / speed,
        chosen=placed,
        sentence=f"{sentence}; chosen" if placed else sentence,
    )


def on_nodes(
    outcome: Outcome, which: int, *, cluster: Cluster, job: Job, nodes: IntArray, worth: Evaluation
) -> Outcome:
    """Return an outcome on other nodes that are worth the same, of one of its choices of types.

    :param job: as one for these types.
    """
    there = outcome.by_type[which][1] if outcome.by_type else outcome
    step = None if there.step is None else PredictedStep.of(cluster, job, worth, bound=there.step.bound)
    proposal = replace(outcome.proposal, nodes=nodes, prices=there.proposal.prices)
    moved = replace(outcome, proposal=proposal, evaluation=worth, step=step)
    if not outcome.by_type:
        return moved
    compared, options = list(outcome.by_type), []
    for i, option in enumerate(outcome.types):
        choice = TypeChoice(compared[i][0], option.gpu_types, option.nodes)
        if i == which:
            proposal = replace(there.proposal, nodes=nodes)
            compared[i] = choice.job, there.weighed(proposal, worth, _bound(choice, there), step)
        options.append(_option(choice, compared[i][1], chosen=i == which))
    size = compared[which][0].gpus_per_node
    return replace(moved, types=tuple(options), by_type=tuple(compared), gpus_per_node=size)


def speed_of(cluster: Cluster, job: Job, nodes: IntArray) -> float:
    """Return the relative speed of a job on some nodes, at least one: that of the slowest type in use."""
    return job.speed_on(cluster.gpu_types[k] for k in np.unique(cluster.gpu_type_of[nodes]))


def in_words(names: Sequence[str]) -> str:
    """Return types of GPU as text: ``H100``, ``H100 and H200 mixed``."""
    spoken = [name or "nodes of no type that is said" for name in names]
    return spoken[0] if len(spoken) == 1 else f"{' and '.join(spoken)} mixed"
