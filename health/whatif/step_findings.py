"""What profiles of a job show beside the op trace: which rank is last at collectives, and where a rank's step goes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb

from ground.quantities import percent, plural, seconds
from ground.records import JsonRecord
from health.whatif.analysis_result import Analysis
from health.whatif.blame import verdict

NOTICED = 0.03  # Share of a step below which waiting for one rank is noise, as a slowdown of 1.03 is
MOST = 0.5  # Share of all waiting from which on one rank is its cause
LEAST = 0.0005  # Shares below this are printed as nothing
CHANCE = 0.05  # Probability below which so many last places are no accident


@dataclass(frozen=True, slots=True)
class Latecomer(JsonRecord):
    """A rank that others wait for in collectives."""

    rank: int
    """Its global rank."""
    last: int
    """Collectives to which it came last."""
    seconds: float
    """Seconds for which the others waited for it in a step, at their median, while they computed nothing."""
    share: float
    """Share of the step for which the others waited for it."""


@dataclass(frozen=True, slots=True)
class Arrivals(JsonRecord):
    """Ranks that come last to collectives that all ranks of a group wait in."""

    collectives: int
    """Collectives that were compared, over all steps."""
    ranks: int
    """Ranks that were compared."""
    workers: int
    """Workers of the job: where fewer ranks were compared, another may come later still."""
    steps: int
    """Steps."""
    step_seconds: float
    """Mean length of a step."""
    latecomers: tuple[Latecomer, ...]
    """Ranks that came last at least once, the costliest first."""

    @property
    def culprit(self) -> Latecomer | None:
        """Return the rank that causes most of the waiting, where that is worth a word."""
        worst = self.latecomers[0] if self.latecomers and self.ranks >= self.workers else None
        total = sum(one.seconds for one in self.latecomers)
        return worst if worst and worst.share >= NOTICED and worst.seconds >= MOST * total else None

    @property
    def chance(self) -> float:
        """Return the probability that any rank comes last as often as the culprit, were the order random."""
        worst = self.culprit
        if worst is None:
            return 1.0
        one = 1.0 / self.ranks
        tail = sum(
            comb(self.collectives, k) * one**k * (1 - one) ** (self.collectives - k)
            for k in range(worst.last, self.collectives + 1)
        )
        return min(1.0, tail * self.ranks)


@dataclass(frozen=True, slots=True)
class StepBreakdown(JsonRecord):
    """Where the mean step of one rank goes, in seconds."""

    rank: int
    """Its global rank."""
    steps: int
    """Steps that were looked at."""
    step: float
    """Length of a step."""
    forward: float
    """Forward passes, without waits for other ranks."""
    backward: float
    """Backward passes, without waits for other ranks."""
    optimizer: float
    """Update of the parameters."""
    waiting: float | None
    """Collectives and transfers while nothing was computed; null = no device was recorded."""
    idle: float | None
    """Nothing ran on the device; null = no device was recorded."""


def sentence_on_arrivals(arrivals: Arrivals) -> str:
    """Return which rank comes last, how often and what it costs."""
    worst = arrivals.culprit
    compared = f"{plural(arrivals.collectives, 'collective')} of {plural(arrivals.steps, 'step')}"
    if arrivals.ranks < arrivals.workers:
        return f"which rank comes last is not known: {arrivals.ranks} of {arrivals.workers} workers have a profile"
    if worst is None:
        return f"no rank of {arrivals.ranks} keeps the others waiting: {compared} were compared"
    doubt = "" if arrivals.chance < CHANCE else "; so few collectives could show that by accident too"
    return (
        f"rank {worst.rank} comes last to {worst.last} of {compared}, and the others wait {seconds(worst.seconds)} "
        f"of a step of {seconds(arrivals.step_seconds)} for it ({percent(worst.share)}){doubt}"
    )


def with_arrivals(analysis: Analysis, arrivals: Arrivals) -> Analysis:
    """Return the analysis with the rank that others wait for as the cause, unless it found that rank by itself."""
    worst = arrivals.culprit
    if worst is None:
        return analysis
    blamed = analysis.slowest.workers if analysis.cause == "worker" and analysis.slowest else ()
    if {worker.dp for worker in blamed} == {worst.rank // analysis.tp}:
        return analysis
    return replace(analysis, cause="late-rank", why=f"{analysis.why}; {sentence_on_arrivals(arrivals)}")


def verdict_with(analysis: Analysis, arrivals: Arrivals | None, breakdown: tuple[StepBreakdown, ...]) -> str:
    """Return the finding in one sentence, with what profiles show beside the op trace."""
    if analysis.dp * analysis.pp == 1:
        return sentence_on_one_rank(analysis, breakdown)
    if arrivals is not None and analysis.cause == "late-rank":
        return sentence_on_arrivals(arrivals)
    return verdict(analysis)


def sentence_on_one_rank(analysis: Analysis, breakdown: tuple[StepBreakdown, ...]) -> str:
    """Return that one rank alone is there, and where its step goes."""
    alone = "one rank alone cannot be compared with others"
    found = next((one for one in breakdown if one.rank in analysis.dp_ranks), None) or (breakdown or (None,))[0]
    if found is None or found.step <= 0:
        return f"{alone}; a step takes {seconds(analysis.step_seconds)}"
    parts = {"forward": found.forward, "backward": found.backward, "optimizer": found.optimizer}
    shares = ", ".join(f"{name} {percent(part / found.step)}" for name, part in parts.items() if part)
    where = " on the host" if found.idle is None else ""
    device = ""
    if found.waiting is not None and found.idle is not None:
        waits = (
            f"waits in collectives for {percent(found.waiting / found.step)} of it and "
            if found.waiting > LEAST * found.step
            else ""
        )
        device = f"; its device {waits}has nothing to do for {percent(found.idle / found.step)}"
    return f"{alone}; a step of rank {found.rank} takes {seconds(found.step)}{where}: {shares or 'no pass'}{device}"
