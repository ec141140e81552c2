"""The algorithm ``exact``: the best (S, R), proved or with a certified gap, then the nodes.

In this order: what to admit (slow nodes have a price), the lattice walk over (S, R), the domains (fewest flagged nodes,
best fit for what stays free), and the same problem one level down, so that neighbours in a group are neighbours on the
wire.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf
from time import perf_counter

import numpy as np

from scheduler.job import Job
from scheduler.objective import evaluate, job_level
from scheduler.placement.exact import price
from scheduler.placement.exact.choice import choose_domains
from scheduler.placement.exact.instance import Instance
from scheduler.placement.exact.lattice import Lattice
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.search import Search
from scheduler.placement.seating import seat
from scheduler.placement.types import Limits, PriceOption, Proposal
from topology.capacity import count_nodes
from topology.cluster import Cluster, IntArray
from topology.errors import InvalidPlacement

_SEATING_SHARE = 0.05
"""Part of the time limit that exact searches below the job's level may use."""

_FRONT_SHARE = 0.05
"""Part of the time limit that corners of the Pareto front may take which the best pair did not need."""

_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class _Walked:
    """One way to admit slow nodes, searched."""

    instance: Instance
    search: Search
    time: float

    @property
    def lattice(self) -> Lattice:
        return self.search.lattice

    @property
    def objective(self) -> float:
        return self.lattice.cost(self.lattice.best)


