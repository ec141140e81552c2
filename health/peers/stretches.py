"""What is seen in one metric: machines that stood out for a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from topology.json_record import JsonRecord

Doubt = Literal["busier", "idle-peers", "many"]
"""Why a machine that stands out is not at fault, or cannot be told to be: it works more than its peers, these do not
work at all, or too many stand out.
"""


@dataclass(frozen=True, slots=True)
class Stretch(JsonRecord):
    """A machine that stood out for a while in one metric."""

    machine: str
    """Name of the machine."""
    start: float
    """Beginning of its first window, seconds on the clock of the recording."""
    end: float
    """End of its last window."""
    alert: float | None
    """When it had lasted long enough; null = it never had."""
    score: float
    """How many times farther it was from its peers than they were from each other, median over its windows."""
    own: float
    """Its median value meanwhile, in the metric's unit."""
    peers: float
    """Its peers' median value meanwhile."""
    lasting: bool
    """Whether it went on to the end of the recording."""
    late: float | None
    """Seconds by which it follows its peers, where that alone makes it stand out, which is no alert."""
    doubt: Doubt | None
    """Why it is no alert although it lasted long enough: it works more than its peers, which is no fault; its peers
    idle; or so many machines stand out that they are no peers. null = it is one, or did not last."""


@dataclass(frozen=True, slots=True)
class Examined(JsonRecord):
    """What was seen in one metric."""

    metric: str
    """Name of the metric."""
    machines: int
    """Machines with samples of it."""
    step: float
    """Seconds between samples."""
    needed: float
    """Seconds for which a machine has to stand out."""
    stretches: tuple[Stretch, ...]
    """Machines that stood out, the longest first; in JSON at most five."""
    silent: tuple[str, ...]
    """Machines that had fallen silent by the end; they are not judged on it."""

    @property
    def alerts(self) -> list[Stretch]:
        """Stretches that lasted long enough, in order of time."""
        return sorted((one for one in self.stretches if one.alert is not None), key=lambda one: one.start)
