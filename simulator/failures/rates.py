"""How often nodes fail and what fails, as published; the mean time to failure of a job, and how it comes back.

A rate is the number of failures per node and day that stop a job on that node; sources speak of 1,000 node-days.
Counts of a mix are the sources'; whether the node needs a technician or a reboot is our reading of the name.

Detection: an error ends the process and is seen at once (90 % within 15 s: Mycroft, arXiv 2509.03018); a hang is seen
when no traffic was seen for ten minutes (ByteRobust, arXiv 2509.16293, and the default timeout of PyTorch's NCCL
process groups).  Getting back: ByteRobust's measured costs of a requeue or a hot update, by the size of the job.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Literal

from annotated_types import Ge

from ground.errors import InvalidInput, UnknownName, did_you_mean
from ground.quantities import DAY
from ground.records import JsonRecord
from health.recovery.restarts import RestartKind, restart_seconds

HIGHEST = 1_000.0  # Failures per 1,000 node-days beyond which a number is no rate: a node that fails every day


class FailureRate(JsonRecord):
    """How often one node fails."""

    name: str
    """Name of a published rate, or the number given."""
    per_thousand_node_days: Annotated[float, Ge(0)]
    """Failures in 1,000 days of a node."""
    source: str
    """The publication that measured it, or ``given``."""

    @property
    def per_node_day(self) -> float:
        """r: failures per node and day."""
        return self.per_thousand_node_days / 1_000.0

    def per_second(self, nodes: float) -> float:
        """Return N r: failures per second among so many nodes."""
        return nodes * self.per_node_day / DAY


LLAMA3_FAILURES, LLAMA3_DAYS, LLAMA3_NODES = 419, 54, 2048
"""Unexpected interruptions, days and nodes of 8 GPUs (16,384 GPUs) of the Llama 3 405B run."""

RATES: Mapping[str, FailureRate] = {
    rate.name: rate
    for rate in (
        FailureRate("rsc-1", 6.50, "Meta RSC-1, 11 months on 16,000 A100 GPUs (arXiv 2410.21680)"),
        FailureRate(
            "llama3",
            1_000.0 * LLAMA3_FAILURES / (LLAMA3_DAYS * LLAMA3_NODES),
            "Llama 3 405B, 419 unexpected interruptions in 54 days on 16,384 GPUs (arXiv 2407.21783, section 3.3.4)",
        ),
        FailureRate("rsc-2", 2.34, "Meta RSC-2, 11 months on 8,000 A100 GPUs (arXiv 2410.21680)"),
        FailureRate("byterobust", 1.2, "fitted to the standby pools 2/2/3/4 of ByteRobust (arXiv 2509.16293)"),
    )
}
"""Published rates, the highest first."""

MEASURED_MTTF_GPUS, MEASURED_MTTF_HOURS = 1024, 7.9
"""What jobs of 1,024 GPUs on RSC-1 measured (arXiv 2410.21680), where its rate gives 28.8 hours: no rate that is the
same for all nodes explains both, so both are always printed."""

_NUMBER = re.compile(r"[0-9]{1,6}(?:\.[0-9]{0,12})?(?:[eE][-+]?[0-9]{1,2})?")


def failure_rate(text: str) -> FailureRate:
    """Return a published rate by its name, or failures per 1,000 node-days as a number.

    :raises UnknownName: neither.
    :raises InvalidInput: a number beyond :data:`HIGHEST`.
    """
    name = text.strip().lower()
    if name in RATES:
        return RATES[name]
    if not _NUMBER.fullmatch(name):
        problem = f"{text[:40]!r} is neither the name of a failure rate nor a number from 0 to {HIGHEST:,.0f}"
        fix = f"{did_you_mean(name, RATES)}use one of {', '.join(RATES)}, or failures per 1,000 node-days"
        raise UnknownName(problem, where="--failures", fix=fix)
    if float(name) > HIGHEST:
        problem = f"{text} failures per 1,000 node-days are more than one per node and day"
        raise InvalidInput(problem, where="--failures", fix="give failures per 1,000 node-days, for example 6.5")
    return FailureRate(name, float(name), "given")


def mttf(rate: FailureRate, nodes: float) -> float:
    """Return mean time to failure of a job, seconds: ``1 / (N r)``; infinite where nothing ever fails."""
    per_second = rate.per_second(nodes)
    return 1.0 / per_second if per_second > 0.0 else float("inf")


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
        fix = f"{did_you_mean(name, MIXES)}use one of {', '.join(MIXES)}"
        raise UnknownName(f"no mix of failures is called {name[:40]!r}", where="--mix", fix=fix)
    return MIXES[name]


ERROR_SEEN = 15.0
HANG_SEEN = 600.0

GPUS_OF_A_MACHINE = 16  # Of the machines on which restarts were measured


@dataclass(frozen=True, slots=True)
class Restart:
    """How a job comes back."""

    # new pods for all, or the same pods with a new process; start-up: what comes after detection is that of every start
    # of the run (simulator.start_ups); None = fixed says it all
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
        fix = "give seconds, 0 or more, or one of requeue, hot-update"
        raise InvalidInput(f"{text[:40]!r} is no way to restart", where="--restart", fix=fix)
    return Restart(fixed=seconds)
