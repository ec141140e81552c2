"""What is seen in one metric: machines that stood out for a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Doubt = Literal["busier", "idle-peers", "many"]
"""Why a machine that stands out is not at fault, or cannot be told to be: it works more than its peers, these do not
work at all, or too many stand out.
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A machine that stood out for a while in one metric.

    :param start: time at which the first of its windows began, seconds.
    :param end: time at which the last one ended.
    :param alert: time at which it had lasted long enough; ``None`` = it never had.
    :param score: median over its windows.
    :param own: the machine's median value meanwhile, in the metric's unit.
    :param peers: the other machines' median value meanwhile.
    :param lasting: it went on to the end of the recording.
    :param late: seconds by which it follows its peers, where that alone makes it stand out
        (:mod:`~health.peers.lag`): then it is no alert.  ``None`` = it does not, or there was no alert.
    :param doubt: why it is no alert although it lasted long enough (:mod:`~health.peers.doubt`); ``None`` =
        it is one, or did not last.
    """

    metric: str
    machine: str
    start: float
    end: float
    alert: float | None
    score: float
    own: float
    peers: float
    lasting: bool
    late: float | None = None
    doubt: Doubt | None = None


@dataclass(frozen=True, slots=True)
class Examined:
    """What was seen in one metric.

    :param step: seconds between samples.
    :param needed: seconds for which a machine has to be the candidate here.
    :param stretches: of candidates, the longest first.
    :param silent: machines without a sample at the end of the recording, or at all.
    """

    metric: str
    machines: int
    step: float
    needed: float
    stretches: tuple[Stretch, ...]
    silent: tuple[str, ...]

    @property
    def alerts(self) -> list[Stretch]:
        """Stretches that lasted long enough, in order of time."""
        return sorted((one for one in self.stretches if one.alert is not None), key=lambda one: one.start)
