"""Times for people."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """``12 s``, ``3.5 min``, ``7.2 h``, ``41.3 days``."""
    for size, unit in ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.3g} s"
