"""Numbers of the page in the form a person reads."""

from __future__ import annotations


def times(factor: float) -> str:
    """A slowdown: ``1.97x``."""
    return f"{factor:.2f}x" if factor < 100 else f"{factor:.3g}x"


def seconds(value: float) -> str:
    """A time with the unit that suits it: ``46.3 s``, ``3.6 ms``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size or unit == "µs":
            scaled = value / size
            return f"{scaled:,.0f} {unit}" if scaled >= 100 else f"{scaled:.3g} {unit}"
    raise AssertionError


def percent(share: float) -> str:
    """A share: ``49.3 %``."""
    return f"{100 * share:.1f} %"
