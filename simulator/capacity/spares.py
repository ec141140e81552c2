"""How many spares does a job need for a target ETTR?

Formula and Monte Carlo side by side for every number of spares, the fewest that reach the target, and what the standby
pool of ByteRobust would be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from health.recovery.standby import standby_pool
from simulator.failures.ettr import Losses, best_interval, exact_ettr, first_order_ettr
from simulator.failures.monte_carlo import Estimate, exponential, simulate_ettr
from simulator.failures.rates import DAY, HOUR, MEASURED_MTTF_GPUS, MEASURED_MTTF_HOURS, RATES, FailureRate, mttf
from simulator.failures.spares import ettr_with_spares, exact_ettr_with_spares, spares_for, waiting_share
from topology.errors import Infeasible, InvalidInput

ROWS = 12
"""Numbers of spares that are told, about."""


@dataclass(frozen=True, slots=True)
class SparesQuestion:
    """A job and what goes wrong with it.

    :param nodes: N, nodes of the job.
    :param target: ETTR to reach, between 0 and 1.
    :param restart: u0, seconds from a failure until the job trains again, with a spare at hand.
    :param write: w, seconds that a checkpoint keeps the job from training.
    :param interval: d, productive seconds between checkpoints; ``None`` = the best, sqrt(2 w / (N r)).
    :param repair_hours: mean hours until a failed node is back.
    :param days: that each run of the Monte Carlo observes.
    :param runs: of the Monte Carlo.
    """

    nodes: int
    target: float = 0.95
    rate: FailureRate = RATES["rsc-1"]
    restart: float = 300.0
    write: float = 10.0
    interval: float | None = None
    repair_hours: float = 24.0
    days: float = 180.0
    runs: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.target < 1.0:
            raise InvalidInput(f"the target is {self.target}", where="--target", fix="give a share such as 0.95")
        if self.nodes < 1:
            raise InvalidInput(f"the job has {self.nodes} nodes", where="--nodes", fix="give at least one node")

    @property
    def losses(self) -> Losses:
        """Restarts and checkpoints of the job."""
        failures = self.rate.per_second(self.nodes)
        interval = best_interval(failures, self.write) if self.interval is None else self.interval
        return Losses(failures, self.restart, self.write, interval)

    @property
    def repair(self) -> float:
        """Mean seconds of a repair."""
        return self.repair_hours * HOUR


@dataclass(frozen=True, slots=True)
class SparesRow:
    """What a number of spares is worth.

    :param waiting: share of time in which the job waits for a repair, by formula.
    :param formula: first-order ETTR.
    :param exact: ETTR of Poisson failures.
    :param simulated: Monte Carlo.
    :param apart: |formula - simulated| / simulated.
    """

    spares: int
    waiting: float
    formula: float
    exact: float
    simulated: Estimate
    apart: float


@dataclass(frozen=True, slots=True)
class SparesAnswer:
    """The answer.

    :param needed: the fewest spares that reach the target; ``None`` = no number does.
    :param unlimited: first-order ETTR with a spare always at hand: what no number of spares exceeds.
    :param why_not: why no number does; empty where one does.
    :param mttf_hours: mean time to failure of the job by the rate.
    :param published_mttf_hours: by the rate at 1,024 GPUs, to be read beside the 7.9 h that were measured.
    :param away: nodes that are away on average: N r T.
    :param standby: P99 of a day's failures, by this rate: a pool that is filled up again every day.
    :param rows: by number of spares, ``needed`` among them.
    """

    question: SparesQuestion
    needed: int | None
    unlimited: float
    exact_unlimited: float
    why_not: str
    interval: float
    mttf_hours: float
    published_mttf_hours: float
    away: float
    standby: int
    rows: tuple[SparesRow, ...]


def spares(question: SparesQuestion, *, step: Callable[[str], None] = lambda _: None) -> SparesAnswer:
    """Answer the question.

    :param step: called with a sentence before each number of spares.
    :raises InvalidInput: out of range.
    """
    losses = question.losses
    try:
        needed, why_not = spares_for(question.target, losses, repair=question.repair), ""
    except Infeasible as error:
        needed, why_not = None, error.message
    return SparesAnswer(
        question=question,
        needed=needed,
        unlimited=first_order_ettr(losses),
        exact_unlimited=exact_ettr(losses),
        why_not=why_not,
        interval=losses.interval,
        mttf_hours=_finite(mttf(question.rate, question.nodes) / HOUR),
        published_mttf_hours=_finite(mttf(question.rate, MEASURED_MTTF_GPUS / 8) / HOUR),
        away=losses.failures * question.repair,
        standby=standby_pool(question.nodes, rate=question.rate.per_node_day),
        rows=tuple(_row(question, losses, count, step) for count in _counts(needed, losses, question.repair)),
    )


def _finite(hours: float) -> float:
    """A time that JSON and people can read: a job that never fails has a mean time of a million years."""
    return min(hours, 8.766e9) if hours != inf else 8.766e9


def _counts(needed: int | None, losses: Losses, repair: float) -> list[int]:
    """Numbers of spares worth telling: from none to where more buy nothing, and the one that suffices."""
    last = 0
    while waiting_share(last, losses.failures * repair) > 1e-4:
        last += max(1, last // 8)
    last = max(last, (needed or 0) + 1)
    stride = max(1, round(last / ROWS))
    return sorted({*range(0, last + 1, stride), *(() if needed is None else (needed,))})


def _row(question: SparesQuestion, losses: Losses, count: int, step: Callable[[str], None]) -> SparesRow:
    step(f"{count} spares")
    simulated = simulate_ettr(
        losses,
        span=question.days * DAY,
        runs=question.runs,
        seed=question.seed,
        spares=count,
        repair=exponential(question.repair),
    )
    formula = ettr_with_spares(losses, spares=count, repair=question.repair)
    return SparesRow(
        spares=count,
        waiting=waiting_share(count, losses.failures * question.repair),
        formula=formula,
        exact=exact_ettr_with_spares(losses, spares=count, repair=question.repair),
        simulated=simulated,
        apart=abs(formula - simulated.mean) / simulated.mean if simulated.mean > 0.0 else 0.0,
    )


def assumptions(answer: SparesAnswer) -> tuple[str, ...]:
    """What the answer takes for granted."""
    q = answer.question
    return (
        f"{q.rate.per_thousand_node_days:.3g} failures per 1,000 node-days, the same for every node and at random; "
        f"source: {q.rate.source}.",
        f"At {MEASURED_MTTF_GPUS:,} GPUs this rate gives a mean time to failure of "
        f"{answer.published_mttf_hours:.1f} h; jobs of that size on RSC-1 measured {MEASURED_MTTF_HOURS} h, which no "
        "rate that is the same for all nodes explains: where nodes fail again and again, plan with a higher rate.",
        f"A failure costs {q.restart:g} s (detection, requeue or hot update, reload) and the work since the last "
        f"checkpoint; one is written every {answer.interval:,.0f} s"
        + (" (the best interval, sqrt(2 w / (N r)))" if q.interval is None else "")
        + f" and takes {q.write:g} s.",
        f"A failed node is away for {q.repair_hours:g} h on average (exponential; the formula does not depend on it); "
        "all failures take a node away, and spares in waiting do not fail.",
        "A spare takes the failed node's place at once and slows nothing; without a spare the job waits for the first "
        "node that is repaired.",
        "Failures of several nodes at once (a switch, a power feed) are not in it: add the nodes of the largest such "
        "domain.",
        f"Monte Carlo: {q.runs} runs of {q.days:g} days each, seed {q.seed}; ± is the 95 % interval of the mean.",
    )
