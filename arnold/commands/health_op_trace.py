"""``arnold health op-trace``: op traces of what other tools record."""

from __future__ import annotations

import click

from arnold.console.output import answer, progress
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE, ResultFile, file_option
from arnold.options.shared_options import SAVE_HELP, align_clocks_option
from ground.files import read_source

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
def command(
    *,
    as_json: bool,
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
    document = op_trace_document(conversion, layout, [str(path) for path in written])
    answer(document, print_op_trace, as_json=as_json)
