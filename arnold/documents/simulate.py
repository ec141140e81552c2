"""The JSON of ``arnold simulate``.  Each number has its formula in docs/metrics.md."""

from __future__ import annotations

from pydantic import Field

from arnold.documents.common import Document
from simulator.metrics.distribution import Distribution
from simulator.metrics.summary import Summary
from simulator.past.totals import Totals


class DistributionDoc(Document):
    """Seconds over jobs; percentiles are linear between the two nearest ranks."""

    mean: float
    """Over all jobs."""
    p50: float
    """Half of the jobs have at most this."""
    p95: float
    """95 % of the jobs have at most this."""
    p99: float
    """99 % of the jobs have at most this."""
    max: float
    """The most that a job has."""


class MeanSpreadDoc(Document):
    """Mean over gangs of the largest number of domains that a group touches."""

    dp: float = Field(ge=1)
    """Over the DP groups of each gang."""
    pp: float = Field(ge=1)
    """Over its PP groups."""


class SimulateDocument(Document):
    """A cluster over time."""

    policy: str
    """Name of the queue policy."""
    jobs: int = Field(ge=0)
    """Jobs of the trace that took part."""
    completed: int = Field(ge=0)
    """Jobs that ended."""
    dropped: dict[str, int]
    """Jobs that did not take part, by reason; `never placed`: jobs that took part and never found room."""
    makespan_seconds: float | None
    """From the first submission to the last end; null = no job ended, as below."""
    wait_seconds: DistributionDoc | None
    """From submission to the first start."""
    jct_seconds: DistributionDoc | None
    """From submission to the end."""
    utilization: float | None = Field(ge=0, le=1)
    """GPU-seconds that jobs held over GPUs times makespan."""
    fragmentation: float | None = Field(ge=0, le=1)
    """Share of free GPU-seconds on nodes of which another part was in use; null = nothing was ever free, or GPUs were
    only counted."""
    ettr: float | None = Field(ge=0, le=1)
    """GPU-seconds of work that counted over those from first start to end."""
    spread: MeanSpreadDoc | None
    """Of jobs on several nodes; null = there were none, or GPUs were only counted."""
    policy_seconds: float = Field(ge=0)
    """Wall time inside the scheduler: queue policy and placement."""
    wall_seconds: float = Field(ge=0)
    """Wall time of the run, reading the inputs left out."""
    events: int = Field(ge=0)
    """Submissions, ends, announcements, failures and repairs."""
    allocation: float | None = Field(ge=0, le=1)
    """Utilization of GPUs on nodes that were not away."""
    goodput: float | None = Field(ge=0, le=1)
    """GPU-seconds of work of jobs that ended, as long as in the trace, over GPUs times makespan."""
    ettr_worst_hour: float | None = Field(ge=0, le=1)
    """ETTR of the hour of the run in which it was least; null = no job started."""
    throughput_lost: float | None = Field(ge=0, le=1)
    """Share of the work that the GPUs held would have done at the pace of the trace, lost to slower steps."""


def simulate_document(
    summary: Summary,
    whole: Totals,
    *,
    policy: str,
    dropped: dict[str, int],
    fragmentation: float | None,
    policy_seconds: float,
    wall_seconds: float,
    events: int,
) -> SimulateDocument:
    """The document of a run."""
    return SimulateDocument(
        policy=policy,
        jobs=summary.jobs,
        completed=summary.completed,
        dropped=dropped,
        makespan_seconds=summary.makespan,
        wait_seconds=_distribution(summary.wait),
        jct_seconds=_distribution(summary.jct),
        utilization=summary.utilization,
        fragmentation=fragmentation,
        ettr=summary.ettr,
        spread=None if summary.spread is None else MeanSpreadDoc(dp=summary.spread[0], pp=summary.spread[1]),
        policy_seconds=policy_seconds,
        wall_seconds=wall_seconds,
        events=events,
        allocation=whole.allocation,
        goodput=summary.goodput,
        ettr_worst_hour=whole.ettr_worst_hour,
        throughput_lost=whole.throughput_lost,
    )


def _distribution(found: Distribution | None) -> DistributionDoc | None:
    if found is None:
        return None
    return DistributionDoc(mean=found.mean, p50=found.p50, p95=found.p95, p99=found.p99, max=found.max)
