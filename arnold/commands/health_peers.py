"""``arnold health peers`` and ``watch``: machines compared by their metrics, recorded, or from a running Prometheus."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from arnold.console.interrupts import stopped_by
from arnold.console.output import answer, as_written, note, print_rows, prints_json, progress, save_flags
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE, file_option, options_of
from arnold.options.peers_options import DetectorOptions, asks_prometheus, positive_option
from arnold.options.shared_options import STORE_HELP, flags_out_option, html_option, lenient_option, yes_option
from ground.errors import InvalidInput
from ground.records import json_data
from health.peers.sample_sources import SampleColumns, WatchPlan

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.documents.kubernetes_answers import GangsWatchedDocument
    from arnold.documents.store_answers import WatchDocument
    from arnold.pages.charts import ChartCard
    from health.peers.comparison import ComparisonSettings
    from health.peers.verdict import PeersVerdict
    from health.peers.watch import Endpoint, WatchRound


@click.command("peers", cls=JsonCommand, document="health.peers.verdict:PeersVerdict")
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option("--format", metavar="NAME", help="Format of the input.  [default: recognised by content]")
@options_of(DetectorOptions, to="detector")
@flags_out_option
@yes_option
@positive_option("--sample-interval", "Seconds between samples.  [default: as sampled]", metavar="SECONDS")
@lenient_option
@options_of(SampleColumns, to="columns")
@html_option
def peers(
    *,
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

    $ arnold health peers metrics.parquet
    $ arnold health peers metrics.csv --only 'n[0001-0128]' --flags-out flags.json
    $ arnold health peers job_1_norm.csv --machine-column worker --metric-column none --value-column batch_time_norm
    $ curl -s "$URL/api/v1/query_range?..." | arnold health peers - --json
    $ arnold health peers smi/*.csv
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

    def curves(found: PeersVerdict) -> Iterable[ChartCard]:
        from arnold.pages.peers_page import convicting_curves  # a page alone waits for charts

        return convicting_curves(found, recording)

    answer(verdict, partial(print_verdict, window=settings.window), charts=curves)


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
    for remark in verdict.notes:
        out.print(f"Note: {remark}", soft_wrap=True)


@click.command("watch", cls=JsonCommand, document="arnold.documents.store_answers:WatchDocument")
@asks_prometheus
@options_of(WatchPlan, only=("hold_hours",))
@file_option("--store", help=STORE_HELP)
@click.option("--once", is_flag=True, help="Make one round and end; exit 2 where nothing could be judged.")
@flags_out_option
@yes_option
def watch(
    *,
    endpoint: Endpoint,
    plan: WatchPlan,
    settings: ComparisonSettings,
    store: str | None,
    once: bool,
    flags_out: str | None,
    yes: bool,
) -> None:
    """Compare a job's machines again and again by what a Prometheus server has of them, until SIGTERM.

    With --json, each round is one JSON document on one line. A server that is away is asked again, sooner than usual;
    meanwhile no node is flagged or cleared, nor in a round that finds too many faulty (--yes). --flags-out is rewritten
    after each round that could be judged; with --store the rules of the flag store decide when a flag begins and ends,
    not --hold-hours.

    $ arnold health watch --prometheus http://prometheus:9090 --only 'n[0001-0128]' --flags-out flags.json
    $ arnold health watch --prometheus $URL --query 'pfc_tx_packet_rate=sum by (node)(rate(tx_prio3_pause[30s]))' --json
    $ arnold health watch --prometheus $URL --only 'n[0001-0128]' --store flags.db
    $ arnold health watch --prometheus $URL --once --json
    """
    from arnold.documents.store_answers import record_findings, watch_document
    from health.peers.watch import watch as rounds

    if store is not None:
        # A store that cannot be written to is told of before anything is asked.
        record_findings(store, (), now=datetime.now(UTC))
    told = set[str]()
    with stopped_by(signal.SIGTERM) as stop:
        for seen in rounds(endpoint, plan, settings, stop=stop):
            made = seen if yes else within_share(seen)
            if made.error is not None and once:
                raise made.error
            recorded = None
            if store is not None and made.verdict is not None:
                recorded = record_findings(store, made.verdict.flags, now=made.at)
            document = watch_document(made, recorded)
            if made.verdict is not None:
                save_flags(document.flags, flags_out)
            tell_round(document, told)
            if once:
                return


def tell_round(document: WatchDocument | GangsWatchedDocument, told: set[str]) -> None:
    """Print a round on one line, as JSON or for a person; for a person each note once, whatever its numbers are then.

    :param told: the notes of earlier rounds, without numbers; those of this one are added.
    """
    data = as_written(json_data(type(document), document)) if prints_json() else None
    for remark in () if prints_json() else document.remarks:
        if (kind := re.sub(r"[\d.,]+", "#", remark)) not in told:
            told.add(kind)
            note(f"Note: {remark}")
    click.echo(document.line if data is None else json.dumps(data, allow_nan=False))
    sys.stdout.flush()


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
