"""How a job may lie on nodes of which types, and how fast it is so."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Allocation:
    """How a job may lie."""

    gpu_types: tuple[str, ...]  # types of GPU that its nodes have
    nodes: int
    gpus: int  # units on each
    # seconds of its work that it does in a second, by the slowest type; 1 = as the trace says
    speed: float = field(compare=False, default=1.0)

    @property
    def units(self) -> int:
        """Units in all."""
        return self.nodes * self.gpus
