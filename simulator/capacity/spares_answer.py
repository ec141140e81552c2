"""What spares are worth to a job: by their number, and the answer."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.capacity.capacity_question import CapacityAnswer
from simulator.failures.rates import FailureRate
from topology.field_types import AtLeastOne, Count, NotNegative, Share
from topology.json_record import FloatOrInfinity, JsonRecord


@dataclass(frozen=True, slots=True)
class SparesRow(JsonRecord):
    """What a number of spares is worth."""

    spares: Count
    """Spare nodes."""
    waiting: Share
    """Share of time in which the job waits for a repair, by formula."""
    formula: Share
    """First-order ETTR."""
    exact: Share
    """ETTR of failures that come at random, a Poisson process."""
    simulated: Share
    """Mean ETTR of the Monte Carlo."""
    half_width: NotNegative
    """Half of the 95 % interval of the mean ETTR."""
    apart: NotNegative
    """|formula - simulated| / simulated."""


@dataclass(frozen=True, kw_only=True)
class SparesAnswer(CapacityAnswer):
    """Spares for a target ETTR."""

    nodes: AtLeastOne
    """Nodes of the job."""
    target: float
    """ETTR to reach."""
    rate: FailureRate
    """The rate of failures that was assumed."""
    restart_seconds: NotNegative
    """From a failure to training again, with a spare at hand."""
    checkpoint_interval: FloatOrInfinity
    """Productive seconds between checkpoints; null = none is ever written, as nothing fails."""
    checkpoint_write: float
    """Seconds that a checkpoint takes."""
    repair_hours: float
    """Hours until a failed node is back, on average."""
    mttf_hours: float
    """Mean time to failure of the job by the rate."""
    mttf_hours_at_1024_gpus: float
    """Mean time to failure of a job of 1,024 GPUs by the rate, to be read beside what was measured."""
    measured_mttf_hours_at_1024_gpus: float
    """Mean time to failure that jobs of 1,024 GPUs on RSC-1 measured."""
    nodes_away: float
    """Nodes in repair on average: N r T."""
    standby: Count
    """P99 of a day's failures at this rate: a pool that is filled up again every day."""
    needed: int | None
    """The fewest spares that reach the target; null = no number does."""
    ettr_with_unlimited_spares: float
    """First-order ETTR with a spare always at hand, which no number of spares exceeds."""
    exact_ettr_with_unlimited_spares: float
    """ETTR with a spare always at hand, exact for failures that come at random."""
    rows: tuple[SparesRow, ...]
    """By number of spares, the fewest that reach the target among them."""

    @property
    def reached(self) -> bool:
        """Whether some number of spares reaches the target."""
        return self.needed is not None
