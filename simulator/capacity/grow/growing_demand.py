"""Demand that grows from quarter to quarter: when it reaches a load, and what a user says of its growth."""

from __future__ import annotations

import re
from math import inf, log

from ground.errors import InvalidInput
from simulator.capacity.uncertain_input import UncertainInput, lognormal

MONTHS = 3.0  # Of a quarter
FARTHEST = 40.0  # Quarters: nobody plans for what comes later
NOT_SOON = "not in 10 years"

_RATE = r"(-?[0-9]{1,6}(?:\.[0-9]{1,9})?)"
_GROWTH = re.compile(rf"{_RATE}(?:\.\.{_RATE})?")


def growth_input(text: str, *, source: str = "given") -> UncertainInput:
    """Return the growth a quarter that a user's ``0.08`` or ``0.05..0.12`` stands for: 1 plus it is log-normal.

    :raises InvalidInput: it is neither, or demand would vanish or grow more than a hundredfold.
    """
    found = _GROWTH.fullmatch(text.strip())
    fix = "give the growth a quarter, or its P10..P90, from above -1 (all is gone) to 100, as 0.05..0.12"
    if found is None:
        raise InvalidInput(f"{text[:40]!r} is neither a rate of growth nor a range", where="--growth", fix=fix)
    low, high = float(found[1]), float(found[2] or found[1])
    if not -1.0 < low <= high <= 100.0:
        raise InvalidInput(f"growth of {text[:40]} is out of bounds", where="--growth", fix=fix)
    factor = lognormal(1.0 + low, 1.0 + high)
    return UncertainInput("growth", "growth of demand a quarter", lambda u: factor(u) - 1.0, source)


def quarters_until(load: float, *, today: float, growth: float) -> float:
    """Return quarters until demand reaches a load: 0 where it is there already, infinity beyond :data:`FARTHEST`.

    Demand after t quarters is ``today * (1 + growth) ** t``.

    :param load: above 0, as ``today`` is.
    :param growth: a quarter, above -1.
    """
    if today >= load:
        return 0.0
    if growth <= 0.0:
        return inf
    quarters = log(load / today) / log(1.0 + growth)
    return quarters if quarters <= FARTHEST else inf
