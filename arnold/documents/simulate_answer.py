"""The JSON of ``arnold simulate``.  Each number has its formula in docs/metrics.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Interval

from simulator.results.distribution import Distribution
from simulator.results.run_summary import RunSummary
from topology.json_record import JsonRecord

Count = Annotated[int, Ge(0)]
Seconds = Annotated[float, Ge(0)]
Share = Annotated[float, Interval(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class MeanSpread(JsonRecord):
    """Mean over gangs of the largest number of domains that a group touches."""

    dp: Annotated[float, Ge(1)]
    """Over the DP groups of each gang."""
    pp: Annotated[float, Ge(1)]
    """Over its PP groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateDocument(JsonRecord):
    """A cluster over time."""

    policy: str
    """Name of the queue policy."""
    jobs: Count
    """Jobs of the trace that took part."""
    completed: Count
    """Jobs that ended."""
    dropped: Mapping[str, int]
    """Jobs that did not take part, by reason; `never placed`: jobs that took part and never found room."""
    makespan_seconds: float | None
    """From the first submission to the last end; null = no job ended, as below."""
    wait_seconds: Distribution | None
    """From submission to the first start."""
    jct_seconds: Distribution | None
    """From submission to the end."""
    utilization: Share | None
    """GPU-seconds that jobs held over GPUs times makespan."""
    fragmentation: Share | None
    """Share of free GPU-seconds on nodes of which another part was in use; null = nothing was ever free, or GPUs were
    only counted."""
    ettr: Share | None
    """GPU-seconds of work that counted over those from first start to end."""
    spread: MeanSpread | None
    """Of jobs on several nodes; null = there were none, or GPUs were only counted."""
    policy_seconds: Seconds
    """Wall time inside the scheduler: queue policy and placement."""
    wall_seconds: Seconds
    """Wall time of the run, reading the inputs left out."""
    events: Count
    """Submissions, ends, announcements, failures and repairs."""
    allocation: Share | None
    """Utilization of GPUs on nodes that were not away."""
    goodput: Share | None
    """GPU-seconds of work of jobs that ended, as long as in the trace, over GPUs times makespan."""
    ettr_worst_hour: Share | None
    """ETTR of the hour of the run in which it was least; null = no job started."""
    throughput_lost: Share | None
    """Share of the work that the GPUs held would have done at the pace of the trace, lost to slower steps."""


def simulate_document(
    summary: RunSummary,
    *,
    policy: str,
    dropped: Mapping[str, int],
    policy_seconds: float,
    wall_seconds: float,
    events: int,
) -> SimulateDocument:
    """Return the document of a run."""
    return SimulateDocument(
        policy=policy,
        jobs=summary.jobs,
        completed=summary.completed,
        dropped=dropped,
        makespan_seconds=summary.makespan,
        wait_seconds=summary.wait,
        jct_seconds=summary.jct,
        utilization=summary.utilization,
        fragmentation=summary.fragmentation,
        ettr=summary.ettr,
        spread=None if summary.spread is None else MeanSpread(*summary.spread),
        policy_seconds=policy_seconds,
        wall_seconds=wall_seconds,
        events=events,
        allocation=summary.allocation,
        goodput=summary.goodput,
        ettr_worst_hour=summary.ettr_worst_hour,
        throughput_lost=summary.throughput_lost,
    )
