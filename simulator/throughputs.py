"""How fast jobs run on each type of GPU, by what they train; read by ``simulator.traces.throughput_files``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.job_record import JobRecord

Rates = dict[tuple[str, int], dict[str, tuple[float, float | None]]]
"""Model and GPUs -> type of GPU -> throughput on as few nodes as hold them, and on more; ``None`` = not known."""


@dataclass(frozen=True, slots=True)
class Throughputs:
    """Throughputs of kinds of jobs; 0 = they do not run there."""

    rates: Rates
    reference: str  # type of GPU of which run times are
    source: str = "as published"  # where it came from, as errors call it

    def rates_of(self, record: JobRecord) -> Mapping[str, tuple[float, float | None]]:
        """Return those of a job: of its model on as many GPUs, else on the next fewer, else the least; empty = none."""
        sizes = sorted(gpus for model, gpus in self.rates if model == record.model)
        gpus = max([size for size in sizes if size <= record.gpus], default=sizes[0] if sizes else 0)
        return self.rates.get((str(record.model), gpus), {})
