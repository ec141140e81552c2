"""``arnold stragglers`` and ``health op-trace``: what a job loses to stragglers, and traces of it from other tools."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arnold.console.output import answer, progress, save_flags
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE, ResultFile, file_option
from arnold.options.shared_options import (
    SAVE_HELP,
    align_clocks_option,
    flags_out_option,
    lenient_option,
    own_page_option,
    parse_time,
)
from ground.errors import InvalidInput
from ground.files import read_source, write_file
from ground.quantities import capitalised

if TYPE_CHECKING:
    from health.whatif.worker_nodes import Nodes


@click.command("stragglers", cls=JsonCommand, document="arnold.documents.straggler_answers:StragglersDocument")
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
@align_clocks_option
@own_page_option
@file_option(
    "--chrome-trace", written=True, help="Write a Chrome trace for Perfetto, packed where the name ends in .gz."
)
def command(
    *,
    trace: str,
    meta: str | None,
    lenient: bool,
    node_map: str | None,
    flags_out: str | None,
    ended: str | None,
    align_clocks: bool,
    html: str | None,
    chrome_trace: str | None,
) -> None:
    """Say what a job loses to stragglers, why, and which nodes are to blame.

    TRACE is a Parquet file of operations (docs: whatif.md); - is stdin. The job is replayed with traced and with
    ideal durations. Nodes are flagged only where slow workers are the cause, each with its own factor.

    $ arnold stragglers trace.parquet --meta meta.yaml
    $ arnold stragglers trace.parquet --meta meta.yaml --node-map workers.csv --flags-out flags.json
    $ arnold place --cluster cluster.csv --job job.yaml --flags flags.json
    $ arnold stragglers trace.parquet --meta meta.yaml --html report.html --chrome-trace steps.json.gz
    """
    if flags_out is not None and node_map is None:
        problem = "no node can be flagged: which worker ran on which node is not known"
        fix = "add --node-map FILE: a CSV with dp,stage,node or the JSON of `arnold place`"
        raise InvalidInput(problem, where="--flags-out", fix=fix)
    from arnold.documents.straggler_answers import print_stragglers, stragglers_document
    from health import whatif
    from health.whatif.conversion import heed, read_statement, whole_step

    end = None if ended is None else parse_time(ended, option="--ended")[1]
    with progress("Reading the trace", total=None) as say:
        sizes = None if meta is None else whatif.read_metadata(read_source(meta))
        statement = read_statement(trace)
        partial = statement is not None and bool(statement.absent)
        traced = whatif.read_trace(trace, sizes=sizes, lenient=lenient, partial=partial)
        nodes: Nodes = {}
        if node_map is not None:
            ranks = max(traced.sizes.dp, traced.dp_ranks[-1] + 1)
            nodes = whatif.read_nodes(read_source(node_map), dp=ranks, pp=traced.sizes.pp)
        say("replaying")
        replayed = whatif.prepare(traced, lenient=lenient, align=align_clocks)
        analysis, of_source = heed(whatif.analyse(replayed), statement)
    workers = whatif.slow_workers(replayed, analysis, nodes)
    notes = [*whatif.notes_on(replayed, analysis), *of_source]
    document = stragglers_document(
        analysis,
        source=traced.source,
        statement=statement,
        help=whatif.help_for(replayed, analysis, workers),
        slow_workers=workers,
        flags=whatif.flags_of(workers, analysis, ended=end),
        dropped=replayed.trace.dropped,
        notes=notes,
        nodes=nodes,
    )
    if html is not None:
        from arnold.pages.straggler_page import slowest_step, straggler_page

        page = straggler_page(
            analysis,
            whatif.timelines_of(replayed, [slowest_step(analysis)]),
            title=Path(document.source).name,
            verdict=[capitalised(document.verdict), *document.help],
            workers=document.slow_workers,
            nodes=nodes,
            flags=document.flags,
            notes=document.notes,
            whole=whole_step(analysis.traced_step_seconds, document.breakdown),
        )
        write_file(html, page)
    if chrome_trace is not None:
        from health.whatif import replay

        steps = replay.steps_to_export(analysis, len(replayed.trace.operations))
        timelines = whatif.timelines_of(replayed, steps)
        packed = chrome_trace.endswith(".gz")
        write_file(chrome_trace, replay.chrome_trace(timelines, analysis.dp_ranks, packed=packed))
        if len(steps) < len(analysis.steps):
            some = (
                f"{chrome_trace} has the {len(steps)} slowest of {len(analysis.steps)} steps: a viewer opens no more."
            )
            document = replace(document, notes=(*notes, some))
    save_flags(document.flags, flags_out)
    answer(document, print_stragglers)


TRACE = ResultFile("trace.parquet", "meta.yaml", "conversion.json")


@click.command("op-trace", cls=JsonCommand, document="arnold.documents.straggler_answers:OpTraceDocument")
@click.argument("files", nargs=-1, required=True, type=FILE)
@file_option(
    "--meta", help="Degrees of parallelism, YAML: dp_size, pp_size, tp_size.  [default: those that the files say]"
)
@click.option("--save", required=True, type=TRACE, metavar="FOLDER", help=SAVE_HELP)
@click.option(
    "--from",
    "source",
    metavar="NAME",
    help="Format of the input, as `arnold formats op-traces` lists them.  [default: told by the first file]",
)
@click.option(
    "--microbatches", type=click.IntRange(1, 1 << 16), help="Microbatches of a step, where a log does not say it."
)
@align_clocks_option
def op_trace(
    *,
    files: tuple[str, ...],
    meta: str | None,
    save: str,
    source: str | None,
    microbatches: int | None,
    align_clocks: bool,
) -> None:
    """Convert PyTorch (Kineto) Chrome traces or a Megatron-LM log of timers.

    FILES are the profiler's JSON files, plain or gzip, one a rank: of a job with a pipeline one for each worker, with
    --meta; of any other as many as there are. Or a log with `--timing-log-level 2 --timing-log-option all`. What cannot
    be recovered is listed with what that disables.

    $ arnold health op-trace torch_profile/rank-*.json.gz --save trace/
    $ arnold health op-trace torch_profile/rank-*.json.gz --meta meta.yaml --save trace/
    $ arnold health op-trace train.log --meta meta.yaml --microbatches 32 --save trace/
    $ arnold stragglers trace/trace.parquet --meta trace/meta.yaml
    """
    from arnold.documents.straggler_answers import op_trace_document, print_op_trace
    from health.whatif.conversion import ConversionSettings, write_conversion
    from health.whatif.converters import convert as convert_files
    from health.whatif.converters import sizes_of
    from health.whatif.trace import layout_of, read_metadata

    sizes = sizes_of(files, source=source) if meta is None else read_metadata(read_source(meta))
    layout = layout_of(sizes)
    with progress("Reading", total=len(files)) as say:
        settings = ConversionSettings(
            microbatches=microbatches, align_clocks=align_clocks, guessed=meta is None, progress=say
        )
        conversion = convert_files(files, layout, settings, source=source)
    written = write_conversion(conversion, sizes, save)
    answer(op_trace_document(conversion, layout, [str(path) for path in written]), print_op_trace)
