"""Quantities in the form a person reads, the same on pages, on the terminal and in sentences.

What is measured keeps three digits, thousands are set apart by commas, a zero has no sign, what is not known is a dash.
"""

from datetime import UTC, datetime
from math import isfinite
from typing import Literal

Kind = Literal["share", "count", "seconds"]  # What a number is: a part of one, a plain number, a time
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0  # Seconds
_NUMBERED = {"level": "switch of level", "tier": "domain of tier", "block": "block of"}  # By names of levels of readers
_UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_UP_TO_SECONDS = _UNITS[3:]

_WRITTEN_OUT = 1e10  # Numbers below have all digits of their whole part; others a power of ten


def utc_minute(time: datetime) -> str:
    """Return a time with its zone for people: ``2026-11-17 14:20 UTC``."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def number(value: float | None) -> str:
    """Return a number with the digits it deserves: ``0.123``, ``42``, ``1,234``, ``6.1e+10``."""
    if value is None or not isfinite(value):
        return "-"
    if abs(value) < _WRITTEN_OUT and (abs(value) >= 100 or value == int(value)):
        return f"{value + 0.0:,.0f}"
    return f"{value:.3g}"


def fixed(value: float | None, *, digits: int = 2) -> str:
    """Return a number with as many digits as its neighbours in a column: ``1.60``."""
    if value is None or not isfinite(value):
        return "-"
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def decimal(value: float) -> str:
    """Return an objective or a weight, three digits behind the point at most and one at least: ``3.0``, ``1.667``."""
    text = f"{value:.3f}".rstrip("0")
    return text + "0" if text.endswith(".") else text


def percent(share: float | None) -> str:
    """Return a share of one: ``49.3%``."""
    return "-" if share is None or not isfinite(share) else f"{fixed(100 * share, digits=1)}%"


def times(factor: float) -> str:
    """Return how many times as much: ``1.97x``, ``1,234x``."""
    return f"{fixed(factor, digits=2 if factor < 100 else 0)}x"


def duration(seconds: float | None) -> str:
    """Return a time with the unit that suits it: ``3.4 h``, ``25.7 min``, ``3.6 ms``."""
    return _with_unit(seconds, _UNITS)


def seconds(value: float | None) -> str:
    """Return a time that is set or compared in seconds, in these or a smaller unit: ``216 s``, ``3.6 ms``."""
    return _with_unit(value, _UP_TO_SECONDS)


def label_of(value: float, kind: Kind) -> str:
    """Return a value by its kind, as an axis or a cell of a table has it."""
    if kind == "share":
        return percent(value).replace(".0%", "%")
    return duration(value) if kind == "seconds" else number(value)


def plural(count: int, noun: str) -> str:
    """Return a count and what is counted: ``1 minipod``, ``22 minipods``, ``2 switches of level 1``."""
    return f"{count:,} {one_of(noun) if count == 1 else several(noun)}"


def several(noun: str) -> str:
    """Return the plural of a noun, as levels are named: ``minipods``, ``switches``, ``leaves``."""
    head, of, number_of = one_of(noun).partition(" of ")
    if head == "leaf":
        return "leaves"
    return f"{head}{'es' if head.endswith(('s', 'x', 'ch', 'sh')) else 's'}{of}{number_of}"


def one_of(noun: str) -> str:
    """Return what one domain of a level is called, also where readers number levels that have no names: ``minipod``,
    ``switch of level 1``, and of a level that is a label of nodes: ``domain of example.com/rack``.
    """
    if "/" in noun:
        return f"domain of {noun}"
    head, dash, number_of = noun.partition("-")
    return f"{_NUMBERED[head]} {number_of}" if dash and head in _NUMBERED and number_of.isdecimal() else noun


def capitalised(words: str) -> str:
    """Return words as a sentence begins: the first letter is a capital, and acronyms stay."""
    return words[:1].upper() + words[1:]


def _with_unit(value: float | None, units: tuple[tuple[float, str], ...]) -> str:
    if not value:
        return "-" if value is None else "0 s"
    size, unit = next((pair for pair in units if abs(value) >= pair[0]), units[-1])
    return f"{number(value / size)} {unit}" if isfinite(value) else "-"
