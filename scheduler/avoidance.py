"""Slow nodes: what it costs to avoid them, and what to use them.  Both are solved, whatever the job says.

Predicted step time: :func:`scheduler.step_time.step_time` of what the evaluator says of the placement, with
the slowest node that is really in use; 1 = no spread and no slow node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scheduler.job import Job
from scheduler.outcome import Outcome, run
from scheduler.placement.admission import admissible
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.step_time import slowest_in_use, step_time
from topology.cluster import Cluster
from topology.flags import HEALTHY

Way = Literal["avoid", "some", "use"]
"""``avoid``: no slow node.  ``use``: any, as if they were healthy, and of equal spreads the fewest.  ``some``: only
those up to a slowdown, where that is better than either."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way to treat slow nodes.

    :param outcome: what the solver makes of it.
    :param slowest: slowdown of the slowest node in use, 1.0 = none is slow; ``None`` = no placement.
    :param step_time: predicted, relative; ``None`` = no placement.
    :param used: indices of flagged nodes in use.
    :param left_out: indices of flagged nodes that could be used and are not.
    :param chosen: whether the job's placement is this one.
    """

    way: Way
    outcome: Outcome
    slowest: float | None
    step_time: float | None
    used: tuple[int, ...]
    left_out: tuple[int, ...]
    chosen: bool


def weigh(
    cluster: Cluster, job: Job, outcome: Outcome, *, solver: PlacementAlgorithm, limits: Limits
) -> tuple[Option, ...]:
    """Weigh the ways to treat slow nodes: to avoid them, to use them, and the job's own where it is neither.

    :param outcome: of the solver on this very instance.
    :param limits: for each way that has yet to be solved.
    :returns: nothing where no node that the job could use is slow.
    """
    slow = np.flatnonzero(admissible(cluster, job.replace(avoid="ignore")) & (cluster.slowdown > HEALTHY))
    if not slow.size:
        return ()

    def solved(avoid: Literal["strict", "ignore"]) -> Outcome:
        limits.say({"strict": "what if slow nodes are avoided?", "ignore": "what if they are used?"}[avoid])
        return run(solver, cluster, job.replace(avoid=avoid), limits)

    def option(way: Way, found: Outcome) -> Option:
        return _option(cluster, job, way, found, slow=set(slow.tolist()), chosen=found is outcome)

    own = _way_of(cluster, job, outcome)
    ways: dict[Way, Callable[[], Outcome]] = {"avoid": lambda: solved("strict"), "use": lambda: solved("ignore")}
    if own == "some":
        ways = {"avoid": ways["avoid"], "some": lambda: outcome, "use": ways["use"]}
    return tuple(option(way, outcome if way == own else solve()) for way, solve in ways.items())


def _way_of(cluster: Cluster, job: Job, outcome: Outcome) -> Way | None:
    """Return how the outcome treats slow nodes; ``None`` where it is a mere refusal, which tells of no way."""
    if job.avoid == "strict":
        return "avoid"
    if job.avoid == "ignore":
        return "use"
    if outcome.evaluation is None:
        return None
    if not outcome.evaluation.flagged:
        return "avoid"
    widest = max((price.slowest for price in outcome.proposal.prices), default=HEALTHY)
    return "use" if slowest_in_use(cluster, outcome.evaluation) >= widest else "some"


def _option(cluster: Cluster, job: Job, way: Way, outcome: Outcome, *, slow: set[int], chosen: bool) -> Option:
    evaluation = outcome.evaluation
    if evaluation is None:
        return Option(way, outcome, None, None, (), tuple(sorted(slow)), chosen)
    slowest = slowest_in_use(cluster, evaluation)
    return Option(
        way=way,
        outcome=outcome,
        slowest=slowest,
        step_time=step_time(job.replace(avoid="price"), objective=evaluation.objective, slowest=slowest),
        used=evaluation.flagged,
        left_out=tuple(sorted(slow - {*evaluation.flagged})),
        chosen=chosen,
    )
