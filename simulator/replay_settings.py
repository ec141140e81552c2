"""What decides in a replay: options of ``arnold simulate``, read without the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Gt

from simulator.failures.cluster_failures import FailureSettings
from topology.errors import InvalidInput
from topology.field_types import Seed

COUNT_ONLY = "none"  # The algorithm that places nothing: GPUs are counted
NO_COST = "none"  # The model of communication under which jobs run as long as the trace says, but for slow nodes


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """What decides in a replay, and what it knows: options of ``arnold simulate``."""

    policy: str = field(default="fifo", metadata={"metavar": "NAME"})
    """Which job is tried next, and which may pass others."""
    algorithm: str = field(default="exact", metadata={"metavar": "NAME"})
    """Where gangs go; none = GPUs are counted, no nodes."""
    placement_seconds: Annotated[float, Gt(0)] = field(
        default=1.0, metadata={"option": "--time-limit", "metavar": "SECONDS"}
    )
    """Seconds for each placement; then the best so far."""
    predictor: str = field(default="oracle", metadata={"metavar": "NAME"})
    """What the scheduler is told of run times: oracle, estimate, history, boosting."""
    cost: str = field(default=NO_COST, metadata={"metavar": "NAME"})
    """What spread costs jobs: none = nothing, spread, alpha-beta, hierarchical, flows. Slow nodes cost the same in all
    of them."""
    level: str | None = field(default=None, metadata={"metavar": "NAME", "default": "broadest with several"})
    """Level whose domains spread counts."""
    seed: Seed = field(default=0, metadata={"metavar": "N"})
    """Same seed, same run."""
    failures: FailureSettings | None = field(default=None, metadata={"option": False})
    """What goes wrong; ``None`` = nothing."""

    def __post_init__(self) -> None:
        """Refuse, by :class:`InvalidInput`, what asks for nodes where GPUs are only counted."""
        if self.algorithm != COUNT_ONLY:
            return
        fix = "choose an --algorithm that places"
        if self.failures is not None:
            raise InvalidInput("nodes fail, and this run only counts GPUs", where="--failures", fix=fix)
        if self.cost != NO_COST:
            asked = f"{self.cost!r} asks where jobs lie, and without placement they lie nowhere"
            raise InvalidInput(asked, where="--cost", fix=f"{fix}, or --cost none")
