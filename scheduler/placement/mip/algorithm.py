"""arnold-mip: the paper's placement, from its program's solution to nodes.

After solving, contiguous ranks go to the nodes of one minipod: groups are ordered so that those in the same minipods
follow each other, and a group split across minipods is cut into runs of neighbouring stages.

The program's bound is about ``alpha * sum y + beta * T``, not about Eq. 2, so a proposal carries it in its statistics
and claims no lower bound.  The Arnold paper solves with SCIP.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from scheduler.job import Job
from scheduler.objective import job_level
from scheduler.placement.admission import admissible, shortage
from scheduler.placement.heuristic import Request
from scheduler.placement.mip.formulation import Program, Solution, Solver, solve
from scheduler.placement.types import Limits, Proposal
from topology.cluster import Cluster, IntArray


@dataclass(frozen=True, slots=True)
class ArnoldMip:
    """The paper's mixed-integer program through OR-Tools.

    :param cuts: add the valid cuts that let the solver prove its optimum.
    """

    name: str
    summary: str
    solver: Solver = "scip"
    cuts: bool = False

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Solve within the time limit (building the model included), then hand out nodes.

        :raises InvalidJob: the job cannot be cut into nodes.
        :raises UnknownName: the job names a level that the cluster does not have.
        """
        start = perf_counter()
        level = job_level(cluster, job)
        if reason := shortage(cluster, job):
            return Proposal(None, infeasible=reason, solve_seconds=perf_counter() - start)
        request = Request(cluster, job, level, admissible(cluster, job), limits.seed)
        pools = [pool for pool in request.pools if len(pool)]
        free = np.array([len(pool) for pool in pools], dtype=np.int32)
        program = Program(free, groups=job.grid.rows, length=job.grid.columns, alpha=job.alpha, beta=job.beta)
        limits.say(f"{self.name}: {program.groups} groups on {len(free)} domains")
        solution = solve(program, solver=self.solver, cuts=self.cuts, seconds=limits.seconds, seed=limits.seed)
        nodes = None if solution.counts is None else hand_out(solution.counts, pools, job.grid.node_rank)
        return Proposal(
            nodes,
            complete=solution.proved,
            solve_seconds=perf_counter() - start,
            notes=(_note(self.solver, solution),),
            statistics=_statistics(solution),
        )


def hand_out(counts: IntArray, pools: list[IntArray], ranks: IntArray) -> IntArray:
    """Nodes for every cell.

    :param counts: shape [rows, domains], nodes of each PP group in each domain.
    :param pools: free nodes of each domain.
    :param ranks: shape [rows, columns], rank of each cell; within a domain nodes are taken in this order.
    :returns: shape [rows, columns].
    """
    alike = np.lexsort(tuple(-counts[:, k] for k in reversed(range(counts.shape[1]))))
    domains = np.arange(counts.shape[1])
    domain_of = np.array([np.repeat(domains, counts[row]) for row in alike])
    nodes = np.empty(ranks.shape, dtype=np.int32)
    for k, pool in enumerate(pools):
        cells = np.flatnonzero(domain_of == k)
        by_rank = cells[np.argsort(ranks.ravel()[cells])]
        nodes.ravel()[by_rank] = pool[: len(cells)]
    return nodes


def _statistics(solution: Solution) -> dict[str, float]:
    values = {
        "mip_objective": solution.objective,
        "mip_bound": solution.bound,
        "mip_proved": float(solution.proved),
        "mip_seconds": solution.seconds,
    }
    return {key: value for key, value in values.items() if np.isfinite(value)}


def _note(solver: Solver, solution: Solution) -> str:
    name = {"scip": "SCIP", "highs": "HiGHS"}[solver]
    own = "its own objective (alpha * domains used + beta * most domains of a PP group)"
    if solution.counts is None:
        return f"{name} found no placement in {solution.seconds:.1f} s"
    if solution.proved:
        return (
            f"{name} proved {own} to be {solution.objective:g} in {solution.seconds:.2f} s; that is no bound on Eq. 2"
        )
    return (
        f"{name} stopped after {solution.seconds:.1f} s with {own} between {solution.bound:g} and "
        f"{solution.objective:g}; that is no bound on Eq. 2"
    )


def arnold_mip() -> ArnoldMip:
    """The paper's algorithm: its program, solved by SCIP."""
    return ArnoldMip("arnold-mip", "the Arnold paper's MIP (Eq. 4-10), solved by SCIP")


def arnold_mip_highs() -> ArnoldMip:
    """The paper's program, solved by HiGHS."""
    return ArnoldMip("arnold-mip-highs", "the Arnold paper's MIP (Eq. 4-10), solved by HiGHS", solver="highs")


def arnold_mip_cuts() -> ArnoldMip:
    """The paper's program with three valid cuts, solved by SCIP."""
    return ArnoldMip("arnold-mip-cuts", "the Arnold paper's MIP with three valid cuts, solved by SCIP", cuts=True)
