"""``arnold health peers`` and ``watch``: machines compared by their metrics, recorded, or from a running Prometheus."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import click
from annotated_types import Gt, Interval

from arnold.console.output import answer, as_written, print_rows, progress, save_flags
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE, file_option, options_of, takes
from arnold.options.shared_options import STORE_HELP, flags_out_option, html_option, lenient_option, yes_option
from ground.errors import InvalidInput
from ground.files import read_source
from health.peers.sample_sources import DEFAULT_QUERIES, MACHINE_LABELS, SampleColumns, WatchPlan

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import Console

    from arnold.documents.store_answers import RecordDocument
    from health.peers.comparison import ComparisonSettings
    from health.peers.verdict import PeersVerdict
    from health.peers.watch import WatchRound
    from topology.flags import NodeFlag


F = TypeVar("F", bound=Callable[..., Any])


def positive_option(name: str, help: str, **settings: Any) -> Callable[[F], F]:
    """Return an option of a positive, finite number."""
    return click.option(name, type=click.FloatRange(min=0, min_open=True), help=help, **settings)


@dataclass(frozen=True, kw_only=True)
class DetectorOptions:
    """What decides whether a machine stands out; what is not said is as in :class:`ComparisonSettings`."""

    threshold: Annotated[float | None, Gt(0)] = field(default=None, metadata={"metavar": "SCORE", "default": "7"})
    """Score from which on a machine or a part of it stands out: times the spread of its peers."""
    continuity: Annotated[float | None, Gt(0)] = field(
        default=None, metadata={"metavar": "SECONDS", "default": "240, of step times 60"}
    )
    """Seconds for which a machine must stand out."""
    window: Annotated[int | None, Interval(ge=2, le=1000)] = field(
        default=None, metadata={"option": "--window-samples", "default": "8"}
    )
    """Samples in a window."""
    only: str | None = field(default=None, metadata={"metavar": "NODE,..", "default": "all"})
    """Nodes to compare: names or Slurm hostlists."""

    def settings(self, *, step: float | None) -> ComparisonSettings:
        """Return the settings of a comparison, ``step`` the seconds between samples."""
        from health.peers.comparison import ComparisonSettings

        options = {
            "threshold": self.threshold,
            "continuity": self.continuity,
            "step_time_continuity": self.continuity,
            "window": self.window,
            "step": step,
        }
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        return ComparisonSettings(**given)

    @property
    def machines(self) -> list[str] | None:
        """Names of the nodes to compare, ``None`` = all; InvalidInput: not a hostlist."""
        from topology.node_names import expand_hostlist

        return None if self.only is None else expand_hostlist(self.only, where="--only")


PEERS_EXAMPLES = """\b
Examples:
  arnold health peers metrics.parquet
  arnold health peers metrics.csv --only 'n[0001-0128]' --flags-out flags.json
  arnold health peers job_1_norm.csv --machine-column worker --metric-column none --value-column batch_time_norm
  curl -s "$URL/api/v1/query_range?..." | arnold health peers - --json
  arnold health peers smi/*.csv
"""


@click.command("peers", cls=JsonCommand, document="health.peers.verdict:PeersVerdict", epilog=PEERS_EXAMPLES)
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option("--format", metavar="NAME", help="Format of the input.  [default: recognised by content]")
@options_of(DetectorOptions)
@flags_out_option
@yes_option
@positive_option("--sample-interval", "Seconds between samples.  [default: as sampled]", metavar="SECONDS")
@lenient_option
@options_of(SampleColumns)
@html_option
@takes(columns=SampleColumns, detector=DetectorOptions)
def peers(
    *,
    as_json: bool,
    html: str | None,
    files: tuple[str, ...],
    format: str | None,
    flags_out: str | None,
    yes: bool,
    sample_interval: float | None,
    lenient: bool,
    columns: SampleColumns,
    detector: DetectorOptions,
) -> None:
    """Compare a job's machines, GPUs and ports with each other by their recorded metrics.

    FILEs are Parquet or CSV with a sample a row (time, machine, metric, value) or a column a machine, CSV of nvidia-smi
    (a file a host), JSON answers of Prometheus, or the text of an exporter; - is standard input. A machine that stays
    far from its peers for minutes, or a GPU or NIC of it, is flagged; one moment is shown and not judged.
    """
    from health.peers.comparison import at_moment, detect, is_moment
    from health.peers.recording_files import load_recordings
    from health.peers.verdict import judge

    columns = replace(columns, metric=None) if columns.metric == "none" else columns
    settings = detector.settings(step=sample_interval)
    with progress("Comparing machines") as say:
        recording = load_recordings(files, columns=columns, format=format, machines=detector.machines, lenient=lenient)
        moment = is_moment(recording)
        examined = []
        for metric in () if moment else detect(recording, settings):
            say(metric.metric)
            examined.append(metric)
    verdict = at_moment(recording) if moment else judge(recording, examined)
    save_flags(verdict.flags, flags_out, of=None if yes else verdict.machines)
    answer(verdict, partial(print_verdict, window=settings.window), as_json=as_json, html=html)


def print_verdict(out: Console, verdict: PeersVerdict, *, window: int) -> None:
    """Print the verdict, and of each metric which machine stood out longest, as an alert counts it.

    :param window: samples of a window.
    """
    from health.peers.comparison import counted_seconds

    out.print(verdict.verdict, style="bold red" if verdict.flags else "bold green", soft_wrap=True)
    headers = ("metric", "machines", "sampled", "stood out longest", "for", "alert after", "score")
    rows = []
    for metric in verdict.metrics:
        longest = metric.stretches[0] if metric.stretches else None
        shown, score = ("-", "-"), "-"
        if longest:
            shown = (
                f"{longest.machine} {longest.part}".rstrip(),
                f"{counted_seconds(longest, step=metric.step, window=window):.0f} s",
            )
            score = f"{longest.score:.1f}"
        rows.append(
            (metric.metric, metric.machines, f"every {metric.step:g} s", *shown, f"{metric.needed:.0f} s", score)
        )
    if any(metric.step for metric in verdict.metrics):
        print_rows(out, headers, rows, title="Metrics", left=["stood out longest"])
    for note in verdict.notes:
        out.print(f"Note: {note}", soft_wrap=True)


WATCH_EXAMPLES = """\b
Examples:
  arnold health watch --prometheus http://prometheus:9090 --only 'n[0001-0128]' --flags-out flags.json
  arnold health watch --prometheus $URL --query 'pfc_tx_packet_rate=sum by (node) (rate(tx_prio3_pause[30s]))' --json
  arnold health watch --prometheus $URL --only 'n[0001-0128]' --store flags.db
  arnold health watch --prometheus $URL --once --json
"""


@click.command("watch", cls=JsonCommand, document="arnold.documents.store_answers:WatchDocument", epilog=WATCH_EXAMPLES)
@click.option("--prometheus", required=True, metavar="URL", help="Address of the Prometheus server, without /api/v1.")
@click.option(
    "--query",
    "queries",
    multiple=True,
    metavar="METRIC=PROMQL",
    help="Metric and the query that gives it.  [default: the names of known exporters]",
)
@click.option(
    "--machine-label", metavar="LABEL", help="Label that names the machine.  [default: node, Hostname, .., instance]"
)
@file_option("--token-file", help="File with the bearer token for the server.")
@options_of(WatchPlan)
@positive_option("--timeout", "Seconds to wait for an answer.", metavar="SECONDS", default=10.0, show_default=True)
@file_option("--store", help=STORE_HELP)
@click.option("--once", is_flag=True, help="Make one round and end; exit 2 where nothing could be judged.")
@options_of(DetectorOptions)
@flags_out_option
@yes_option
@takes(detector=DetectorOptions, plan=WatchPlan)
def watch(
    *,
    as_json: bool,
    prometheus: str,
    queries: tuple[str, ...],
    machine_label: str | None,
    token_file: str | None,
    timeout: float,
    store: str | None,
    once: bool,
    flags_out: str | None,
    yes: bool,
    detector: DetectorOptions,
    plan: WatchPlan,
) -> None:
    """Compare a job's machines again and again by what a Prometheus server has of them, until SIGTERM.

    With --json, each round is one JSON document on one line. A server that is away is asked again, sooner than usual;
    meanwhile no node is flagged or cleared, nor in a round that finds too many faulty (--yes). --flags-out is rewritten
    after each round that could be judged; with --store the rules of the flag store decide when a flag begins and ends,
    not --hold-hours.
    """
    import json
    import sys
    from datetime import UTC, datetime
    from threading import Event

    from arnold.documents.store_answers import watch_document
    from ground.records import json_data
    from health.peers.metrics import canonical
    from health.peers.watch import Endpoint
    from health.peers.watch import watch as rounds

    token = ""
    if token_file is not None:
        token = read_source(token_file, max_bytes=65_536).text.strip()
        if not token.isascii() or not token.isprintable() or " " in token:
            fix = "give a file that holds the token alone"
            raise InvalidInput("is not a token: one word is wanted", where=token_file, fix=fix)
    endpoint = Endpoint(prometheus, token=token, timeout=timeout)
    query_of: dict[str, str] = {}
    for text in queries:
        name, equals, query = text.partition("=")
        if not equals or not canonical(name) or not query.strip():
            raise click.BadParameter(f"{text[:60]!r} is not METRIC=PROMQL.", param_hint="--query")
        query_of[canonical(name)] = query.strip()
    plan = replace(
        plan,
        queries=query_of or DEFAULT_QUERIES,
        labels=(machine_label,) if machine_label else MACHINE_LABELS,
        machines=detector.machines,
    )
    settings = detector.settings(step=plan.step)
    if store is not None:
        # A store that cannot be written to is told of before anything is asked.
        _record(store, (), now=datetime.now(UTC))
    stop = Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        for seen in rounds(endpoint, plan, settings, stop=stop):
            made = seen if yes else within_share(seen)
            if made.error is not None and once:
                raise made.error
            recorded = None
            if store is not None and made.verdict is not None:
                recorded = _record(store, made.verdict.flags, now=made.at)
            document = watch_document(made, recorded)
            if made.verdict is not None:
                save_flags(document.flags, flags_out)
            if as_json:
                click.echo(json.dumps(as_written(json_data(type(document), document)), allow_nan=False))
            else:
                click.echo(document.line)
            sys.stdout.flush()
            if once:
                return
    finally:
        signal.signal(signal.SIGTERM, before)


def within_share(made: WatchRound) -> WatchRound:
    """Return a round, or where its flags would take out too many of its machines one that judged nothing."""
    from topology.flag_sources import Breaker

    if made.verdict is None:
        return made
    try:
        Breaker(made.verdict.machines).check(made.flags, where="arnold health watch")
    except InvalidInput as error:
        return replace(made, verdict=None, error=error, flags=())
    return made


def _record(store: str, flags: Iterable[NodeFlag], *, now: datetime) -> RecordDocument:
    """Return what a round found, as findings of a flag store.

    The rules of the store say how long they hold, also where the episode is over: it is evidence about the node. A
    machine that does not stand out gets no all-clear: a node that is avoided shows no symptoms.
    """
    from arnold.commands.flags import changed

    findings = [replace(flag, until=None) for flag in flags]
    return changed(store, lambda ledger: ledger.record(findings, now=now), now=now)
