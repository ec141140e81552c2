"""Numbers of the page in the form a person reads."""

from __future__ import annotations


def times(factor: float) -> str:
    """A slowdown: ``1.97x``."""
    return f"{plain(factor)}x" if factor < 100 else f"{factor:,.0f}x"


def plain(value: float, *, digits: int = 2) -> str:
    """A number without the minus of a zero."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def seconds(value: float) -> str:
    """A time with the unit that suits it: ``46.3 s``, ``3.6 ms``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size or unit == "µs":
            scaled = value / size
            return f"{scaled:,.0f} {unit}" if scaled >= 100 else f"{scaled:.3g} {unit}"
    raise AssertionError


def percent(share: float) -> str:
    """A share: ``49.3 %``."""
    return f"{plain(100 * share, digits=1)} %"
