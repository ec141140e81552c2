"""How many spares does a job need for a target ETTR, by formula and by Monte Carlo?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import inf
from typing import Annotated, ClassVar

from annotated_types import Interval

from health.recovery.standby import standby_pool
from simulator.capacity.capacity_question import CapacityQuestion
from simulator.capacity.sheet import Chart, Series, Sheet, TextTable, text_table
from simulator.capacity.spares_answer import SparesAnswer, SparesRow
from simulator.failures.expected_ettr import (
    Losses,
    best_interval,
    ettr_with_spares,
    exact_ettr,
    first_order_ettr,
    spares_for,
    waiting_share,
)
from simulator.failures.monte_carlo import EttrEstimate, exponential, simulate_ettr
from simulator.failures.rates import DAY, HOUR, MEASURED_MTTF_GPUS, MEASURED_MTTF_HOURS, FailureRate, failure_rate, mttf
from simulator.failures.restart_delay import parse_restart
from topology.errors import Infeasible
from topology.field_types import Seed

ROWS = 12  # Rows of the answer, about
SECONDS = {"metavar": "SECONDS"}

NEVER = 8.766e9  # Hours, a million years: what JSON has as the mean time to failure of a job that never fails


@dataclass(frozen=True, kw_only=True)
class SparesQuestion(CapacityQuestion[SparesAnswer]):
    """Say how many spares a job needs, by formula and by Monte Carlo.

    Exits 3 if no number of spares reaches the target.
    """

    answer_type: ClassVar = SparesAnswer

    nodes: Annotated[int, Interval(ge=1, le=1_000_000)] = field(metadata={"metavar": "N"})
    """Nodes of the job."""
    target: Annotated[float, Interval(gt=0, lt=1)] = field(default=0.95, metadata={"metavar": "SHARE"})
    """ETTR to reach."""
    failures: str = field(default="rsc-1", metadata={"metavar": "RATE-or-NAME"})
    """Failures per 1,000 node-days, or rsc-1, rsc-2, llama3, byterobust."""
    restart: str = field(default="300", metadata={"metavar": "SECONDS|requeue|hot-update"})
    """From a failure to training again; by name, ByteRobust's costs and the time to see a failure."""
    gpus_per_node: Annotated[int, Interval(ge=1, le=4096)] = field(default=8, metadata={"metavar": "N"})
    """GPUs of a node: what a restart costs hangs on the GPUs of the job."""
    job_checkpoint_write: Annotated[float, Interval(gt=0, le=86_400)] = field(default=10.0, metadata=SECONDS)
    """Time for which writing its checkpoint keeps the job from training."""
    job_checkpoint_interval: Annotated[float | None, Interval(gt=0, le=1e9)] = field(
        default=None, metadata=SECONDS | {"default": "the best, sqrt(2 w / (N r))"}
    )
    """Productive time between checkpoints."""
    repair_hours: Annotated[float, Interval(gt=0, le=8_766)] = field(default=24.0, metadata={"metavar": "HOURS"})
    """Until a failed node is back, on average."""
    days: Annotated[float, Interval(ge=1, le=3_660)] = 180.0
    """Length of each run of the Monte Carlo."""
    runs: Annotated[int, Interval(ge=2, le=10_000)] = 20
    """Runs of the Monte Carlo."""
    seed: Seed = 0
    """Same seed, same answer."""

    @cached_property
    def rate(self) -> FailureRate:
        """How often a node fails."""
        return failure_rate(self.failures)

    @cached_property
    def losses(self) -> Losses:
        """Restarts and checkpoints of the job."""
        failures, write = self.rate.per_second(self.nodes), self.job_checkpoint_write
        restart = parse_restart(self.restart).mean_seconds(gpus=self.nodes * self.gpus_per_node)
        return Losses(failures, restart, write, self.job_checkpoint_interval or best_interval(failures, write))

    @property
    def repair(self) -> float:
        """Mean seconds of a repair."""
        return self.repair_hours * HOUR

    @cached_property
    def fewest(self) -> tuple[int | None, str]:
        """The fewest spares that reach the target; without a number, why none does."""
        try:
            return spares_for(self.target, self.losses, repair=self.repair), ""
        except Infeasible as error:
            return None, error.message

    @cached_property
    def counts(self) -> list[int]:
        """Numbers of spares in the answer: from none to where more buy nothing, and the one that suffices."""
        last, needed = 0, self.fewest[0]
        # waiting less than a second in three hours, a further spare is worth nothing
        while waiting_share(last, self.losses.failures * self.repair) > 1e-4:
            last += max(1, last // 8)
        last = max(last, (needed or 0) + 1)
        return sorted({*range(0, last + 1, max(1, round(last / ROWS))), *(() if needed is None else (needed,))})

    @property
    def steps(self) -> int:
        """One for each number of spares."""
        return len(self.counts)

    def compute(self, step: Callable[[str], None]) -> SparesAnswer:
        """Return the formulas and the Monte Carlo for every number of spares."""
        return SparesAnswer(
            nodes=self.nodes,
            target=self.target,
            rate=self.rate,
            restart_seconds=self.losses.restart,
            checkpoint_interval=self.losses.interval,
            checkpoint_write=self.job_checkpoint_write,
            repair_hours=self.repair_hours,
            mttf_hours=min(mttf(self.rate, self.nodes) / HOUR, NEVER),
            mttf_hours_at_1024_gpus=min(mttf(self.rate, MEASURED_MTTF_GPUS / 8) / HOUR, NEVER),
            measured_mttf_hours_at_1024_gpus=MEASURED_MTTF_HOURS,
            nodes_away=self.losses.failures * self.repair,
            standby=standby_pool(self.nodes, rate=self.rate.per_node_day),
            needed=self.fewest[0],
            ettr_with_unlimited_spares=first_order_ettr(self.losses),
            exact_ettr_with_unlimited_spares=exact_ettr(self.losses),
            rows=tuple(self._row(spares, step) for spares in self.counts),
        )

    def _row(self, spares: int, step: Callable[[str], None]) -> SparesRow:
        step(f"{spares} spares")
        simulated = monte_carlo(self, spares)
        formula = ettr_with_spares(self.losses, spares=spares, repair=self.repair)
        return SparesRow(
            spares=spares,
            waiting=waiting_share(spares, self.losses.failures * self.repair),
            formula=formula,
            exact=ettr_with_spares(self.losses, spares=spares, repair=self.repair, unlimited=exact_ettr),
            simulated=simulated.mean,
            half_width=simulated.half_width,
            apart=abs(formula - simulated.mean) / simulated.mean if simulated.mean > 0.0 else 0.0,
        )

    def title(self, found: SparesAnswer) -> str:
        """Return the question in words."""
        return f"How many spares does a job of {found.nodes:,} nodes need for an ETTR of {found.target:.1%}?"

    def verdict(self, found: SparesAnswer) -> str:
        """Return the number to keep, or why none is enough."""
        if found.needed is None:
            why_not = self.fewest[1]
            return f"{why_not[:1].upper()}{why_not[1:]}."
        row = next(row for row in found.rows if row.spares == found.needed)
        return (
            f"Keep {row.spares} spares for {found.nodes:,} nodes: ETTR {row.formula:.4f} by formula, "
            f"{row.simulated:.4f} ± {row.half_width:.4f} by Monte Carlo; no number of spares gives more than "
            f"{found.ettr_with_unlimited_spares:.4f}."
        )

    def assumptions(self, found: SparesAnswer) -> Sequence[str]:
        """Return what rate, restart, repair and Monte Carlo take for granted."""
        by_rate = found.mttf_hours_at_1024_gpus
        mean = f"a mean time to failure of {by_rate:.1f} h" if by_rate < NEVER else "no failure ever"
        best = " (the best interval, sqrt(2 w / (N r)))" if self.job_checkpoint_interval is None else ""
        return (
            f"{found.rate.per_thousand_node_days:.3g} failures per 1,000 node-days, the same for every node and at "
            f"random; source: {found.rate.source}.",
            f"At {MEASURED_MTTF_GPUS:,} GPUs this rate gives {mean}; jobs of that size on RSC-1 measured "
            f"{MEASURED_MTTF_HOURS} h, which no rate that is the same for all nodes explains: where nodes fail again "
            "and again, plan with a higher rate.",
            f"A failure costs {found.restart_seconds:g} s (detection, requeue or hot update, reload) and the work "
            f"since the last checkpoint; one is written {_every(found)}{best} and takes {found.checkpoint_write:g} s.",
            f"A failed node is away for {found.repair_hours:g} h on average (exponential; the formula does not depend "
            "on it); all failures take a node away, and spares in waiting do not fail.",
            "A spare takes the failed node's place at once and slows nothing; without a spare the job waits for the "
            "first node that is repaired.",
            "Failures of several nodes at once (a switch, a power feed) are not in it: add the nodes of the largest "
            "such domain.",
            f"Monte Carlo: {self.runs} runs of {self.days:g} days each, seed {self.seed}; ± is the 95 % interval of "
            "the mean.",
        )

    def changes(self, found: SparesAnswer) -> Sequence[str]:  # noqa: ARG002
        """Return what would change the answer."""
        return ()

    def sheet(self, answer: SparesAnswer) -> Sheet:
        """Return the job, ETTR by number of spares, and the curve of the formula with the dots of the Monte Carlo."""
        unlimited = f"{answer.ettr_with_unlimited_spares:.4f}, exact {answer.exact_ettr_with_unlimited_spares:.4f}"
        by_rate = f"{_hours(answer.mttf_hours_at_1024_gpus, digits=1)} by the rate"
        job = {
            "mean time to failure": _hours(answer.mttf_hours, digits=2),
            f"the same at {MEASURED_MTTF_GPUS:,} GPUs": f"{by_rate}, {MEASURED_MTTF_HOURS} h measured on RSC-1",
            "nodes away on average": f"{answer.nodes_away:.2f}",
            "checkpoint interval": _every(answer).removeprefix("every "),
            "ETTR with a spare always at hand": unlimited,
            "standby pool, P99 of a day's failures": f"{answer.standby} (filled up again within a day)",
        }
        columns: dict[str, Callable[[SparesRow], str]] = {
            "spares": lambda row: f"{row.spares}{' *' if row.spares == answer.needed else ''}",
            "waits for a repair": lambda row: f"{row.waiting:.2%}",
            "formula": lambda row: f"{row.formula:.4f}",
            "exact": lambda row: f"{row.exact:.4f}",
            "Monte Carlo": lambda row: f"{row.simulated:.4f} ± {row.half_width:.4f}",
            "apart": lambda row: f"{row.apart:.2%}",
            "failures a run": lambda row: f"{monte_carlo(self, row.spares).failures:,.0f}",
        }
        rows = answer.rows
        simulated = [(row.spares, row.simulated) for row in rows]
        series = (
            Series("formula", [(row.spares, row.formula) for row in rows]),
            Series("Monte Carlo", simulated, shape="dots", errors=[row.half_width for row in rows]),
            Series("target", [(row.spares, answer.target) for row in (rows[0], rows[-1])], shape="dashes"),
        )
        title = "ETTR by number of spares"
        mark = () if answer.needed is None else ((answer.needed, f"{answer.needed} spares"),)
        return Sheet(
            tables=(TextTable("The job", ("", "value"), list(job.items())), text_table(title, rows, columns)),
            charts=(Chart(title, "spares", "ETTR", series, ceiling=1.0, percent=True, lines=mark),),
        )


def _hours(hours: float, *, digits: int) -> str:
    return f"{hours:.{digits}f} h" if hours < NEVER else "never"


def _every(answer: SparesAnswer) -> str:
    return "never" if answer.checkpoint_interval == inf else f"every {answer.checkpoint_interval:,.0f} s"


@lru_cache(maxsize=1024)
def monte_carlo(question: SparesQuestion, spares: int) -> EttrEstimate:
    """Return the estimate of the Monte Carlo for a number of spares; the same question is simulated once."""
    span, repair = question.days * DAY, exponential(question.repair)
    return simulate_ettr(
        question.losses, span=span, runs=question.runs, seed=question.seed, spares=spares, repair=repair
    )
