"""Which share of its time each job is owed on each type of GPU: linear programs of Gavel's kind, solved by GLOP.

With T the speed of job m on type j, s the GPUs of a job, N the GPUs of a type, X >= 0 the shares::

    sum_j X_mj <= 1,    sum_m s_m X_mj <= N_j,    rate_mj = s_m T_mj / E_m,    E_m = sum_j T_mj N_j / sum_j N_j

E is what a job reaches that is on each type as often as there are GPUs of it.  Three objectives: the least ``sum_j
rate_mj X_mj`` as large as possible; their sum; the largest finish time, over that on an equal part of the cluster, as
small as possible.  The first is that of Gavel's public code (``max_min_fairness.py`` of
github.com/stanford-futuredata/gavel at c4fa4009; Narayanan et al., OSDI 2020).  Ours: what is left over at the least
rate goes where it adds most to the sum; and the finish time alone on an equal part is that at today's number of jobs.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import inf

import numpy as np

from topology.cluster import FloatArray

_CLOSE = 1e-3  # The search for the least finish-time ratio ends when its ends differ by this share
_SLACK = 1.0 - 1e-7  # Of what was found possible, what a second program asks for: sums in another order differ by less


@dataclass(frozen=True, slots=True)
class ShareProblem:
    """Jobs and types of GPU; a value, so that the same question is answered once."""

    speeds: tuple[tuple[float, ...], ...]  # of each job on each type; 0 = it does not run there, on one at least above
    gpus: tuple[float, ...]  # of each job
    counts: tuple[float, ...]  # GPUs of each type

    @property
    def rates(self) -> FloatArray:
        """Return shape [jobs, types], what a job has of its equal part per share of time on a type."""
        speeds, counts = np.array(self.speeds), np.array(self.counts)
        rates: FloatArray = speeds * (np.array(self.gpus) / (speeds @ counts / counts.sum()))[:, None]
        return rates


@lru_cache(maxsize=64)  # the jobs of a cluster are the same over many rounds
def max_min_shares(problem: ShareProblem) -> tuple[float, FloatArray]:
    """Return the largest least rate there is, and shares with it, shape [jobs, types]."""
    # a type without GPUs of it serves no job
    least, _ = _solve(problem, problem.rates, np.zeros(len(problem.gpus)), common=True) or (0.0, None)
    return least, total_shares(problem, least * _SLACK)


@lru_cache(maxsize=64)
def total_shares(problem: ShareProblem, least: float = 0.0) -> FloatArray:
    """Return shares with the largest sum of rates, none below the least, shape [jobs, types]; 0 if there are none."""
    rates = problem.rates
    solved = _solve(problem, rates, np.full(len(rates), least))
    return np.zeros_like(rates) if solved is None else solved[1]


def finish_time_shares(problem: ShareProblem, passed: FloatArray, left: FloatArray) -> tuple[float, FloatArray]:
    """Return the least largest ratio of finish times, and shares with it, shape [jobs, types].

    The ratio of a job is ``(passed + left / speed) / ((passed + left) / speed alone)``.

    :param passed: shape [jobs], seconds since each was submitted.
    :param left: shape [jobs], seconds of work at speed 1, above 0.
    """
    speeds, gpus, counts = (
        np.array(numbers, dtype=np.float64) for numbers in (problem.speeds, problem.gpus, problem.counts)
    )
    alone = counts[None, :] / len(gpus) / gpus[:, None]
    alone /= np.maximum(alone.sum(axis=1, keepdims=True), 1.0)
    slow = (speeds * alone).sum(axis=1)
    ideal = (passed + left) / slow
    low, high = (float(np.max((passed + left / speed) / ideal)) for speed in (speeds.max(axis=1), slow))
    shares = alone
    while high > low * (1.0 + _CLOSE):
        middle = (low + high) / 2
        room = middle * ideal - passed
        solved = _solve(problem, speeds, np.where(room > 0.0, left / np.where(room > 0.0, room, 1.0), inf))
        if solved is None:
            low = middle
        else:
            high, shares = middle, solved[1]
    return high, shares


def _solve(
    problem: ShareProblem, rates: FloatArray, needs: FloatArray, *, common: bool = False
) -> tuple[float, FloatArray] | None:
    """Maximise the sum of rates x shares, or with ``common`` what all jobs have in common beyond their needs.

    :param needs: shape [jobs], the least that the sum of a job may be.
    :returns: the objective and the shares, shape [jobs, types]; ``None`` = the needs cannot be met together.
    """
    from ortools.linear_solver import pywraplp

    if not np.isfinite(needs).all():
        return None
    solver = pywraplp.Solver.CreateSolver("GLOP")
    objective = solver.Objective()
    objective.SetMaximization()
    least = solver.NumVar(0.0, solver.infinity(), "")
    objective.SetCoefficient(least, float(common))
    types = [solver.Constraint(0.0, float(count)) for count in problem.counts]
    shares = []
    for row, need, gpus in zip(rates.tolist(), needs.tolist(), problem.gpus, strict=True):
        whole, reached = solver.Constraint(0.0, 1.0), solver.Constraint(need, solver.infinity())
        reached.SetCoefficient(least, -float(common))
        shares.append([solver.NumVar(0.0, 1.0, "") for _ in row])
        for share, rate, of_type in zip(shares[-1], row, types, strict=True):
            whole.SetCoefficient(share, 1.0)
            reached.SetCoefficient(share, rate)
            of_type.SetCoefficient(share, gpus)
            if not common:
                objective.SetCoefficient(share, rate)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return None
    return objective.Value(), np.array([[share.solution_value() for share in row] for row in shares]).clip(0.0, 1.0)
