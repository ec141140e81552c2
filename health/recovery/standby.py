"""How many machines to keep warm: enough for the failures of all but one day in a hundred.

Failures of a day ~ Binomial(machines, rate); the pool is a quantile of it (ByteRobust, arXiv 2509.16293: P99 gives
2, 2, 3 and 4 machines for jobs of 128, 256, 512 and 1,024).  Decimals of 50 digits keep the quantile exact where a
float would not: on a rate typed as ``0.0012``, and where (1 - rate)^machines is smaller than any float.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from typing import Annotated

from annotated_types import Interval

from topology.errors import InvalidInput
from topology.field_types import AtLeastOne, Count, NotNegative, Share
from topology.json_record import JsonRecord

PUBLISHED: Mapping[int, int] = {128: 2, 256: 2, 512: 3, 1024: 4}  # Machines of a job -> P99 pool (arXiv 2509.16293)
RATE = 1.2e-3  # Failures of a machine in a day, in the middle of what PUBLISHED allows
QUANTILE = 0.99

MAX_MACHINES = 1_000_000

_EXTREME = 1e-12  # No quantile is nearer to 0 or 1
_EXACT = Context(prec=50, Emin=-(10**15), Emax=10**15)
_NOTHING = Decimal("1e-48")
_SLACK = Decimal("1e-40")  # Less than this is rounding: a quantile that is met to the digit is met
_PRECISION = 50  # Halvings when a rate is looked for: far beyond the digits of a float


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyQuestion:
    """The jobs that are to have standby machines, and how sure they want to be of them."""

    machines: tuple[Annotated[int, Interval(ge=1, le=MAX_MACHINES)], ...] = field(metadata={"metavar": "N"})
    """Machines of the job; may be repeated."""
    rate: Share = field(default=RATE, metadata={"metavar": "P"})
    """Failures of a machine in a day."""
    quantile: Annotated[float, Interval(gt=0, lt=1)] = field(default=QUANTILE, metadata={"metavar": "SHARE"})
    """Share of days whose failures the pool covers."""
    switch: Annotated[int, Interval(ge=1, le=4096)] | None = field(default=None, metadata={"metavar": "N"})
    """Add the machines of a dead switch; ByteRobust counts 32."""


@dataclass(frozen=True, slots=True)
class RateRange(JsonRecord):
    """Rates above ``low`` and up to ``high``; none where low >= high."""

    low: float
    """Failures per machine and day."""
    high: float
    """Failures per machine and day."""


@dataclass(frozen=True, slots=True)
class StandbyPool(JsonRecord):
    """The pool of one job."""

    machines: AtLeastOne
    """Machines of the job."""
    pool: Count
    """The fewest machines that cover a day's failures with the probability asked for."""
    coverage: Share
    """The probability with which they do."""
    expected: NotNegative
    """Mean failures a day."""
    rates: RateRange
    """The rates for which the pool is exactly this."""
    with_switch: int | None
    """The pool with the machines of a dead switch besides; null = not asked for."""
    published: int | None
    """The pool that ByteRobust publishes for a job of this size, P99; null = none."""


def plan_pool(question: StandbyQuestion, machines: int) -> StandbyPool:
    """Return the pool of one job, with what it covers."""
    pool = standby_pool(machines, rate=question.rate, quantile=question.quantile)
    return StandbyPool(
        machines=machines,
        pool=pool,
        coverage=coverage(machines, pool, rate=question.rate),
        expected=machines * question.rate,
        rates=rates_of_pools({machines: pool}, quantile=question.quantile),
        with_switch=None if question.switch is None else pool + question.switch,
        published=PUBLISHED.get(machines),
    )


def standby_pool(machines: int, *, rate: float = RATE, quantile: float = QUANTILE) -> int:
    """Return the fewest machines that cover a day's failures with a probability of at least ``quantile``; each machine
    fails on a day with the probability ``rate``.
    """
    _check(machines, rate, quantile)
    with localcontext(_EXACT):
        return _quantile(machines, Decimal(str(rate)), Decimal(str(quantile)))


def coverage(machines: int, pool: int, *, rate: float = RATE) -> float:
    """Return probability that no more machines than the pool has fail on a day."""
    _check(machines, rate, QUANTILE)
    with localcontext(_EXACT):
        return float(_at_most(pool, machines, Decimal(str(rate))))


def rates_of_pools(pools: Mapping[int, int], *, quantile: float = QUANTILE) -> RateRange:
    """Return the rates for which every job (number of machines -> of its pool) needs exactly the pool given."""
    for machines in pools:
        _check(machines, RATE, quantile)
    with localcontext(_EXACT):
        q = Decimal(str(quantile))
        low = max(_highest_rate(machines, pool - 1, q) for machines, pool in pools.items())
        high = min(_highest_rate(machines, pool, q) for machines, pool in pools.items())
    return RateRange(float(low), float(high))


def _quantile(machines: int, rate: Decimal, q: Decimal) -> int:
    first, terms = _terms(machines, rate)
    below, enough = Decimal(0), q * sum(terms) * (1 - _SLACK)
    for failures, term in enumerate(terms, first):
        below += term
        if below >= enough:
            return failures
    return first + len(terms) - 1


def _at_most(pool: int, machines: int, rate: Decimal) -> Decimal:
    """Return probability of at most ``pool`` failures."""
    first, terms = _terms(machines, rate)
    return sum(terms[: max(0, pool + 1 - first)], start=Decimal(0)) / sum(terms)


def _terms(machines: int, rate: Decimal) -> tuple[int, list[Decimal]]:
    """Return probabilities of so many failures relative to the likeliest number, as far as 50 digits can tell them from
    nothing (some dozen deviations, whatever the number of machines), and the number of the first.
    """
    if rate in (0, 1):
        return machines * int(rate), [Decimal(1)]
    odds = rate / (1 - rate)
    likeliest = min(machines, int((machines + 1) * rate))
    fewer = [Decimal(1)]
    while fewer[-1] > _NOTHING and (k := likeliest - len(fewer)) >= 0:
        fewer.append(fewer[-1] * (k + 1) / (machines - k) / odds)
    more = [Decimal(1)]
    while more[-1] > _NOTHING and (k := likeliest + len(more)) <= machines:
        more.append(more[-1] * (machines - k + 1) / k * odds)
    return likeliest - len(fewer) + 1, [*reversed(fewer), *more[1:]]


def _highest_rate(machines: int, pool: int, q: Decimal) -> Decimal:
    """Return the highest rate for which a pool suffices: the probability that it does falls as the rate rises."""
    if pool < 0:
        return Decimal(0)
    if pool >= machines:
        return Decimal(1)
    low, high = Decimal(0), Decimal(1)
    for _ in range(_PRECISION):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(pool, machines, middle) >= q else (low, middle)
    return low


def _check(machines: int, rate: float, quantile: float) -> None:
    if not 1 <= machines <= MAX_MACHINES:
        wrong = f"{machines:,} machines"
        raise InvalidInput(wrong, where="--machines", fix=f"give a number from 1 to {MAX_MACHINES:,}")
    if not 0.0 <= rate <= 1.0:
        raise InvalidInput(f"the rate is {rate}", where="--rate", fix="a rate is a probability, such as 0.0012")
    if not _EXTREME <= quantile <= 1.0 - _EXTREME:
        wrong = f"the quantile is {quantile}"
        raise InvalidInput(wrong, where="--quantile", fix="give a share of days between 0 and 1, such as 0.99")
