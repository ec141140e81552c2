"""Faults that the bench injects into one rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

FaultKind = Literal[
    "sender-stuck",
    "receiver-stuck",
    "slow-nic",
    "slow-gpu",
    "not-launched",
    "crossed-order",
    "gpu-stuck",
    "receiver-not-posting",
]

FAULTS: tuple[FaultKind, ...] = get_args(FaultKind)
"""The six that matter most, a GPU that stops inside a collective, and a receiver that no longer makes room: on one flow
the last looks exactly as a sender that is stuck.
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    :param rank: whom it hits.
    :param time: seconds from the start of the run.  What happens at a launch happens at the next one: ``not-launched``
        never launches again, ``crossed-order`` swaps two collectives of the next step.
    :param factor: of the slow ones: by how much.
    """

    kind: FaultKind
    rank: int
    time: float
    factor: float = 8.0
