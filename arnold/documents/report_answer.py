"""The answer of ``arnold report``, as JSON, as text and in charts: what became of the GPU-hours of a cluster, by team,
and what the replay of the same jobs made of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, inf, isnan
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from arnold.console.output import GOOD, SO_SO, Console, print_rows
from arnold.documents.answer_frame import Frame
from arnold.documents.snapshot_answer import iso
from ground.quantities import DAY, Kind, duration, label_of, percent
from ground.records import Count, JsonRecord, NotNegative
from simulator.period_replay import PeriodReplay
from simulator.results import STEPS, bucket_length, edges_of, integrals
from simulator.sheet import Chart, Series
from simulator.usage_report import Run, Unknown, Usage
from topology.load import LoadedTopology
from topology.summary import ClusterSummary, summarise_cluster

if TYPE_CHECKING:
    from arnold.pages.charts import ChartCard

MOST_PIECES = 168  # Of a period over time: the hours of a week
MOST_TEAMS = 12  # That charts show; the table has all
MOST_TICKS = 9  # Days or hours below a chart

HOURS = {
    "used": "used by jobs",
    "unusable": "unusable: faulty, or kept out",
    "fragmented": "idle because of fragmentation: a job waits for whole nodes",
    "passed_over": "idle, though a job that waits would fit",
    "unwanted": "idle for neither of these reasons",
}
LOST = {
    "spread": "to spread: jobs over more domains than they need",
    "slow": "to slow nodes, which set the pace of their jobs",
    "restarts": "to runs that the system ended, at most: since their last checkpoints",
}


class Hours(JsonRecord):
    """GPU-hours."""

    gpu_hours: NotNegative | None
    """How many; null = it cannot be told."""
    share: NotNegative | None
    """Their share of all GPU-hours, of lost ones their share of those used; null = it cannot be told."""
    unknown: str | None
    """Why it cannot be told; null = it can."""


NOT_REPLAYED = Hours(None, None, "it is not replayed")


class TeamUsage(JsonRecord, kw_only=True):
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
    """Half of its runs that waited in the period waited less, those that wait yet until its end; null = none did."""
    spread: NotNegative | None
    """GPU-hours lost to spread, of the jobs whose grid is known."""
    slow: NotNegative | None
    """GPU-hours lost to slow nodes."""
    restarts: NotNegative | None
    """GPU-hours of runs that the system ended; of a replay null."""


class OverTime(JsonRecord):
    """Means over equal pieces of the period, the last of which may be shorter."""

    seconds: NotNegative
    """Length of a piece."""
    used: tuple[NotNegative, ...]
    """GPUs that jobs had."""
    waiting: tuple[NotNegative, ...] | None
    """GPUs that jobs waited for; null = it cannot be told."""


class PeriodUsage(JsonRecord, kw_only=True):
    """What became of the GPU-hours of a period."""

    hours: Mapping[str, Hours]
    """What became of them: used, unusable, fragmented, passed_over, unwanted; they add up to all."""
    lost: Mapping[str, Hours]
    """Parts of those used that did no work: spread, slow, restarts (at most; in no replay)."""
    teams: tuple[TeamUsage, ...]
    """Who used them, the most first."""
    over_time: OverTime
    """How many GPUs jobs had and waited for."""


class ReplayedPeriod(JsonRecord, kw_only=True):
    """What the same jobs make of the period in a replay by the queue policy, with placements of Arnold."""

    policy: str
    """The queue policy; none = nothing was replayed."""
    usage: PeriodUsage | None
    """What became of the GPU-hours; null = it cannot be told."""
    least_used: NotNegative | None
    """GPU-hours used but by jobs that started in the replay alone, of which nothing says how long they run."""
    unknown: str | None
    """Why it cannot be told; null = it can."""


class ReportDocument(PeriodUsage, kw_only=True):
    """What ``arnold report --json`` prints."""

    since: str
    """When the period begins, ISO 8601."""
    until: str
    """When it ends."""
    gpu_hours: NotNegative
    """GPU-hours of all nodes in the period."""
    spread_known: NotNegative
    """Of how many of those used it is known what spread costs."""
    possible: Hours
    """GPU-hours that could have been used, had idle GPUs been whole nodes for the jobs that waited."""
    replay: ReplayedPeriod
    """What could have been."""
    snapshots: Count
    """Snapshots that say which nodes there were."""
    cluster: ClusterSummary
    """The cluster as the last of them has it."""
    notes: tuple[str, ...]
    """What was assumed or left out, one sentence each."""


@dataclass(frozen=True, slots=True)
class Became:
    """Runs of a period, and what became of its GPU-hours by them."""

    runs: Sequence[Run]
    usage: Usage


def report_document(
    snapshots: Sequence[LoadedTopology],
    happened: Became,
    replay: tuple[PeriodReplay, Usage] | Unknown,
    *,
    policy: str,
    notes: Sequence[str],
) -> ReportDocument:
    """Return the document of a period, and of the ``replay`` of its jobs, or of why that cannot be told."""
    became, last = happened.usage, snapshots[-1]
    possible: float | str = became.fragmented if isinstance(became.fragmented, str) else became.used + became.fragmented
    if isinstance(replay, Unknown):
        could = ReplayedPeriod(policy=policy, usage=None, least_used=None, unknown=replay)
    else:
        again = Became(replay[0].runs, replay[1])
        usage, least = PeriodUsage(**_period(again, restarts=False)), max(0.0, replay[1].used - replay[0].unsure)
        could = ReplayedPeriod(policy=policy, usage=usage, least_used=least, unknown=None)
        notes = [*notes, *replay[0].notes]
    return ReportDocument(
        **_period(happened),
        since=iso(became.since) or "",
        until=iso(became.until) or "",
        gpu_hours=became.capacity,
        spread_known=became.spread_known,
        possible=_hours(possible, became.capacity),
        replay=could,
        snapshots=len(snapshots),
        cluster=summarise_cluster(last.cluster, last.source),
        notes=(*became.notes, *notes),
    )


def _hours(value: float | Unknown, of: float) -> Hours:
    if isinstance(value, str):
        return Hours(None, None, value)
    value = max(0.0, value)
    return Hours(value, value / of if of else None, None)


def _period(happened: Became, *, restarts: bool = True) -> dict[str, Any]:
    """Return the fields of :class:`PeriodUsage`; ``restarts``: whether it is known which runs the system ended."""
    became = happened.usage
    lost = {name: _hours(getattr(became, name), became.used) for name in LOST if restarts or name != "restarts"}

    def team_lost(name: str, value: float) -> float | None:
        return None if name not in lost or lost[name].gpu_hours is None else value

    length = became.until - became.since
    seconds = bucket_length(length, MOST_PIECES)
    edges = edges_of(length, seconds)
    ran = [run for run in happened.runs if run.start < became.until and run.end > became.since]
    # of one that was cancelled before it started it is not known how long it waited
    waited = [run for run in happened.runs if run.wait_from < became.until and (run.start < inf or run.end == inf)]

    waits_known = not any(isnan(run.wait_from) for run in happened.runs)

    def mean(spans: Sequence[tuple[float, float, float]]) -> tuple[float, ...]:
        begin, end, gpus = np.array(spans, dtype=np.float64).reshape(-1, 3).T
        begin, end = (np.clip(times - became.since, 0.0, length) for times in (begin, end))
        return tuple(np.maximum(0.0, integrals(edges, begin, end, gpus) / np.diff(edges)).tolist())

    return {
        "hours": {name: _hours(getattr(became, name), became.capacity) for name in HOURS},
        "lost": lost,
        "teams": tuple(
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
        "over_time": OverTime(
            seconds,
            mean([(run.start, run.end, run.gpus) for run in ran]),
            mean([(run.wait_from, max(run.wait_from, run.start), run.gpus) for run in waited]) if waits_known else None,
        ),
    }


def print_report(out: Console, document: ReportDocument) -> None:
    """Print what became of the GPU-hours, and beside it what could have."""
    used, replay = document.hours["used"], document.replay.usage
    period = " to ".join(time[:16].replace("T", " ") for time in (document.since, document.until)) + " UTC"
    then = ""
    if replay is not None and document.replay.least_used is not None and document.gpu_hours:
        most, least = replay.hours["used"].share or 0.0, document.replay.least_used / document.gpu_hours
        shares = dict.fromkeys((percent(least), percent(most)))
        then = f"; {' to '.join(shares)} in the replay"
    frame = Frame(
        out,
        f"{percent(used.share)} of {document.gpu_hours:,.0f} GPU-hours used{then}, {period}",
        GOOD if (used.share or 0.0) > 0.8 else SO_SO,
    )
    cluster = document.cluster
    out.print(f"{cluster.source}: {cluster.nodes:,} nodes")
    if replay is not None:
        out.print(
            f"replay: the same jobs by the policy {document.replay.policy}, placed by Arnold, at their own run times; "
            "partitions and quotas are not in it"
        )

    unknown = []

    def rows(
        names: Mapping[str, str], happened: Mapping[str, Hours], again: Mapping[str, Hours]
    ) -> Iterator[list[object]]:
        for name, words in names.items():
            was, then = happened[name], again.get(name, NOT_REPLAYED)
            if was.unknown is not None:
                unknown.append(f"{words}: {was.unknown}")
            share = None if was.share is None else percent(was.share)
            yield [words, _known(was.gpu_hours), share, *[_known(then.gpu_hours)] * (replay is not None)]

    headers = ("GPU-hours", "hours", "share", *["in the replay"] * (replay is not None))
    then_hours, then_lost = ({}, {}) if replay is None else (replay.hours, replay.lost)
    print_rows(out, headers, [*rows(HOURS, document.hours, then_hours)], title="What became of all")
    print_rows(out, headers, [*rows(LOST, document.lost, then_lost)], title="Lost, of those used")
    again = {} if replay is None else {team.team: team for team in replay.teams}
    teams = [
        (team.team, f"{team.gpu_hours:,.1f}", percent(team.share), team.jobs, _wait(team),
         *((f"{of.gpu_hours:,.1f}", _wait(of)) if (of := again.get(team.team)) else (None, None)) * bool(again),
         *map(_known, (team.spread, team.slow, team.restarts)))
        for team in document.teams
    ]  # fmt: skip
    replayed = ("replay: GPU-hours", "replay: wait") if again else ()
    columns = ("team", "GPU-hours", "share", "runs", "median wait", *replayed, "spread", "slow nodes", "restarts")
    frame.rows(columns, teams, title="Teams", left=())
    if document.replay.unknown is not None:
        unknown.append(f"what the jobs make of it in a replay: {document.replay.unknown}")
    frame.sentences("Cannot be told", unknown)
    could, sentences = document.possible, []
    if could.gpu_hours is not None:
        used_then = f"{could.gpu_hours:,.1f} GPU-hours ({percent(could.share)}) used, had idle GPUs been whole nodes"
        sentences.append(f"{used_then} for the jobs that waited")
    frame.sentences("What could have been", sentences)
    known = f"what spread costs is known of {document.spread_known:,.1f} of {used.gpu_hours or 0.0:,.1f} GPU-hours used"
    frame.end([known, *document.notes], "")


def _known(hours: float | None) -> str | None:
    return None if hours is None else f"{hours:,.1f}"


def _wait(team: TeamUsage) -> str | None:
    return None if team.median_wait_seconds is None else duration(team.median_wait_seconds)


def report_charts(document: ReportDocument) -> Iterator[ChartCard]:
    """Yield what became of the GPU-hours, by team and over time, as charts, the replay beside it."""
    from arnold.pages.charts import ChartCard, ChartRow, card_of, row_chart

    replay = document.replay.usage

    def compared(title: str, rows: Iterable[tuple[str, float | None, float | None]], kind: Kind) -> Iterator[ChartCard]:
        drawn = []
        for name, was, again in rows:
            if was is not None:
                dot, tip = was, f"{name}\n{label_of(was, kind)}"
                if again is not None:
                    dot, tip = again, f"{tip}\n{label_of(again, kind)} in the replay"
                tone = "l0" if again is None else "l1"
                stem = (min(was, dot), max(was, dot))
                drawn.append(ChartRow(name, "l0", dot, stem, tip, bar=(0.0, was), dot_tone=tone))
        if drawn:
            note = "Bar: what happened." if replay is None else "Bar: what happened. Dot: the replay."
            yield ChartCard(title, note, row_chart(drawn, name="range", title=title, kind=kind))

    def both(names: Mapping[str, str], key: str) -> Iterator[tuple[str, float | None, float | None]]:
        happened = getattr(document, key)
        again = {} if replay is None else getattr(replay, key)
        for name, words in names.items():
            yield words, happened[name].gpu_hours, again[name].gpu_hours if name in again else None

    yield from compared("What became of all GPU-hours", both(HOURS, "hours"), "count")
    yield from compared("GPU-hours lost, of those used", both(LOST, "lost"), "count")
    then = {} if replay is None else {team.team: team for team in replay.teams}
    for title, key, kind in (
        ("GPU-hours by team", "gpu_hours", "count"),
        ("Median wait by team", "median_wait_seconds", "seconds"),
    ):
        rows = [
            (team.team, getattr(team, key), getattr(then.get(team.team), key, None))
            for team in document.teams[:MOST_TEAMS]
        ]
        yield from compared(title, rows, cast("Kind", kind))
    begin = datetime.fromisoformat(document.since)
    length = (datetime.fromisoformat(document.until) - begin).total_seconds()
    step = next((step for step in STEPS if length / step < MOST_TICKS), STEPS[-1])
    first = -begin.timestamp() % step
    ticks = [first + i * step for i in range(ceil((length - first) / step))]
    form = "%H:%M" if step < DAY else "%d %b"
    words = [(tick, f"{begin + timedelta(seconds=tick):{form}}") for tick in ticks]
    for title, key in (("GPUs that jobs had", "used"), ("GPUs that jobs waited for", "waiting")):
        series = []
        for name, usage in (("what happened", document), ("the replay", replay)):
            if usage is not None and (means := getattr(usage.over_time, key)):
                places = [min(i * usage.over_time.seconds, length) for i in range(len(means) + 1)]
                series.append(Series(name, [*zip(places, (*means, means[-1]), strict=True)], shape="step"))
        if series:
            yield card_of(Chart(title, "", "", series, floor=0.0, ticks=words))
