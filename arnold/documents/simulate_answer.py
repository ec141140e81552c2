"""The answer of ``arnold simulate``.  Each number has its formula in metrics.md of the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from ground.quantities import duration, number, percent, times
from ground.records import Count, JsonRecord, NotNegative, Share, record_of
from simulator.cost.step import COMM_MODELS
from simulator.history import RunHistory
from simulator.results import Distribution, MeanSpread, PowerMoment, RunSummary, replayed_power
from simulator.shared_data import SharedLoads, shared_loads
from simulator.sheet import TextTable
from simulator.start_ups import StartUpShare, startup_shares

if TYPE_CHECKING:
    from simulator.replay import Replay


class SimulateDocument(JsonRecord, kw_only=True):
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
    """Time from the first submission to the last end, seconds; null = no job ended, as below."""
    wait_seconds: Distribution | None
    """Time from submission to the first start, seconds."""
    jct_seconds: Distribution | None
    """Time from submission to the end, seconds."""
    utilization: Share | None
    """GPU-seconds that jobs held over GPUs times makespan."""
    fragmentation: Share | None
    """Share of free GPU-seconds on nodes of which another part was in use; null = nothing was ever free, or GPUs were
    only counted."""
    ettr: Share | None
    """GPU-seconds of work that counted over those from first start to end; 1 at most, on faster GPUs too."""
    spread: MeanSpread | None
    """Mean spread of jobs on several nodes; null = there were none, or GPUs were only counted."""
    policy_seconds: NotNegative
    """Wall time inside the scheduler: queue policy and placement."""
    wall_seconds: NotNegative
    """Wall time of the run, reading the inputs left out."""
    events: Count
    """Submissions, ends, announcements, failures and repairs."""
    allocation: Share | None
    """Utilization of GPUs on nodes that were not away."""
    goodput: NotNegative | None
    """GPU-seconds of work of jobs that ended, as long as in the trace, over GPUs times makespan: above 1 where GPUs are
    faster than those of the trace."""
    ettr_worst_hour: Share | None
    """ETTR of the hour of the run in which it was least; null = no job started."""
    throughput_lost: Share | None
    """Share of the work that the GPUs held would have done at the pace of the trace, lost to slower steps."""
    trace_wait_seconds: Distribution | None
    """Time from submission to start as it really happened, seconds, of the jobs of which the trace says so; null = of
    none.
    """
    cost: str
    """Name of the model of what spread costs."""
    assumptions: tuple[str, ...]
    """What that model takes for granted, a sentence each."""
    power: tuple[PowerMoment, ...]
    """What is drawn around two moments of the run; empty = without --power, or no job started."""
    data: tuple[SharedLoads, ...] | None
    """Loads of each data set, by name; null = without `--data`."""
    startup: tuple[StartUpShare, ...] | None
    """What start-up took of the GPU time that jobs held, in all and by size; null = without `--startup`."""


def simulate_document(
    summary: RunSummary, replay: Replay, past: RunHistory, *, wall_seconds: float
) -> SimulateDocument:
    """Return the document of a run that is over."""
    engine, settings, dropped = replay.engine, replay.settings, dict(replay.trace.dropped)
    model = COMM_MODELS.load(settings.cost_model)
    if left := summary.jobs - summary.completed:
        dropped["never placed"] = left
    return record_of(
        SimulateDocument,
        summary,
        engine,
        model,
        policy=settings.policy,
        dropped=dropped,
        policy_seconds=engine.driver.seconds,
        wall_seconds=wall_seconds,
        cost=model.name,
        power=() if settings.power is None else replayed_power(past, settings.power, seed=settings.seed),
        data=None if settings.data is None else shared_loads(past, settings.data),
        startup=None if replay.startups is None else startup_shares(past, replay.startups.log),
    )


def replay_tables(document: SimulateDocument) -> Iterator[TextTable]:
    """Yield a table for each of them that was asked for."""
    if document.power:
        kept = {True: "yes", False: "no"}
        headers = ("moment", "domain", "at", *document.power[0].figures.cells, "keeps the specification")
        rows = [
            (drawn.moment, drawn.domain, duration(drawn.seconds), *drawn.figures.cells.values(), kept[drawn.within])
            for drawn in document.power
        ]
        yield TextTable("Power around two moments", headers, rows)
    if document.data:
        loads = [
            (
                *(loaded.data_set, f"{loaded.jobs:,}", number(loaded.loads), number(loaded.shared)),
                times(loaded.loads / loaded.shared) if loaded.shared else "-",
            )
            for loaded in document.data
        ]
        yield TextTable("Samples loaded", ("data set", "jobs", "loads", "if shared", "times fewer"), loads)
    if document.startup:
        ways = [field.name for field in fields(StartUpShare)][3:]
        shares = [
            (share.size, f"{share.starts:,}", duration(share.seconds), *(percent(getattr(share, way)) for way in ways))
            for share in document.startup
        ]
        title = "GPU time held that start-up took, and would take with these techniques alone"
        yield TextTable(title, ("size of job", "starts", "mean", *(way.replace("_", " ") for way in ways)), shares)
