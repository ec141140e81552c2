"""``arnold health peers`` and ``order``: machines compared by recorded metrics, and the order of metrics learnt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from arnold.commands.command import JsonCommand
from arnold.commands.field_options import FILE, finite
from arnold.commands.flag_file import write_flags
from arnold.commands.health_options import POSITIVE, detector_options, machines_of, settings_of
from arnold.commands.output import console, emit_json, progress, table

if TYPE_CHECKING:
    from arnold.documents.peers_answers import PeersDocument

PEERS_EXAMPLES = """\b
Examples:
  arnold health peers metrics.parquet
  arnold health peers metrics.csv --nodes 'n[0001-0128]' --flags-out flags.json
  arnold health peers job_1_norm.csv --machine-column worker --metric-column none --value-column batch_time_norm
  curl -s "$URL/api/v1/query_range?..." | arnold health peers - --json
"""

ORDER_EXAMPLES = """\b
Examples:
  arnold health order metrics.parquet --fault 1200:1740 --fault 5300:5900
  arnold health peers new.parquet --order pfc_tx_packet_rate,cpu_usage
"""


@click.command("peers", cls=JsonCommand, document="arnold.documents.peers_answers:PeersDocument", epilog=PEERS_EXAMPLES)
@click.argument("file", type=FILE)
@detector_options
@click.option("--step", type=POSITIVE, callback=finite, help="Seconds between samples  [default: as sampled]")
@click.option("--all-metrics", is_flag=True, help="Go on after the first alert.")
@click.option("--lenient", is_flag=True, help="Leave out rows that cannot be used, and say how many.")
@click.option("--time-column", default="time", show_default=True, metavar="NAME", help="Seconds, ms or dates.")
@click.option("--machine-column", default="machine", show_default=True, metavar="NAME", help="Which machine.")
@click.option("--metric-column", default="metric", show_default=True, metavar="NAME", help="none = one metric only.")
@click.option("--value-column", default="value", show_default=True, metavar="NAME", help="What was measured.")
def peers(
    *,
    as_json: bool,
    file: str,
    nodes: str | None,
    flags_out: str | None,
    all_metrics: bool,
    lenient: bool,
    time_column: str,
    machine_column: str,
    metric_column: str,
    value_column: str,
    **decide: Any,
) -> None:
    """Compare a job's machines with each other by their recorded metrics, after Minder.

    FILE is Parquet or CSV with a sample a row (time, machine, metric, value), or the JSON answer of a Prometheus range
    query; - is standard input. A machine whose metric stays far from its peers' for minutes is flagged.
    """
    from arnold.documents.peers_answers import peers_document
    from health.peers import SampleColumns, detect, judge, load_recording

    settings = settings_of(**decide)
    columns = SampleColumns(
        time_column, machine_column, None if metric_column == "none" else metric_column, value_column
    )
    with progress("Comparing machines") as say:
        recording = load_recording(file, columns=columns, machines=machines_of(nodes), lenient=lenient)
        examined = []
        for one in detect(recording, settings, everything=all_metrics):
            say(one.metric)
            examined.append(one)
    verdict = judge(recording, examined)
    document = peers_document(verdict, recording.source)
    if flags_out is not None:
        write_flags(flags_out, document.flags)
    if as_json:
        emit_json(document)
    else:
        _print(document)


@click.command("order", cls=JsonCommand, document="health.peers.metric_order:LearntOrder", epilog=ORDER_EXAMPLES)
@click.argument("file", type=FILE)
@click.option("--fault", "faults", multiple=True, required=True, metavar="FROM:TO", help="When something was wrong, s.")
@click.option("--lenient", is_flag=True, help="Leave out rows that cannot be used, and say how many.")
def order(*, as_json: bool, file: str, faults: tuple[str, ...], lenient: bool) -> None:
    """Learn from known faults which metric to ask first: a decision tree on how far the farthest machine is.

    FILE is as for `arnold health peers`; --fault says when something was wrong in it, in seconds on its clock. Needs
    scikit-learn: pip install 'arnold-scheduler[learn]'.
    """
    from health.peers import load_recording
    from health.peers.metric_order import Labelled, learn_order

    learnt = learn_order([Labelled(load_recording(file, lenient=lenient), [_interval(text) for text in faults])])
    if as_json:
        emit_json(learnt)
    else:
        click.echo(",".join(learnt.order))


def _interval(text: str) -> tuple[float, float]:
    begin, _, end = text.partition(":")
    try:
        start, stop = float(begin), float(end)
    except ValueError:
        start, stop = 1.0, 0.0
    if not start < stop:
        raise click.BadParameter(f"{text[:40]!r} is not FROM:TO in seconds, such as 1200:1740.", param_hint="--fault")
    return start, stop


def _print(document: PeersDocument) -> None:
    out = console()
    out.print(document.verdict, style="bold red" if document.flags else "bold green", soft_wrap=True)
    rows = table("metric", "machines", "every", "stood out longest", "for", "of", "score", title="Metrics, as asked")
    for one in document.metrics:
        longest = one.stretches[0] if one.stretches else None
        shown = (longest.machine, f"{longest.end - longest.start:.0f} s") if longest else ("-", "-")
        score = f"{longest.score:.1f}" if longest else "-"
        rows.add_row(one.metric, str(one.machines), f"{one.step:g} s", *shown, f"{one.needed:.0f} s", score)
    out.print()
    out.print(rows)
    for note in document.notes:
        out.print(f"Note: {note}", soft_wrap=True)
