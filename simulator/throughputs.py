"""How fast jobs run on each type of GPU, by what they train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Rates = dict[tuple[str, int], dict[str, tuple[float, float | None]]]
"""Model and GPUs -> type of GPU -> throughput on as few nodes as hold them, and on more; ``None`` = not known."""


@dataclass(frozen=True, slots=True)
class Throughputs:
    """Throughputs of kinds of jobs; 0 = they do not run there."""

    rates: Rates
    reference: str  # type of GPU of which run times are
    source: str = "as published"  # where it came from, as errors call it

    def together(self, model: str, gpus: int) -> dict[str, float]:
        """Return the throughput of a kind of job on each type of GPU, on as few nodes as hold it."""
        return {name: rate for name, (rate, _) in self.rates.get((model, gpus), {}).items()}

    def rates_of(self, model: str, gpus: float) -> Mapping[str, tuple[float, float | None]]:
        """Return those of a model on as many GPUs, else on the next fewer, else the least; empty = none."""
        sizes = sorted(size for name, size in self.rates if name == model)
        nearest = max([size for size in sizes if size <= gpus], default=sizes[0] if sizes else 0)
        return self.rates.get((model, nearest), {})
