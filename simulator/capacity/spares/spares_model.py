"""What each number of spares is worth at each point of the uncertain inputs: waits, ETTR, cost of useful time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, inf
from typing import Any

from ground.quantities import DAY, HOUR
from simulator.capacity.answer_range import InputPoints
from simulator.capacity.spares.stated_domains import StatedDomain
from simulator.failures.expected_ettr import Losses, best_interval, exact_ettr
from simulator.failures.monte_carlo import DomainFailures, EttrEstimate, RepairTimes, exponential, simulate_ettr
from simulator.failures.outages import Floats, Outages, erlang_b, waiting_shares

NEGLIGIBLE = 1e-6  # Share of time that a job waits from which on a further spare is worth nothing
NEARLY_ALL = 0.97  # Share of the points for which the largest number of spares is that many
SLACK = 0.01  # Costs nearer to each other than this share are about as good
MOST_NUMBERS = 512  # Numbers of spares that are looked at, at most; beside domains, whose shares take long, a tenth


@dataclass(frozen=True, eq=False)
class SparesModel:
    """A job and its failures, at every point of the inputs ``failures``, ``repair``, ``restart`` and of its domains."""

    nodes: int
    write: float  # seconds of writing a checkpoint
    interval: float | None  # productive seconds between checkpoints; None = the best
    domains: tuple[StatedDomain, ...]
    where: InputPoints

    def column(self, name: str) -> Floats:
        """Return shape [points], the values of an input."""
        import numpy as np

        return np.array([point[name] for point in self.where.points])

    @cached_property
    def single(self) -> Outages:
        """Failures of one node."""
        return Outages(1, self.column("failures") * (self.nodes / 1_000.0 / DAY), self.column("repair") * HOUR)

    @cached_property
    def kinds(self) -> tuple[Outages, ...]:
        """Failures of domains, in their order; a job has as many of each kind as its nodes fill, whole or in part."""
        return tuple(
            Outages(
                min(one.nodes, self.nodes),
                self.column(one.rate.name) * (max(1.0, self.nodes / one.nodes) / 1_000.0 / DAY),
                self.column(one.hours.name) * HOUR,
            )
            for one in self.domains
        )

    @cached_property
    def losses(self) -> list[Losses]:
        """Restarts and checkpoints at each point; a domain that fails costs a restart as a node does."""
        rates: Floats = self.single.failures + sum(kind.failures for kind in self.kinds)
        pairs = zip(rates.tolist(), self.column("restart").tolist(), strict=True)
        return [
            Losses(rate, restart, self.write, self.interval or best_interval(rate, self.write))
            for rate, restart in pairs
        ]

    @cached_property
    def numbers(self) -> list[int]:
        """Numbers of spares that are looked at, in rising order; with domains also what holds one of each kind."""
        import numpy as np

        loads = self.single.away
        load = np.sort(loads)[[ceil(NEARLY_ALL * len(loads)) - 1]]
        most = next(i for i, share in enumerate(erlang_b(2**31, load)) if share[0] <= NEGLIGIBLE)
        # beyond, each spare only costs: as far as the cost is about as good
        most += ceil(SLACK * (self.nodes + most)) + 1
        step = ceil((most + 1) / (MOST_NUMBERS // 10 if self.kinds else MOST_NUMBERS))
        numbers = [*range(0, most + step, step)]
        coarse = numbers[:: max(1, len(numbers) // 6)]
        return sorted({*numbers, *(kind.nodes + number for kind in self.kinds for number in coarse)})

    @cached_property
    def waits(self) -> Floats:
        """Shape [points, numbers]: share of time in which the job waits for nodes."""
        return waiting_shares(self.numbers, self.single, self.kinds)

    @cached_property
    def ceiling(self) -> Floats:
        """Shape [points]: ETTR with a spare always at hand."""
        import numpy as np

        return np.array([exact_ettr(one) for one in self.losses])

    @cached_property
    def ettr(self) -> Floats:
        """Shape [points, numbers]."""
        found: Floats = self.ceiling[:, None] * (1.0 - self.waits)
        return found

    def _cost(self, ettr: Floats) -> Floats:
        """Return node-hours paid for a useful one, C(S) = (N + S) / (N ETTR(S)), of shape [.., numbers]."""
        import numpy as np

        with np.errstate(divide="ignore", over="ignore"):
            found: Floats = (self.nodes + np.array(self.numbers)) / self.nodes / ettr
        return found

    @cached_property
    def costs(self) -> Floats:
        """Shape [points, numbers]: node-hours paid for a useful one."""
        return self._cost(self.ettr)

    @cached_property
    def pooled_costs(self) -> Floats:
        """Shape [numbers]: node-hours paid in all draws together over the useful ones, (N + S) / (N E[ETTR]), which is
        what counts where the number is bought before the inputs are known.
        """
        return self._cost(self.ettr[: self.where.draws].mean(axis=0))

    @cached_property
    def best(self) -> int:
        """The number of spares with the least pooled cost."""
        return self.numbers[int(self.pooled_costs.argmin())]

    @property
    def about_as_good(self) -> tuple[int, int]:
        """The least and the largest number whose pooled cost is within :data:`SLACK` of the best."""
        near = self.pooled_costs <= (1.0 + SLACK) * self.pooled_costs.min()
        good = [number for number, one in zip(self.numbers, near.tolist(), strict=True) if one]
        return good[0], good[-1]

    @cached_property
    def cheapest(self) -> list[float]:
        """The number of spares with the least cost at each point: the best one if the inputs were known."""
        return [float(self.numbers[i]) for i in self.costs.argmin(axis=1)]

    def fewest(self, target: float) -> list[float]:
        """Return the fewest spares with which ETTR reaches a target, at each point; infinite where no number does."""
        reached = self.ettr >= target
        return [float(self.numbers[row.argmax()]) if row.any() else inf for row in reached]

    def at(self, number: int, of: Floats) -> list[float]:
        """Return a number of spares' column of a table, by points."""
        found: list[float] = of[:, self.numbers.index(number)].tolist()
        return found

    def band(self, of: Floats) -> tuple[Any, Any]:
        """Return P10 and P90 of a table over the draws, by number of spares."""
        import numpy as np

        low, high = np.quantile(of[: self.where.draws], (0.1, 0.9), axis=0, method="inverted_cdf")
        return low, high

    def median(self, of: Floats) -> Floats:
        """Return what a table, or a column of points, has where every input is at its median."""
        found: Floats = of[self.where.draws]
        return found

    @cached_property
    def single_nodes_only(self) -> SparesModel:
        """The model of the same job whose nodes fail one by one only."""
        return replace(self, domains=())

    def waits_due_to(self, i: int, spares: int) -> float:
        """Return the share of time that the job waits because of domains of the i-th kind, inputs at their medians."""
        import numpy as np

        def median_of(kind: Outages) -> Outages:
            return Outages(kind.nodes, *(np.array([self.median(column)]) for column in (kind.failures, kind.repair)))

        single, kinds = median_of(self.single), [median_of(kind) for kind in self.kinds]
        others = kinds[:i] + kinds[i + 1 :]
        return float((waiting_shares([spares], single, kinds) - waiting_shares([spares], single, others))[0, 0])

    def simulated(self, spares: int, *, days: float, runs: int) -> EttrEstimate:
        """Return the estimate of the Monte Carlo for a number of spares, every input at its median."""
        losses = self.losses[self.where.draws]

        def repair(kind: Outages) -> RepairTimes:
            return exponential(float(self.median(kind.repair)))

        domains = [
            DomainFailures(float(self.median(kind.failures)) / losses.failures, kind.nodes, repair(kind))
            for kind in self.kinds
            if losses.failures
        ]
        return simulate_ettr(
            losses,
            span=days * DAY,
            runs=runs,
            seed=self.where.seed,
            spares=spares,
            repair=repair(self.single),
            domains=domains,
        )


def rows_of(numbers: Sequence[int], last: int, chosen: Sequence[int], *, rows: int) -> list[int]:
    """Return about so many numbers up to the last, evenly, and those that are chosen."""
    shown = [number for number in numbers if number <= last]
    return sorted({*shown[:: max(1, round(len(shown) / rows))], *chosen})
