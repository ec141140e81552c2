"""From a failure to training again: detection, getting the processes back, reading the checkpoint.

Detection: an error ends the process and is seen at once (90 % within 15 s: Mycroft, arXiv 2509.03018); a hang is seen
when no traffic was seen for ten minutes (ByteRobust, arXiv 2509.16293, and the default timeout of PyTorch's NCCL
process groups).  Getting back: ByteRobust's measured costs of a requeue or a hot update, by the size of the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal

from ground.errors import InvalidInput
from health.recovery.restarts import RestartKind, restart_seconds
from simulator.failures.rates import MIXES, FailureKind, Mix

ERROR_SEEN = 15.0
HANG_SEEN = 600.0

GPUS_OF_A_MACHINE = 16  # Of the machines on which restarts were measured


@dataclass(frozen=True, slots=True)
class Restart:
    """How a job comes back."""

    # new pods for all, or the same pods with a new process; start-up: what comes after detection is that of every start
    # of the run (simulator.startup); None = fixed says it all
    kind: RestartKind | Literal["start-up"] | None = None
    reload: float = 0.0  # seconds to read the checkpoint
    fixed: float = 300.0  # seconds from the failure until the job trains again, instead of everything else
    error_seen: float = ERROR_SEEN
    hang_seen: float = HANG_SEEN

    def seconds(self, *, gpus: float, failure: FailureKind) -> float:
        """Return u0 of one failure of a job of so many GPUs."""
        if self.kind is None:
            return self.fixed
        return (self.hang_seen if failure.symptom == "hang" else self.error_seen) + self.back(gpus)

    def back(self, gpus: float) -> float:
        """Return seconds from knowing to training again."""
        if self.kind is None:
            return self.fixed
        if self.kind == "start-up":
            return self.reload
        return restart_seconds(max(1.0, gpus / GPUS_OF_A_MACHINE), self.kind) + self.reload

    def mean_seconds(self, *, gpus: float, mix: Mix = MIXES["llama3"]) -> float:
        """Return mean u0 over a mix of failures."""
        return sum(kind.count * self.seconds(gpus=gpus, failure=kind) for kind in mix.kinds) / mix.total


def parse_restart(text: str) -> Restart:
    """Read seconds, or ``requeue`` or ``hot-update``, as a restart.

    :raises InvalidInput: neither.
    """
    word = text.strip().lower()
    if word == "requeue":
        return Restart(kind="requeue")
    if word == "hot-update":
        return Restart(kind="hot-update")
    try:
        seconds = float(word)
    except ValueError:
        seconds = -1.0
    if not (isfinite(seconds) and seconds >= 0.0):
        raise InvalidInput(
            f"{text[:40]!r} is no way to restart",
            where="--restart",
            fix="give seconds, 0 or more, or one of requeue, hot-update",
        )
    return Restart(fixed=seconds)
