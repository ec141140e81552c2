"""The answer to ``arnold capacity grow``: demand and waits by quarter and scenario, and what larger clusters hold."""

from __future__ import annotations

from dataclasses import dataclass

from ground.records import AtLeastOne, Count, JsonRecord, NotNegative, Share
from simulator.capacity.answer_range import Percentiles
from simulator.capacity.capacity_question import CapacityAnswer
from simulator.capacity.grow.grown_shapes import GrownShape


@dataclass(frozen=True, slots=True)
class DemandQuarter(JsonRecord):
    """The end of a quarter."""

    quarter: Count
    """Quarters from now; 0 = today."""
    load: Percentiles
    """GPU time that jobs ask for, as a share of today's cluster."""
    wait_minutes: Percentiles
    """95th percentile of the waits; null = a load above `highest_load`, which is not replayed."""
    broken: Share
    """Share of the draws in which the waits are above the objective."""
    minipods: Percentiles
    """Domains beyond today's with which the objective is kept."""


@dataclass(frozen=True, slots=True)
class GrowthScenario(JsonRecord):
    """What becomes of the waits if demand grows as one scenario says."""

    growth: str
    """Growth a quarter, as it was given."""
    breaks: Percentiles
    """Quarters from now in which the waits rise above the objective; 0 = they are above it; null = not in 10 years."""
    order: Percentiles
    """Quarters from now in which to order: those of `breaks` less the lead time; negative = so many quarters ago."""
    quarters: tuple[DemandQuarter, ...]
    """Waits by quarter, today first."""


@dataclass(frozen=True, slots=True)
class GrownCluster(JsonRecord):
    """One cluster."""

    more: Count
    """Domains that were added."""
    nodes: AtLeastOne
    """Nodes in all."""
    free: Count
    """Nodes that are idle and not faulty."""
    lasts: Percentiles
    """Quarters from now in which the waits on it rise above the objective, first scenario; null = not in 10 years."""
    shapes: tuple[GrownShape, ...]
    """Results by shape of job."""


@dataclass(frozen=True, kw_only=True)
class GrowAnswer(CapacityAnswer):
    """When to order more domains, and what they buy."""

    cluster: str
    """What the cluster is called."""
    level: str
    """Level of the domains that are added."""
    added_nodes: AtLeastOne
    """Nodes of each domain that is added."""
    policy: str
    """Queue policy of the replays."""
    jobs: Count
    """Jobs of the workload of the first seed."""
    objective_wait: float
    """What the 95th percentile of the waits is to stay below, minutes."""
    load_at_objective: Percentiles
    """Load from which the waits are above it, over the workloads and what chance does in a run of each."""
    kept: Share
    """Share of the workloads whose waits keep the objective up to `highest_load`, where it is then taken to break."""
    highest_load: Share
    """The highest load that is replayed: above it waits have no answer."""
    run_minutes: tuple[float, float]
    """What the percentile may be where it is the objective, as a run knows it: P10 and P90 in minutes, batch means."""
    cost_used_gpu_hour: float | None
    """What a GPU-hour in use costs at the median of that load: idle GPUs are the price of short waits; null = no
    price was given."""
    cost_domain_hour: NotNegative | None
    """What each domain that is added costs an hour; null = no price was given."""
    alpha: float | None
    """DP affinity of the jobs of the shapes; null = they differ, as their model has it."""
    scenarios: tuple[GrowthScenario, ...]
    """Scenarios of growth in the order given; the first is that of the headline."""
    rows: tuple[GrownCluster, ...]
    """Today's cluster first."""
