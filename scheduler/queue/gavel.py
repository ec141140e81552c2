"""Gavel (Narayanan et al., OSDI 2020): each job is owed a share of its time on each type of GPU, and has it in rounds.

The shares come from a linear program (``scheduler.placement.type_shares``).  At the end of each round those jobs have
the next turn, type by type, that have least of what they are owed: by their *priority*, largest first::

    (owed so far + share x round) / (had so far + round)

Gavel's code divides the share by the fraction of time received since shares were last computed; ours adds up both over
the life of a job, so that a policy need not remember when they changed.  What is left goes to jobs of priority 0, and
of those with a turn the largest are placed first.  Where no nodes that hold it together have room, a job lies apart.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler.placement.type_shares import ShareProblem, finish_time_shares, max_min_shares, total_shares
from scheduler.queue.rounds import ROUND, InRounds, RoundJob, RoundPlan, RoundState, RoundTurn
from topology.cluster import FloatArray

_NOTHING = 1e-9  # A share that rounding left


class GavelMaxMin(InRounds):
    """The least share of what each job would have of an equal part of the cluster is as large as it can be."""

    name = "gavel"
    summary = "in rounds: shares of types of GPU by throughput, the least as large as possible (Gavel)"

    def shares(self, problem: ShareProblem, jobs: Sequence[RoundJob], cluster: RoundState) -> FloatArray:  # noqa: ARG002
        """Return the share of time that each job is owed on each type, shape [jobs, types]."""
        return max_min_shares(problem)[1]

    def turns(self, jobs: Sequence[RoundJob], cluster: RoundState) -> RoundPlan:
        """Give turns to the jobs that have least of their shares."""
        room = dict(cluster.units_by_type)
        names = list(room)
        ways = [cluster.allocations(job) for job in jobs]
        speeds = tuple(tuple(of_type[name][0].speed if name in of_type else 0.0 for name in names) for of_type in ways)
        units = [next(iter(of_type.values()))[0].units for of_type in ways]
        problem = ShareProblem(speeds, tuple(map(float, units)), tuple(float(room[name]) for name in names))
        shares = self.shares(problem, jobs, cluster)
        seconds = self.round_seconds or ROUND
        chosen = {i: job.allocation.gpu_types[0] for i, job in enumerate(jobs) if cluster.starting(job)}
        for i, name in chosen.items():
            room[name] -= units[i]
        queue = []
        for i, job in enumerate(jobs):
            for j, name in enumerate(names):
                if name in ways[i]:
                    share = max(float(shares[i, j]) - _NOTHING, 0.0)
                    owed, had = job.standing.get(name, (0.0, 0.0))
                    priority = (owed + share * seconds) / (had + seconds) if share else 0.0
                    # of equals first those that have nodes of the type already, then those that came first
                    stays = bool(job.places) and job.allocation.gpu_types == (name,)
                    queue.append((-priority, -share, not stays, job.submitted, i, name))
        for *_, i, name in sorted(queue):
            if i not in chosen and units[i] <= room[name]:
                chosen[i] = name
                room[name] -= units[i]
        turns = [
            RoundTurn(jobs[i], ways[i][name])
            for i, name in sorted(chosen.items(), key=lambda choice: -units[choice[0]])
        ]
        owed_by = {job.key: dict(zip(names, row, strict=True)) for job, row in zip(jobs, shares.tolist(), strict=True)}
        return RoundPlan(turns, owed_by)


class GavelFinishTime(GavelMaxMin):
    """The largest finish time, over that on an equal part of the cluster alone, is as small as it can be."""

    name = "gavel-finish-time"
    summary = "in rounds: shares of types of GPU by throughput, finish times as fair as possible (Gavel)"

    def shares(self, problem: ShareProblem, jobs: Sequence[RoundJob], cluster: RoundState) -> FloatArray:
        """Return the share of time that each job is owed on each type, shape [jobs, types]."""
        passed = np.array([max(0.0, cluster.now - job.submitted) for job in jobs])
        return finish_time_shares(problem, passed, np.array([cluster.work_left(job) for job in jobs]))[1]


class GavelThroughput(GavelMaxMin):
    """All jobs together do as much work as they can."""

    name = "gavel-throughput"
    summary = "in rounds: shares of types of GPU by throughput, as much work as possible in all (Gavel)"

    def shares(self, problem: ShareProblem, jobs: Sequence[RoundJob], cluster: RoundState) -> FloatArray:  # noqa: ARG002
        """Return the share of time that each job is owed on each type, shape [jobs, types]."""
        return total_shares(problem)


class GavelAgnostic(GavelMaxMin):
    """The same rounds as if all types were equally fast: what Gavel is compared with."""

    name = "gavel-agnostic"
    summary = "in rounds: equal shares of time, on each type as there are GPUs of it (Gavel without throughputs)"

    def shares(self, problem: ShareProblem, jobs: Sequence[RoundJob], cluster: RoundState) -> FloatArray:  # noqa: ARG002
        """Return the share of time that each job is owed on each type, shape [jobs, types]."""
        runs = tuple(tuple(float(speed > 0.0) for speed in row) for row in problem.speeds)
        alike = max_min_shares(replace(problem, speeds=runs))[1].sum(axis=1)
        counts = np.array(problem.counts) * np.array(runs)
        return np.asarray(alike[:, None] * counts / counts.sum(axis=1, keepdims=True), dtype=np.float64)
