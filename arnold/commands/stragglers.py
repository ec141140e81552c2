"""``arnold stragglers``: what a job loses to stragglers, why, and which nodes are to blame."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arnold.console.output import answer, progress, save_flags
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE, file_option
from arnold.options.shared_options import flags_out_option, html_option, lenient_option
from ground.errors import InvalidInput
from ground.files import read_source, write_file
from ground.quantities import capitalised

if TYPE_CHECKING:
    from datetime import datetime

    from arnold.documents.straggler_answers import StragglersDocument
    from health.whatif import Analysis, Replayed
    from health.whatif.worker_nodes import Nodes

EXAMPLES = """\b
Examples:
  arnold stragglers trace.parquet --meta meta.yaml
  arnold stragglers trace.parquet --meta meta.yaml --node-map workers.csv --flags-out flags.json
  arnold place --cluster cluster.csv --job job.yaml --flags flags.json
  arnold stragglers trace.parquet --meta meta.yaml --html report.html --chrome-trace steps.json.gz
"""


@click.command(
    "stragglers", cls=JsonCommand, document="arnold.documents.straggler_answers:StragglersDocument", epilog=EXAMPLES
)
@click.argument("trace", type=FILE)
@file_option(
    "--meta", help="Degrees of parallelism, YAML: dp_size, pp_size, tp_size.  [default: those that the trace shows]"
)
@lenient_option
@file_option("--node-map", help="Node of each worker: a CSV of dp,stage,node, or what `arnold place` saved.")
@flags_out_option
@click.option(
    "--ended",
    metavar="TIME",
    help="Time when the last traced step ended, from which on flags hold.  [default: not said]",
)
@html_option
@file_option(
    "--chrome-trace", written=True, help="Write a Chrome trace for Perfetto, packed where the name ends in .gz."
)
def command(
    *,
    as_json: bool,
    trace: str,
    meta: str | None,
    lenient: bool,
    node_map: str | None,
    flags_out: str | None,
    ended: str | None,
    html: str | None,
    chrome_trace: str | None,
) -> None:
    """Say what a job loses to stragglers, why, and which nodes are to blame.

    TRACE is a Parquet file of operations (docs: whatif.md); - is stdin. The job is replayed with traced and with
    ideal durations. Nodes are flagged only where slow workers are the cause, each with its own factor.
    """
    if flags_out is not None and node_map is None:
        raise InvalidInput(
            "no node can be flagged: which worker ran on which node is not known",
            where="--flags-out",
            fix="add --node-map FILE: a CSV with dp,stage,node or the JSON of `arnold place`",
        )
    from arnold.options.shared_options import parse_time
    from arnold.texts.stragglers_text import print_stragglers

    end = None if ended is None else parse_time(ended, option="--ended")[1]
    document = _analyse(trace, node_map, ended=end, meta=meta, lenient=lenient, html=html, chrome_trace=chrome_trace)
    save_flags(document.flags, flags_out)
    answer(document, print_stragglers, as_json=as_json)


def _analyse(
    file: str,
    nodes: str | None,
    *,
    ended: datetime | None,
    meta: str | None,
    lenient: bool,
    html: str | None,
    chrome_trace: str | None,
) -> StragglersDocument:
    from arnold.documents.straggler_answers import stragglers_document
    from health import whatif
    from health.whatif.conversion import heed, read_statement

    with progress("Reading the trace", total=None) as say:
        sizes = None if meta is None else whatif.read_metadata(read_source(meta))
        statement = read_statement(file)
        trace = whatif.read_trace(
            file, sizes=sizes, lenient=lenient, partial=statement is not None and bool(statement.absent)
        )
        at: Nodes = {}
        if nodes is not None:
            ranks = max(trace.sizes.dp, trace.dp_ranks[-1] + 1)
            at = whatif.read_nodes(read_source(nodes), dp=ranks, pp=trace.sizes.pp)
        say("replaying")
        replayed = whatif.prepare(trace, lenient=lenient)
        analysis, of_source = heed(whatif.analyse(replayed), statement)
    workers = whatif.slow_workers(replayed, analysis, at)
    notes = [*whatif.notes_on(replayed, analysis), *of_source]
    document = stragglers_document(
        analysis,
        source=trace.source,
        statement=statement,
        help=whatif.help_for(replayed, analysis, workers),
        slow_workers=workers,
        flags=whatif.flags_of(workers, analysis, ended=ended),
        dropped=replayed.trace.dropped,
        notes=notes,
        nodes=at,
    )
    if html is not None:
        _write_page(html, replayed, analysis, document, at)
    if chrome_trace is not None:
        document = replace(document, notes=(*notes, *_write_chrome_trace(chrome_trace, replayed, analysis)))
    return document


def _write_page(file: str, replayed: Replayed, analysis: Analysis, document: StragglersDocument, at: Nodes) -> None:
    """Write the page of an analysis."""
    from arnold.pages.stragglers import slowest_step, straggler_page
    from health.whatif import timelines_of

    page = straggler_page(
        analysis,
        timelines_of(replayed, [slowest_step(analysis)]),
        title=Path(document.source).name,
        verdict=[capitalised(document.verdict), *document.help],
        workers=document.slow_workers,
        nodes=at,
        flags=document.flags,
        notes=document.notes,
    )
    write_file(file, page)


def _write_chrome_trace(file: str, replayed: Replayed, analysis: Analysis) -> list[str]:
    """Write the trace for Perfetto, gzip if the name ends so; says which steps did not fit."""
    from health.whatif import timelines_of
    from health.whatif.replay import chrome_trace, steps_to_export

    steps = steps_to_export(analysis, len(replayed.trace.operations))
    timelines = timelines_of(replayed, steps)
    write_file(file, chrome_trace(timelines, analysis.dp_ranks, packed=file.endswith(".gz")))
    if len(steps) == len(analysis.steps):
        return []
    return [f"{file} has the {len(steps)} slowest of {len(analysis.steps)} steps: a viewer opens no more."]
