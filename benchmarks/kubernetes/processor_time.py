"""Processor time of whole programs, as Linux counts it: it depends less on what others do there than a clock."""

import os
from collections.abc import Mapping
from pathlib import Path
from time import monotonic, sleep

TICKS = os.sysconf("SC_CLK_TCK")  # a second, of the counters of a process
LOOK = 0.5  # seconds between two looks whether programs still do anything
IDLE = 0.05  # of a processor, which a control plane at rest needs
PATIENCE = 20.0  # seconds for which they are waited for at the most


class ProcessorTime:
    """Seconds of processor time that programs use from now on.

    :param pids: name of each program -> its process.
    """

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._before = self._used()

    def spent(self) -> dict[str, float]:
        """Return the seconds of each program."""
        return {name: now - self._before[name] for name, now in self._used().items()}

    def settled(self) -> dict[str, float]:
        """Return the seconds of each once all are idle: events and other news are written behind the work."""
        until, before = monotonic() + PATIENCE, self.spent()
        while True:
            sleep(LOOK)
            now = self.spent()
            if sum(now.values()) - sum(before.values()) < IDLE * LOOK or monotonic() > until:
                return now
            before = now

    def _used(self) -> dict[str, float]:
        return {name: _seconds(pid) for name, pid in self._pids.items()}


def _seconds(pid: int) -> float:
    """Return the processor time of a process and its threads: utime and stime of proc_pid_stat(5)."""
    _, _, behind_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")
    fields = behind_name.split()
    return (int(fields[11]) + int(fields[12])) / TICKS
