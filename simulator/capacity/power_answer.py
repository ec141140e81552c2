"""What the answer to the question of power is made of."""

from __future__ import annotations

from dataclasses import dataclass

from ground.records import AtLeastOne, JsonRecord
from simulator.capacity.question import CapacityAnswer
from simulator.power_file import PowerFigures


@dataclass(frozen=True, slots=True)
class PowerRow(JsonRecord):
    """The power of the site, or of one domain, under one remedy or event; inputs at their medians."""

    name: str
    """What it is of."""
    figures: PowerFigures
    """What is drawn."""
    within: bool
    """Whether the specification of the site is met."""
    more_kilowatts: float
    """Mean power in addition: what the remedy costs in energy, negative where less is drawn."""


@dataclass(frozen=True, slots=True)
class PowerSpread(JsonRecord):
    """The largest job, placed to lie in fewer or more power domains."""

    name: str
    """Way in which it was placed."""
    domains: AtLeastOne
    """Power domains that it lies in."""
    dp: AtLeastOne
    """DP spread, S."""
    pp: AtLeastOne
    """PP spread, R."""
    step_lost: float
    """Share by which its step is longer than with the least objective of these placements."""
    figures: PowerFigures
    """What the power domain with most of its nodes draws, the other jobs left out."""
    best: bool
    """On the front: no other placement has both a smaller swing and a smaller objective."""


@dataclass(frozen=True, kw_only=True)
class PowerAnswer(CapacityAnswer):
    """How power swings, and what smooths it."""

    cluster: str
    """What the cluster is called."""
    level: str | None
    """Level of the power domains; null = the cluster has none."""
    jobs: tuple[str, ...]
    """The jobs that run: PP groups x tp x pp."""
    remedies: tuple[PowerRow, ...]
    """The site: as it comes first, then all jobs in phase, then under each remedy."""
    domains: tuple[PowerRow, ...]
    """The domain with the largest swing of each level, from close to broad, the site last."""
    events: tuple[PowerRow, ...]
    """The site while the largest job starts, writes a checkpoint, stops."""
    spreads: tuple[PowerSpread, ...]
    """The trade between power domains and spread; empty without power domains."""
