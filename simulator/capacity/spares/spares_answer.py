"""What spares are worth to a job: by their number, by failure domain, and the answer."""

from __future__ import annotations

from dataclasses import dataclass

from ground.records import AtLeastOne, Count, FloatOrInfinity, JsonRecord, NotNegative, Share
from simulator.capacity.capacity_question import CapacityAnswer
from simulator.failures.rates import FailureRate


@dataclass(frozen=True, slots=True)
class SparesRow(JsonRecord):
    """What a number of spares is worth: with every input at its median, but for the ends of ranges."""

    spares: Count
    """Spare nodes."""
    waiting: Share
    """Share of time in which the job waits for a repair, by formula."""
    formula: Share
    """ETTR by formula, of failures that come at random."""
    formula_p10: Share
    """P10 of the ETTR over the draws."""
    formula_p90: Share
    """P90 of the ETTR over the draws."""
    simulated: Share
    """Mean ETTR of the Monte Carlo."""
    half_width: NotNegative
    """Half of the 95 % interval of the mean ETTR, which is what chance leaves open, not what the inputs do."""
    apart: NotNegative
    """|formula - simulated| / simulated."""
    cost: FloatOrInfinity
    """Cost of a useful GPU-hour, that of all draws together: what is paid in them over what is useful; null = without
    end."""
    cost_at_medians: FloatOrInfinity
    """Cost with every input at its median; null = without end."""
    cost_p10: FloatOrInfinity
    """P10 of the cost over the draws; null = without end."""
    cost_p90: FloatOrInfinity
    """P90 of the cost over the draws; null = without end."""


@dataclass(frozen=True, slots=True)
class FailureDomain(JsonRecord):
    """A kind of domain whose nodes fail at once, with every input at its median."""

    name: str
    """What it is called."""
    nodes: AtLeastOne
    """Nodes of each."""
    in_the_job: float
    """How many of them the job's nodes fill, at least 1."""
    failures_a_year: NotNegative
    """Failures of all of them in a year."""
    repair_hours: NotNegative
    """Hours until the nodes are back, on average."""
    waiting: float
    """Share of time that the job waits because of them, with the spares of the answer."""


@dataclass(frozen=True, slots=True)
class SourcedSpares(JsonRecord):
    """What one published rate asks for, the other inputs at their medians."""

    name: str
    """Name of the rate."""
    per_thousand_node_days: NotNegative
    """Failures in 1,000 days of a node."""
    spares: Count
    """The number with the least cost."""


@dataclass(frozen=True, kw_only=True)
class SparesAnswer(CapacityAnswer):
    """The number of spares with which useful GPU-hours cost least; numbers without a range have every input at its
    median.
    """

    nodes: AtLeastOne
    """Nodes of the job."""
    gpus_per_node: AtLeastOne
    """GPUs of a node."""
    spares: Count
    """The number with the least cost of a useful GPU-hour, bought before the inputs are known: that of all draws
    together."""
    about_as_good: tuple[Count, Count]
    """Least and largest number of spares with a cost within 1 % of the least."""
    gpu_hour: float | None
    """Cost of a GPU-hour that is paid; null = no price is given, and costs are in GPU-hours paid for a useful one."""
    target: float | None
    """ETTR to reach; null = none is asked for."""
    needed: Count | None
    """P50 of the fewest spares that reach the target; null = none is asked for, or no number does."""
    reached_share: Share | None
    """Share of the draws in which the spares of the answer reach the target; null = none is asked for."""
    rate: FailureRate
    """Failures of a node."""
    restart_seconds: NotNegative
    """Time from a failure to training again, seconds, with a spare at hand."""
    checkpoint_interval: FloatOrInfinity
    """Productive seconds between checkpoints; null = none is ever written, as nothing fails."""
    checkpoint_write: float
    """Seconds that a checkpoint takes."""
    repair_hours: float
    """Hours until a failed node is back, on average."""
    mttf_hours: float
    """Mean time to failure of the job, hours."""
    mttf_hours_at_1024_gpus: float
    """Mean time to failure of a job of 1,024 GPUs by the rate, to be read beside what was measured."""
    measured_mttf_hours_at_1024_gpus: float
    """Mean time to failure that jobs of 1,024 GPUs on RSC-1 measured."""
    nodes_away: float
    """Nodes in repair on average, of those that fail one by one: N r T."""
    standby: Count
    """P99 of a day's failures at this rate: a pool that is filled up again every day."""
    first_order_ettr: float
    """ETTR with a spare always at hand, to the first order."""
    ettr_with_unlimited_spares: float
    """ETTR with a spare always at hand, which no number of spares exceeds."""
    by_source: tuple[SourcedSpares, ...]
    """Answers by published rate; empty = they are not taken together."""
    domains: tuple[FailureDomain, ...]
    """Kinds of domains that fail at once; empty = none is stated."""
    best_without_domains: Count
    """The number with the least cost if nodes failed one by one only."""
    rows: tuple[SparesRow, ...]
    """Results by number of spares."""

    @property
    def reached(self) -> bool:
        """Whether some number of spares reaches the target, if there is one."""
        return self.target is None or self.needed is not None

    @property
    def cost_unit(self) -> str:
        """What costs are in, after the number."""
        return "for a useful GPU-hour" if self.gpu_hour is not None else "GPU-hours paid for a useful one"
