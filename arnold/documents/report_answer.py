"""The answer of ``arnold report``, as JSON and as text: what became of the GPU-hours of a cluster, and by team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from arnold.console.output import GOOD, SO_SO, print_rows
from arnold.documents.answer_frame import Frame
from arnold.documents.snapshot_answer import iso
from ground.quantities import duration, percent
from ground.records import Count, JsonRecord, NotNegative
from simulator.usage_report import Usage
from topology.load import LoadedTopology
from topology.summary import ClusterSummary, summarise_cluster

if TYPE_CHECKING:
    from rich.console import Console

HOURS = {
    "used": "used by jobs",
    "unusable": "unusable: faulty, or kept out",
    "fragmented": "idle because of fragmentation: a job waits for whole nodes",
    "passed_over": "idle, though a job that waits would fit",
    "unwanted": "idle, and no job waits for them",
}
LOST = {
    "spread": "to spread: jobs over more domains than they need",
    "slow": "to slow nodes, which set the pace of their jobs",
    "restarts": "to runs that the system ended, at most: since their last checkpoints",
}


@dataclass(frozen=True, slots=True)
class Hours(JsonRecord):
    """GPU-hours."""

    gpu_hours: NotNegative | None
    """How many; null = it cannot be told."""
    share: NotNegative | None
    """Their share of all GPU-hours, of lost ones their share of those used; null = it cannot be told."""
    unknown: str | None
    """Why it cannot be told; null = it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamUsage(JsonRecord):
    """What an account had; null = it cannot be told."""

    team: str
    """The account; the user where Slurm has none."""
    gpu_hours: NotNegative
    """GPU-hours used."""
    share: NotNegative
    """Its share of those used."""
    jobs: Count
    """Runs in the period."""
    median_wait_seconds: NotNegative | None
    """Half of its runs that started in the period had waited less; null = none started."""
    spread: NotNegative | None
    """GPU-hours lost to spread, of the jobs whose grid is known."""
    slow: NotNegative | None
    """GPU-hours lost to slow nodes."""
    restarts: NotNegative | None
    """GPU-hours of runs that the system ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument(JsonRecord):
    """What ``arnold report --json`` prints."""

    since: str
    """When the period begins, ISO 8601."""
    until: str
    """When it ends."""
    gpu_hours: NotNegative
    """GPU-hours of all nodes in the period."""
    hours: Mapping[str, Hours]
    """What became of them: used, unusable, fragmented, passed_over, unwanted; they add up to all."""
    lost: Mapping[str, Hours]
    """Parts of those used that did no work: spread, slow, restarts (at most)."""
    spread_known: NotNegative
    """Of how many of those used it is known what spread costs."""
    possible: Hours
    """GPU-hours that could have been used, had idle GPUs been whole nodes for the jobs that waited."""
    teams: tuple[TeamUsage, ...]
    """Who used them, the most first."""
    snapshots: Count
    """Snapshots that say which nodes there were."""
    cluster: ClusterSummary
    """The cluster as the last of them has it."""
    notes: tuple[str, ...]
    """What was assumed or left out, one sentence each."""


def report_document(snapshots: Sequence[LoadedTopology], became: Usage, notes: Sequence[str]) -> ReportDocument:
    """Return the document of a period."""

    def hours(value: float | str, of: float) -> Hours:
        if isinstance(value, str):
            return Hours(None, None, value)
        value = max(0.0, value)
        return Hours(value, value / of if of else None, None)

    lost = {name: hours(getattr(became, name), became.used) for name in LOST}
    possible: float | str = became.fragmented if isinstance(became.fragmented, str) else became.used + became.fragmented

    def team_lost(name: str, value: float) -> float | None:
        return None if lost[name].gpu_hours is None else value

    last = snapshots[-1]
    return ReportDocument(
        since=iso(became.since) or "",
        until=iso(became.until) or "",
        gpu_hours=became.capacity,
        hours={name: hours(getattr(became, name), became.capacity) for name in HOURS},
        lost=lost,
        spread_known=became.spread_known,
        possible=hours(possible, became.capacity),
        teams=tuple(
            TeamUsage(
                team=name,
                gpu_hours=team.used,
                share=team.used / became.used if became.used else 0.0,
                jobs=team.jobs,
                median_wait_seconds=float(np.median(team.waits)) if team.waits else None,
                spread=team_lost("spread", team.spread),
                slow=team_lost("slow", team.slow),
                restarts=team_lost("restarts", team.restarts),
            )
            for name, team in sorted(became.teams.items(), key=lambda row: (-row[1].used, row[0]))
        ),
        snapshots=len(snapshots),
        cluster=summarise_cluster(last.cluster, last.source),
        notes=(*became.notes, *notes),
    )


def print_report(out: Console, document: ReportDocument) -> None:
    """Print what became of the GPU-hours."""
    used = document.hours["used"]
    period = " to ".join(time[:16].replace("T", " ") for time in (document.since, document.until)) + " UTC"
    frame = Frame(
        out,
        f"{percent(used.share)} of {document.gpu_hours:,.0f} GPU-hours used, {period}",
        GOOD if (used.share or 0.0) > 0.8 else SO_SO,
    )
    cluster = document.cluster
    out.print(f"{cluster.source}: {cluster.nodes:,} nodes")

    def row(words: str, hours: Hours) -> tuple[str, str | None, str | None, str]:
        if hours.gpu_hours is None:
            return words, None, None, f"cannot be told: {hours.unknown}"
        return words, f"{hours.gpu_hours:,.1f}", percent(hours.share), ""

    headers = ("GPU-hours", "hours", "share", "")
    rows = [row(words, document.hours[name]) for name, words in HOURS.items()]
    print_rows(out, headers, rows, title="What became of all", left=("",))
    rows = [row(words, document.lost[name]) for name, words in LOST.items()]
    print_rows(out, headers, rows, title="Lost, of those used", left=("",))
    teams = [
        (team.team, f"{team.gpu_hours:,.1f}", percent(team.share), team.jobs,
         None if team.median_wait_seconds is None else duration(team.median_wait_seconds),
         *(None if value is None else f"{value:,.1f}" for value in (team.spread, team.slow, team.restarts)))
        for team in document.teams
    ]  # fmt: skip
    columns = ("team", "GPU-hours", "share", "runs", "median wait", "spread", "slow nodes", "restarts")
    frame.rows(columns, teams, title="Teams", left=())
    could = document.possible
    if could.gpu_hours is not None:
        used_then = f"{could.gpu_hours:,.1f} GPU-hours ({percent(could.share)}) used, had idle GPUs been whole nodes"
        frame.sentences("What could have been", [f"{used_then} for the jobs that waited"])
    known = f"what spread costs is known of {document.spread_known:,.1f} of {used.gpu_hours or 0.0:,.1f} GPU-hours used"
    frame.end([known, *document.notes], "")
