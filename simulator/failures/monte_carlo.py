"""ETTR of one job by Monte Carlo: failures, restarts, checkpoints, repairs and spares, second by second.

What the formulas assume and this does not: that failures are rare, that none hits a restart, that a long run has
settled.  A failure takes a node, or all of a domain at once.  The job trains in cycles of ``interval`` productive
seconds and ``write`` seconds; a failure at any time throws away what was done since the last checkpoint, and the
restart begins again when it is hit itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, TypeAlias

from simulator.confidence import half_width
from simulator.failures.expected_ettr import Losses

if TYPE_CHECKING:
    import numpy as np

RepairTimes: TypeAlias = "Callable[[np.random.Generator], float]"  # Draws the seconds of one repair


@dataclass(frozen=True, slots=True)
class DomainFailures:
    """Failures that take several nodes away at once, which come back together."""

    share: float  # of all failures of the job
    nodes: int
    repair: RepairTimes


@dataclass(frozen=True, slots=True)
class EttrEstimate:
    """A mean over independent runs."""

    mean: float
    half_width: float  # of its 95 % confidence interval; 0 with a single run
    runs: int
    failures: float  # mean failures of a run
    waiting: float  # mean share of time in which the job waited for a repair


def simulate_ettr(
    losses: Losses,
    *,
    span: float,
    runs: int,
    seed: int,
    spares: int | None = None,
    repair: RepairTimes | None = None,
    domains: Sequence[DomainFailures] = (),
) -> EttrEstimate:
    """Return ETTR of a job over independent runs of so many seconds each.

    :param spares: ``None`` = a replacement is always at hand; else ``repair`` draws how long nodes are away.
    :param domains: which failures take more than a node; those that are left take one.
    """
    import numpy as np

    streams = np.random.SeedSequence(seed).spawn(runs)
    made = [
        _run(losses, span, np.random.default_rng(stream), spares=spares, repair=repair, domains=domains)
        for stream in streams
    ]
    productive, waiting, failures = np.array(made, dtype=np.float64).T
    ettr = productive / span
    return EttrEstimate(
        mean=float(np.mean(ettr)),
        half_width=half_width(ettr.tolist()),
        runs=runs,
        failures=float(np.mean(failures)),
        waiting=float(np.mean(waiting / span)),
    )


def exponential(mean: float) -> RepairTimes:
    """Return repairs that end at random, of a mean in seconds."""
    return lambda rng: float(rng.exponential(mean))


def _run(
    losses: Losses,
    span: float,
    rng: np.random.Generator,
    *,
    spares: int | None,
    repair: RepairTimes | None,
    domains: Sequence[DomainFailures],
) -> tuple[float, float, int]:
    """Return productive seconds that were not lost, seconds without enough nodes, and failures of one run.

    It goes from failure to failure; between two of them everything is counted, not stepped through.
    """
    now = productive = waiting = 0.0
    trains_from = 0.0
    failures = 0
    away: list[tuple[float, int]] = []  # when they are back, and how many
    missing = 0
    while True:
        up = float(rng.exponential(1.0 / losses.failures)) if losses.failures > 0.0 else span
        failed = min(now + up, span)
        trained = max(0.0, failed - trains_from)
        productive += losses.trained(trained) if failed == span else losses.saved(trained)
        if failed == span:
            return productive, waiting, failures
        now, failures = failed, failures + 1
        if spares is not None and repair is not None:
            nodes, times = _struck(domains, rng) if domains else (1, repair)
            heappush(away, (now + (times or repair)(rng), nodes))
            missing += nodes
            # which is back by now, and of which the job waits for
            while away and (away[0][0] <= now or missing > spares):
                back, nodes = heappop(away)
                missing -= nodes
                if back > now:
                    back = min(back, span)
                    waiting, now = waiting + back - now, back
        trains_from = now + losses.restart


def _struck(domains: Sequence[DomainFailures], rng: np.random.Generator) -> tuple[int, RepairTimes | None]:
    """Return how many nodes a failure takes, and their repair; ``None`` = that of a single node."""
    at = float(rng.random())
    for kind in domains:
        at -= kind.share
        if at < 0.0:
            return kind.nodes, kind.repair
    return 1, None