class Exact:
    """See the module."""

    name = "exact"
    summary = "the best (S, R), proved or with a certified gap; then fewest flagged nodes, best fit, one level down"

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Propose the best placement that the time allows.

        :raises InvalidJob: the job cannot be cut into nodes.
        :raises UnknownName: the job names a level that the cluster does not have.
        """
        import ortools.sat.python.cp_model  # noqa: F401  (the import is no part of the solve time)

        start = perf_counter()
        options = price.thresholds(cluster, job)
        refusal = Instance(cluster, _counted_where_held(cluster, job), options[-1]).refusal
        if refusal:
            return Proposal(None, infeasible=refusal, solve_seconds=perf_counter() - start)
        walked = _walk_options(cluster, job, options, limits)
        chosen = min(walked, key=lambda w: (round(w.time, 9), w.instance.slowest))
        # what is claimed is claimed of all nodes that the job may use: under `ignore` these are the slow ones too
        claims = walked[-1] if job.avoid == "ignore" else chosen
        solved = perf_counter()
        nodes = _best_seating(chosen, limits)
        claims.search.fill_front(seconds=_FRONT_SHARE * limits.seconds)
        return Proposal(
            nodes,
            lower_bound=claims.lattice.bound() + _least_soft(claims.instance),
            complete=claims.search.complete,
            pareto=claims.lattice.pareto(),
            refutations=tuple(claims.lattice.refutations),
            prices=_prices(walked, chosen) if len(options) > 1 else (),
            solve_seconds=solved - start,
            statistics={"afterwards_seconds": perf_counter() - solved, "domains": float(len(chosen.instance.domains))},
        )


def solve_grid(rows: int, columns: int, capacities: tuple[int, ...], alpha: float, seconds: float) -> IntArray | None:
    """The best assignment of a bare grid: the search, as seating asks for it one level down.

    :param capacities: in descending order, positive, at least ``rows * columns`` together.
    :returns: shape [rows, columns], an index into the capacities for each cell.
    """
    problem = GridProblem(rows, columns, capacities)
    search = Search(problem, alpha=alpha, beta=1.0 - alpha, limits=Limits(seconds=seconds, workers=1))
    lattice = search.run()
    return lattice.built[lattice.best]


def _walk_options(cluster: Cluster, job: Job, options: tuple[float, ...], limits: Limits) -> list[_Walked]:
    """Search the thresholds that can win, ascending; the widest first of all, for its bound serves the others."""
    end = perf_counter() + limits.seconds
    walked: list[_Walked] = []
    widest = _walk(Instance(cluster, job, options[-1]), limits, end, shares=min(2, len(options)))
    least = widest.lattice.bound()
    for i, slowest in enumerate(options[:-1]):
        instance = Instance(cluster, job, slowest)
        fastest = price.step_time(job, objective=least, slowest=slowest)
        refusal = Instance(cluster, _counted_where_held(cluster, job), slowest).refusal
        if refusal or any(w.time <= fastest + _SAME for w in walked):
            continue
        walked.append(_walk(instance, limits, end, shares=len(options) - 1 - i))
    return [*walked, widest]


def _walk(instance: Instance, limits: Limits, end: float, *, shares: int) -> _Walked:
    job = instance.job
    seconds = max(0.05, (end - perf_counter()) / shares)
    search = Search(instance.problem, alpha=job.alpha, beta=job.beta, limits=replace(limits, seconds=seconds))
    lattice = search.run()
    time = price.step_time(job, objective=lattice.cost(lattice.best), slowest=instance.slowest)
    return _Walked(instance, search, time)


def _prices(walked: list[_Walked], chosen: _Walked) -> tuple[PriceOption, ...]:
    options = []
    for w in walked:
        slowest, is_chosen = w.instance.slowest, w is chosen
        words = price.sentence(slowest=slowest, objective=w.objective, time=w.time, chosen=is_chosen)
        options.append(PriceOption(slowest, w.objective, w.time, is_chosen, words))
    return tuple(options)


def _counted_where_held(cluster: Cluster, job: Job) -> Job:
    """The job with its spread counted at the broadest level of all that it counts or holds at.

    Only there can it be counted out whether all holds can be kept: blocks lie in one domain at their level and broader
    ones.  At a closer level of its own the search sees no such hold.
    """
    levels = [job_level(cluster, job), *(cluster.level(hold.level) for hold in job.holds)]
    return job.replace(level=min(levels, key=lambda level: cluster.level_index(level.name)).name)


def _best_seating(walked: _Walked, limits: Limits) -> IntArray:
    """Nodes for the cheapest pair; with soft terms, for every corner of the front, and the best by the evaluator.

    With a hold broader than the job's level these may break it; then nodes that keep it, by a search up there.
    """
    lattice, job, cluster = walked.lattice, walked.instance.job, walked.instance.cluster
    corners = [(point.dp, point.pp) for point in lattice.pareto()] if job.counts else [lattice.best]
    seated = [_seat(walked.instance, lattice.built[pair], limits) for pair in corners]
    held = Instance(cluster, _counted_where_held(cluster, job), walked.instance.slowest)
    if held.level is not walked.instance.level:
        end = perf_counter() + _SEATING_SHARE * limits.seconds
        above = _walk(held, limits, end, shares=1).lattice
        seated.append(_seat(held, above.built[above.best], limits))
    return min(seated, key=lambda nodes: _worth(cluster, job, nodes))


def _worth(cluster: Cluster, job: Job, nodes: IntArray) -> float:
    try:
        return evaluate(cluster, job, nodes).objective
    except InvalidPlacement:
        return inf


def _seat(instance: Instance, part_of_block: IntArray, limits: Limits) -> IntArray:
    return seat(
        instance.cluster,
        instance.job,
        level=instance.level,
        domain_of_cell=instance.domain_of_cell(choose_domains(instance, part_of_block)),
        admitted=instance.admitted,
        solve_grid=solve_grid,
        seconds=_SEATING_SHARE * limits.seconds,
    )


def _least_soft(instance: Instance) -> float:
    """Least value of the soft terms: a group needs at least as many domains as its cells fill of the largest."""
    total = 0.0
    for count in instance.job.counts:
        largest = int(count_nodes(instance.cluster.level(count.level), instance.admitted).max())
        cells = int(np.bincount(instance.job.grid.groups[count.family].ravel()).max())
        total += count.weight * ceil(cells / largest)
    return total
