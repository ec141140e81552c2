"""How long jobs wait by load: replays of one workload, whose jobs come closer and closer.

At every load the same jobs come in the same order, all times of submission divided by it (common random numbers), so
that curves of several seeds differ by the jobs alone.  Replays go down from :data:`HIGHEST` by :data:`STEP`, past the
load that breaks the objective and the least that is asked for, or to where nobody waits; then they halve the step in
which the objective breaks.  Nothing is read off outside: above the highest load a queue takes longer to settle than a
run lasts, and the wait has no answer; below the lowest the same jobs lie further apart, and wait no longer than there.

A run knows its percentile up to a sampling error.  Its jobs, in order, are cut into batches; how much the share of the
jobs that wait longer than the percentile differs from batch to batch gives the standard error of that share (batch
means), and the waits at the share plus or minus so many standard errors are the range of the percentile (Woodruff,
"Confidence intervals for medians and other position measures", JASA 1952).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import inf, sqrt

import numpy as np
import numpy.typing as npt

from ground.quantities import DAY
from scheduler.queue.policy import POLICIES
from simulator.capacity.cluster_question import background_jobs
from simulator.capacity.question import BATCHES, MOST_CHANCE
from simulator.engine import Engine
from simulator.pools import GpuPool
from simulator.replay_settings import QueueSettings
from topology.cluster import Cluster, FloatArray

HIGHEST = 0.97  # Load: the queue of a week is far from settled above it
STEP = 0.05  # Between the loads that are replayed; of 0.97 it leaves 0.02 as the lowest
HALVINGS = 4  # Of the step in which the objective breaks: the load is known to 0.003, and a line goes through the rest
WARM = 0.25  # Share of the jobs that fill the empty cluster, and are not counted
SHARE = 0.95  # Of the jobs: their longest wait is the percentile that is told


@dataclass(frozen=True, eq=False)
class ReplayedLoad:
    """The waits of one replay."""

    load: float  # GPU time that jobs ask for, as a share of what the cluster has
    waits: FloatArray  # Seconds that each job waited that is counted, in order of submission; at least one

    @cached_property
    def ascending(self) -> FloatArray:
        """The same from the shortest to the longest."""
        return np.sort(self.waits)

    @cached_property
    def error(self) -> float:
        """Standard error of the share of jobs beyond the percentile: batch means, at least that of independent jobs."""
        beyond = (self.waits > self.wait()).astype(np.float64)
        independent = sqrt(SHARE * (1.0 - SHARE) / len(beyond))
        if len(beyond) < 2 * BATCHES:
            return independent
        means = [float(batch.mean()) for batch in np.array_split(beyond, BATCHES)]
        return max(independent, float(np.std(means, ddof=1)) / sqrt(BATCHES))

    def wait(self, chance: float = 0.0) -> float:
        """Return seconds of the percentile if the run was off by so many standard errors."""
        share = SHARE if not chance else min(1.0, max(0.0, SHARE + chance * self.error))
        waits, place = self.ascending, share * (len(self.waits) - 1)
        below = int(place)
        above = min(below + 1, len(waits) - 1)
        return float(waits[below] + (place - below) * (waits[above] - waits[below]))


@dataclass(frozen=True, eq=False)
class WaitCurve:
    """The 95th percentile of the waits of one workload, by load."""

    replays: tuple[ReplayedLoad, ...]
    """At least one, by ascending load, the last at the highest load for which there is an answer."""
    jobs: int = 0  # Jobs of the workload

    def points(self, chance: float = 0.0) -> tuple[list[float], list[float]]:
        """Return the loads that were replayed and the seconds at each, if the run was off by so many standard errors.

        The later of two jobs may pass the earlier under some policies: what falls with the load is chance, and raised.
        """
        waits = list(accumulate((replay.wait(chance) for replay in self.replays), max))
        return [replay.load for replay in self.replays], waits

    def at(self, load: npt.ArrayLike, *, chance: float = 0.0) -> FloatArray:
        """Return seconds at loads of any shape: straight from replay to replay, infinite above the last, below the
        first as there.
        """
        wanted = np.asarray(load, dtype=np.float64)
        loads, waits = self.points(chance)
        return np.where(wanted > loads[-1], inf, np.interp(wanted, loads, waits))

    def breaks(self, objective: float, *, chance: float = 0.0) -> float:
        """Return the load from which the wait is above an objective, in seconds, above 0.

        It is the lowest of the loads replayed where the wait is above it there already, the highest where it nowhere
        is: see :meth:`kept`.
        """
        loads, waits = self.points(chance)
        over = next((i for i, wait in enumerate(waits) if wait > objective), None)
        if over is None:
            return loads[-1]
        if over == 0:
            return loads[0]
        share = (objective - waits[over - 1]) / (waits[over] - waits[over - 1])
        return loads[over - 1] + share * (loads[over] - loads[over - 1])

    def kept(self, objective: float) -> bool:
        """Return whether the objective is kept up to the highest load that was replayed."""
        return self.points()[1][-1] <= objective


def wait_curve(
    cluster: Cluster, settings: QueueSettings, *, days: float, seed: int, objective: float, least: float
) -> WaitCurve:
    """Replay the jobs of a seed on the empty cluster, whose GPUs are counted.

    :param days: for how long jobs are submitted at a load of 1.
    :param objective: seconds, above 0; the load that breaks it is looked for.
    :param least: the lowest load at which the wait has to be known.
    :raises ArnoldError: no policy is called that, or it shares and no job names its namespace.
    """
    made = background_jobs(cluster, load=1.0, seconds=days * DAY, seed=seed)

    def replayed(load: float) -> ReplayedLoad:
        """Return the waits with times of submission stretched, in order of submission."""
        policy = POLICIES.load(settings.policy)
        settings.check_policies([policy], made.records)
        jobs = [replace(record, submit=record.submit * (made.load / load)) for record in made.records]
        engine = Engine(jobs, GpuPool(cluster), policy, weights=settings.weight_of, share_by=settings.share_by)
        engine.run()
        counted = engine.jobs[int(WARM * len(jobs)) :]
        return ReplayedLoad(load, np.array([job.first_start - job.submitted for job in counted], dtype=np.float64))

    replays = [replayed(HIGHEST)]
    while (lowest := replays[-1]).load > STEP and lowest.wait(MOST_CHANCE) > (
        0.0 if lowest.load > least else objective
    ):
        replays.append(replayed(round(lowest.load - STEP, 9)))
    for _ in range(HALVINGS):
        over = max((i for i, replay in enumerate(replays) if replay.wait() > objective), default=len(replays))
        if over + 1 >= len(replays):
            break
        replays.insert(over + 1, replayed((replays[over].load + replays[over + 1].load) / 2))
    return WaitCurve(tuple(reversed(replays)), len(made.records))
