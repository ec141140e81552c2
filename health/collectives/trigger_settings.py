"""How the trigger watches a job, and the options of ``arnold health collectives`` for it."""

from dataclasses import dataclass, field
from math import inf
from typing import Annotated

from annotated_types import Interval

from ground.records import AtLeastOne, check_fields

Span = Annotated[float, Interval(ge=0.5, le=86_400)]
"""Seconds; below half a second there is hardly a state line, above a day nobody waits for the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSettings:
    """How to watch."""

    window: Span = field(default=10.0, metadata={"option": "--span", "metavar": "SECONDS"})
    """Seconds of data that each round looks at.

    It judges the second half of it too."""
    period: Span = field(default=10.0, metadata={"option": "--every", "metavar": "SECONDS"})
    """Seconds between two rounds."""
    factor: Annotated[float, Interval(gt=1, lt=inf)] = 2.0
    """A rate divided by this, or an interval multiplied by it, is a straggler."""
    history: AtLeastOne = 3
    """Windows that must have passed before a rate can be judged, and completions of the group by which a rank is
    watched before its rhythm is known."""
    quiet: Annotated[float, Interval(gt=0, lt=inf)] = 2.0
    """Seconds without any movement after which a collective counts as stalled."""

    def __post_init__(self) -> None:
        check_fields(self)
