"""Numbers in the form a person reads, the same on pages and on the terminal."""

from __future__ import annotations

from math import isfinite
from typing import Literal

Kind = Literal["share", "count", "seconds"]
"""What a number is."""

_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def duration(seconds: float | None) -> str:
    """A time with the unit that suits it: ``3.4 h``; ``-`` for none."""
    if seconds is None or not isfinite(seconds):
        return "-"
    for size, unit in _UNITS:
        if abs(seconds) >= size:
            return f"{_short(seconds / size)} {unit}"
    return f"{_short(seconds)} s"


def percent(share: float | None) -> str:
    """A share: ``49.3 %``; ``-`` for none."""
    return "-" if share is None or not isfinite(share) else f"{100 * share:.1f} %"


def plain(value: float | None) -> str:
    """A number with as many digits as it deserves; ``-`` for none."""
    return "-" if value is None or not isfinite(value) else _short(value)


def label_of(value: float, kind: Kind) -> str:
    """A value by its kind, as an axis or a cell says it."""
    if kind == "share":
        return percent(value).replace(".0 %", " %")
    return duration(value) if kind == "seconds" else plain(value)


def _short(value: float) -> str:
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"
