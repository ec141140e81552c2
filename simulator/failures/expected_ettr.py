"""ETTR of one job by formula: the share of wall-clock time that trains steps which are not lost again.

With N nodes that fail r times per node and second, a restart of u0 seconds, a checkpoint every d productive seconds
that takes w seconds to write, and a replacement always at hand:

- first order (arXiv 2410.21680, section IV): ``(1 - N r (u0 + d/2)) / (1 + w/d)``: a failure costs the restart and half
  an interval;
- exact for failures that come at random (a Poisson process, also while writing and restarting), after Daly, "A higher
  order estimate of the optimum checkpoint interval", 2006: ``L d exp(-L u0) / (exp(L (d + w)) - 1)`` with L = N r.

The first order is right while failures are rare beside restart and interval, and drops below 0 where they are not.
That of a simulated run is :mod:`simulator.results.run_ettr`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, inf, sqrt

from ground.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Losses:
    """What a job loses to failures and to its insurance against them.

    :raises InvalidInput: a time or rate below 0, an interval not above 0.
    """

    failures: float  # per second, of all nodes of the job: N r
    restart: float  # u0, seconds from a failure until the job trains again
    write: float  # w, seconds that writing a checkpoint keeps the job from training
    interval: float  # d, productive seconds between checkpoints; inf = none is ever written

    def __post_init__(self) -> None:
        for name in ("failures", "restart", "write"):
            if not 0.0 <= getattr(self, name) < inf:
                raise InvalidInput(f"{name} is {getattr(self, name)}", where=name, fix=f"{name} is 0 or more")
        if not self.interval > 0.0:
            raise InvalidInput(f"the interval is {self.interval}", where="interval", fix="an interval is above 0")

    def trained(self, wall: float) -> float:
        """Return productive seconds in so many of training and writing: what counts where nothing is lost."""
        if self.interval == inf:
            return wall
        whole, rest = divmod(wall, self.interval + self.write)
        return whole * self.interval + min(rest, self.interval)

    def saved(self, wall: float) -> float:
        """Return productive seconds that the last finished checkpoint holds: what a failure leaves."""
        return 0.0 if self.interval == inf else wall // (self.interval + self.write) * self.interval


def best_interval(failures: float, write: float) -> float:
    """Return d* = sqrt(2 w / (N r)), seconds: Young's interval, the best of the first-order formula.

    :raises InvalidInput: ``write`` is not above 0: then shorter is always better.
    """
    if not write > 0.0:
        raise InvalidInput(f"a checkpoint takes {write} seconds", where="write", fix="give more than 0 seconds")
    return sqrt(2.0 * write / failures) if failures > 0.0 else inf


def first_order_ettr(losses: Losses) -> float:
    """Return ``(1 - N r (u0 + d/2)) / (1 + w/d)``, not below 0."""
    if losses.failures == 0.0:
        return 1.0 / (1.0 + losses.write / losses.interval)
    lost = losses.failures * (losses.restart + losses.interval / 2.0)
    return max(0.0, 1.0 - lost) / (1.0 + losses.write / losses.interval)


def exact_ettr(losses: Losses) -> float:
    """Return ``L d exp(-L u0) / (exp(L (d + w)) - 1)``: exact where failures are a Poisson process."""
    rate, interval = losses.failures, losses.interval
    if rate == 0.0:
        return 1.0 / (1.0 + losses.write / interval)
    if rate * (interval + losses.write) > 700.0:
        return 0.0
    return rate * interval * exp(-rate * losses.restart) / expm1(rate * (interval + losses.write))
