"""How many cases a test tries: a quarter in ``make test``, all of them in ``make properties``."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

ALL_CASES = os.environ.get("ARNOLD_CASES") == "all"
SHARE = 4  # `make test` tries every fourth case: four minutes on two cores instead of eight
FEWEST = 10  # no fewer than these, where a test has as many


def cases(count: int) -> int:
    """Return how many cases this run tries of a test that has so many."""
    return count if ALL_CASES else min(count, max(FEWEST, count // SHARE))


def examples(count: int, **others: Any) -> settings:
    """Return the settings of a property with so many examples, of which this run tries its share."""
    return settings(max_examples=cases(count), **others)
