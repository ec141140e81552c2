"""What ``arnold recover standby --json`` prints."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from arnold.documents.common import Document
from health.recovery.standby import PUBLISHED, RateRange, coverage, rates_of_pools, standby_pool


class RateRangeDoc(Document):
    """Rates above ``low`` and up to ``high``; none where low >= high."""

    low: float
    """Failures per machine and day."""
    high: float
    """Failures per machine and day."""


class PoolDoc(Document):
    """The pool of one job."""

    machines: int = Field(ge=1)
    """Machines of the job."""
    pool: int = Field(ge=0)
    """The fewest machines that cover a day's failures with the probability asked for."""
    coverage: float = Field(ge=0.0, le=1.0)
    """The probability with which they do."""
    expected: float = Field(ge=0.0)
    """Mean failures a day."""
    rates: RateRangeDoc
    """The rates for which the pool is exactly this."""
    with_switch: int | None
    """The pool with the machines of a dead switch besides; null = not asked for."""
    published: int | None
    """The pool that ByteRobust publishes for a job of this size, P99; null = none."""


class PublishedDoc(Document):
    """Published pools, and the rates that explain all of them."""

    pools: dict[int, int]
    """Machines of a job -> P99 pool (arXiv 2509.16293)."""
    rates: RateRangeDoc
    """The rates for which Binomial(machines, rate) gives all of them."""


class StandbyDocument(Document):
    """Warm standby pools."""

    verdict: str
    """The pools in a sentence."""
    rate: float = Field(ge=0.0, le=1.0)
    """Probability that a machine fails on a day."""
    quantile: float = Field(gt=0.0, lt=1.0)
    """Share of days whose failures the pool covers."""
    switch: int | None
    """Machines of a dead switch; null = not asked for."""
    pools: list[PoolDoc]
    """One entry for each size asked for."""
    published: PublishedDoc
    """The measure of the rate."""
    notes: list[str]
    """What is worth knowing, one sentence each."""


def pool_doc(machines: int, *, rate: float, quantile: float, switch: int | None) -> PoolDoc:
    """The pool of one job.

    :raises InvalidInput: out of range.
    """
    pool = standby_pool(machines, rate=rate, quantile=quantile)
    return PoolDoc(
        machines=machines,
        pool=pool,
        coverage=coverage(machines, pool, rate=rate),
        expected=machines * rate,
        rates=_range_doc(rates_of_pools({machines: pool}, quantile=quantile)),
        with_switch=None if switch is None else pool + switch,
        published=PUBLISHED.get(machines),
    )


def published_doc() -> PublishedDoc:
    """Published pools, and the rates that explain them."""
    return PublishedDoc(pools=dict(PUBLISHED), rates=_range_doc(rates_of_pools(PUBLISHED)))


def standby_document(
    pools: Sequence[PoolDoc],
    *,
    rate: float,
    quantile: float,
    switch: int | None,
    verdict: str,
    notes: Sequence[str],
) -> StandbyDocument:
    """The document of some pools."""
    return StandbyDocument(
        verdict=verdict,
        rate=rate,
        quantile=quantile,
        switch=switch,
        pools=list(pools),
        published=published_doc(),
        notes=list(notes),
    )


def _range_doc(rates: RateRange) -> RateRangeDoc:
    return RateRangeDoc(low=rates.low, high=rates.high)
