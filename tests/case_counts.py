"""How many cases a test tries: a share of them in ``make test``, all of them in ``make properties``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import settings

Case = TypeVar("Case")

ALL_CASES = os.environ.get("ARNOLD_CASES") == "all"
SHARE = 20  # a twentieth of the examples: with a twelfth `make test` takes more than its four minutes on two cores
STEP = 4  # every fourth instance of a list: fewer would leave lists of a few with one
FEWEST = 5  # no fewer than these: two or three examples would be a weak test


def cases(count: int) -> int:
    """Return how many cases this run tries of a test that has so many."""
    return count if ALL_CASES else min(count, max(FEWEST, count // SHARE))


def examples(count: int, **others: Any) -> settings:
    """Return the settings of a property that has so many examples; others are settings of hypothesis, too."""
    return settings(max_examples=cases(count), **others)


def every_fourth(instances: Sequence[Case]) -> Sequence[Case]:
    """Return the instances that this run tries of a list of all; the test has the marker ``many_cases``."""
    return instances if ALL_CASES else instances[::STEP]
