"""What fails: the published mixes of failures, and what each kind does to its node.

Counts are the sources'; whether the node needs a technician or a reboot is our reading of the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from topology.errors import UnknownName, did_you_mean

Symptom = Literal["error", "hang"]
"""How it shows: the process ends with an error, or the job stands still until somebody notices."""


@dataclass(frozen=True, slots=True)
class FailureKind:
    """One cause of failure."""

    name: str
    count: int  # how often it was seen; only its share of the mix matters
    hardware: bool  # the node goes to repair; else a reboot brings it back
    symptom: Symptom = "error"


@dataclass(frozen=True, slots=True)
class Mix:
    """Kinds of failures and their shares."""

    name: str  # what it is called on the command line
    kinds: tuple[FailureKind, ...]
    source: str

    @property
    def total(self) -> int:
        """Failures of all kinds."""
        return sum(kind.count for kind in self.kinds)


MIXES: Mapping[str, Mix] = {
    mix.name: mix
    for mix in (
        Mix(
            "llama3",
            (
                FailureKind("faulty GPU", 148, hardware=True),
                FailureKind("GPU HBM3 memory", 72, hardware=True),
                FailureKind("software bug", 54, hardware=False),
                FailureKind("network switch or cable", 35, hardware=True),
                FailureKind("host maintenance", 32, hardware=False),
                FailureKind("GPU SRAM memory", 19, hardware=True),
                FailureKind("GPU system processor", 17, hardware=True),
                FailureKind("NIC", 7, hardware=True),
                FailureKind("NCCL watchdog timeout", 7, hardware=False, symptom="hang"),
                FailureKind("silent data corruption", 6, hardware=True),
                FailureKind("GPU thermal interface", 6, hardware=True),
                FailureKind("SSD", 3, hardware=True),
                FailureKind("power supply", 3, hardware=True),
                FailureKind("server chassis", 2, hardware=True),
                FailureKind("IO expansion board", 2, hardware=True),
                FailureKind("dependency", 2, hardware=False),
                FailureKind("CPU", 2, hardware=True),
                FailureKind("system memory", 2, hardware=True),
            ),
            "Llama 3 405B, 419 unexpected interruptions (arXiv 2407.21783, table 5)",
        ),
        Mix(
            "byterobust",
            (
                FailureKind("hang", 5506, hardware=False, symptom="hang"),
                FailureKind("InfiniBand", 1599, hardware=True),
                FailureKind("kernel panic", 203, hardware=False),
                FailureKind("GPU memory", 188, hardware=True),
                FailureKind("GPU unavailable", 76, hardware=True),
                FailureKind("disk fault", 47, hardware=True),
            ),
            "ByteRobust, incidents of three months that a machine can be at fault for (arXiv 2509.16293, table 1)",
        ),
    )
}
"""Published mixes.  Of ByteRobust's incidents those are left out that a user's code, its data or a shared service
explain: they stop one job, whatever its nodes, and replacing a node does not help."""


def failure_mix(name: str) -> Mix:
    """Return the mix of that name.

    :raises UnknownName: there is none.
    """
    if name not in MIXES:
        raise UnknownName(
            f"no mix of failures is called {name[:40]!r}",
            where="--mix",
            fix=f"{did_you_mean(name, MIXES)}use one of {', '.join(MIXES)}",
        )
    return MIXES[name]
