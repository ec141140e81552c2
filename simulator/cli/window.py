"""``--window A:B``."""

from __future__ import annotations

from math import inf, isnan

from topology.errors import InvalidInput


def parse_window(text: str) -> tuple[float, float]:
    """Begin and end in seconds on the trace's clock; either may be left open.

    :raises InvalidInput: not two numbers with a colon between.
    """
    begin, colon, end = text.partition(":")
    try:
        first, last = float(begin) if begin.strip() else -inf, float(end) if end.strip() else inf
    except ValueError:
        first = last = float("nan")
    if not colon or isnan(first) or isnan(last):
        raise InvalidInput(
            f"{text[:40]!r} is no window",
            where="--window",
            fix="write two times in seconds on the trace's clock with a colon between, e.g. 0:86400",
        )
    return first, last
