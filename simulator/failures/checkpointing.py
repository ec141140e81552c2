"""Checkpoints: how much longer a run takes with them, and how much of it a failure leaves.

A job trains ``interval`` seconds, writes for ``write`` seconds, and so on; the last part, which ends the job, is not
followed by a checkpoint of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from topology.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """When checkpoints are written.

    :raises InvalidInput: an interval not above 0, or a write below 0.
    """

    interval: float = inf  # productive seconds between two; inf = none is written, a failure loses everything
    write: float = 0.0  # seconds that a write keeps the job from training

    def __post_init__(self) -> None:
        if not self.interval > 0.0:
            raise InvalidInput(
                f"the interval is {self.interval}", where="--job-checkpoint-interval", fix="give seconds above 0"
            )
        if not 0.0 <= self.write < inf:
            raise InvalidInput(
                f"a checkpoint takes {self.write} seconds", where="--job-checkpoint-write", fix="give 0 seconds or more"
            )

    def trained(self, wall: float) -> float:
        """Return productive seconds in so many seconds of training and writing: what counts where nothing is lost."""
        if self.interval == inf:
            return wall
        whole, rest = divmod(wall, self.interval + self.write)
        return whole * self.interval + min(rest, self.interval)

    def saved(self, wall: float) -> float:
        """Return productive seconds that the last finished checkpoint holds: what a failure leaves."""
        if self.interval == inf:
            return 0.0
        return wall // (self.interval + self.write) * self.interval
