"""Slow nodes: what it costs to avoid them, and what to use them.  Both are solved, whatever the job says.

Predicted step time: :func:`scheduler.objective.step_time` with the slowest node that is really in use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ground.quantities import decimal
from ground.records import JsonRecord
from scheduler.algorithm_run import run
from scheduler.job import Job
from scheduler.objective import Spread, slowest_in_use, step_time
from scheduler.outcome import Outcome
from scheduler.placement.admission import admissible
from scheduler.placement.types import Limits, PlacementAlgorithm, Status
from topology.cluster import Cluster
from topology.flags import HEALTHY

Way = Literal["avoid", "some", "use"]
"""``avoid``: no slow node.  ``use``: any, as if they were healthy, and of equal spreads the fewest.  ``some``: only
those up to a slowdown, where that is better than either."""


SAME = 5e-4  # Predicted step times closer than this are the same to people
WORDS = {"avoid": "avoid all slow nodes", "some": "use the less slow ones", "use": "use slow nodes freely"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AvoidanceOption(JsonRecord):
    """One way to treat slow nodes, solved."""

    way: Way
    """avoid: no slow node; use: any, as if they were healthy; some: only those up to a slowdown, where the job's own
    placement is neither."""
    chosen: bool
    """Whether the job's placement is this one."""
    status: Status
    """Status of the exact solver; infeasible when the job does not fit this way."""
    spread: Spread | None
    """Spread of the placement; null = there is none."""
    objective: float | None
    """Its objective."""
    bound: float | None
    """No placement of this way has a smaller one."""
    step_time: float | None
    """Predicted step time, 1 = no spread and no slow node."""
    slowest: float | None
    """Slowdown of the slowest node in use, 1 = none is slow."""
    used: tuple[str, ...]
    """Flagged nodes in use."""
    left_out: tuple[str, ...]
    """Flagged nodes that could be used and are not."""
    sentence: str
    """The option in words."""


def weigh(
    cluster: Cluster, job: Job, outcome: Outcome, *, solver: PlacementAlgorithm, limits: Limits
) -> tuple[AvoidanceOption, ...]:
    """Weigh the ways to treat slow nodes: to avoid them, to use them, and the job's own where it is neither.

    :returns: nothing where no node that the job could use is slow.
    """
    slow = np.flatnonzero(admissible(cluster, job.replace(avoid="ignore")) & (cluster.slowdown > HEALTHY))
    if not slow.size:
        return ()

    def solved(avoid: Literal["strict", "ignore"]) -> Outcome:
        limits.say({"strict": "what if slow nodes are avoided?", "ignore": "what if they are used?"}[avoid])
        return run(solver, cluster, job.replace(avoid=avoid), limits)

    def option(way: Way, found: Outcome) -> AvoidanceOption:
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


def _option(cluster: Cluster, job: Job, way: Way, outcome: Outcome, *, slow: set[int], chosen: bool) -> AvoidanceOption:
    evaluation = outcome.evaluation
    used = () if evaluation is None else evaluation.flagged
    slowest = time = None
    sentence = f"{WORDS[way]}: {outcome.verdict}"
    if evaluation is not None:
        slowest = slowest_in_use(cluster, evaluation)
        time = step_time(job.replace(avoid="price"), objective=evaluation.objective, slowest=slowest)
        in_use = f"{len(used)} in use, up to {slowest:.4g} times slower" if used else "none in use"
        proved = "" if outcome.status == "optimal" else f" (not proved best, gap {outcome.gap:.1%})"
        sentence = (
            f"{WORDS[way]}: predicted step time {time:.3f} x ideal, DP spread {evaluation.dp}, "
            f"PP spread {evaluation.pp}, objective {decimal(evaluation.objective)}{proved}; {in_use}"
            f"{', chosen' if chosen else ''}"
        )
    return AvoidanceOption(
        way=way,
        chosen=chosen,
        status=outcome.status,
        spread=outcome.spread,
        objective=outcome.objective,
        bound=outcome.bound,
        step_time=time,
        slowest=slowest,
        used=tuple(cluster.names[i] for i in used),
        left_out=tuple(cluster.names[i] for i in sorted(slow - {*used})),
        sentence=sentence,
    )


def comparison(options: Sequence[AvoidanceOption]) -> str:
    """Say what avoiding slow nodes costs or gains against using them; empty when either cannot be had."""
    times = {option.way: option.step_time for option in options}
    avoid, use = times.get("avoid"), times.get("use")
    if avoid is None or use is None:
        return ""
    if abs(avoid - use) < SAME:
        return "Either way the predicted step time is the same."
    if avoid < use:
        return f"Using them makes steps {use / avoid - 1:.1%} longer than avoiding them."
    return f"Avoiding them makes steps {avoid / use - 1:.1%} longer than using them."
