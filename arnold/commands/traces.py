"""``arnold traces``: traces of other tools made into the op trace that ``arnold stragglers`` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from arnold.commands.command import JsonCommand
from arnold.commands.field_options import FILE
from arnold.commands.output import answer, progress, table
from arnold.commands.result_files import ResultFile

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.documents.traces_answer import TracesConvertDocument

TRACE = ResultFile("trace.parquet", "meta.yaml", "conversion.json")
EXAMPLES = """\b
Examples:
  arnold traces convert torch_profile/rank-*.json.gz --meta meta.yaml --output trace/
  arnold traces convert train.log --meta meta.yaml --microbatches 32 --output trace/
  arnold stragglers trace/trace.parquet --meta trace/meta.yaml
"""


@click.group("traces")
def command() -> None:
    """Make op traces for `arnold stragglers` from what other tools record."""


@command.command(
    "convert", cls=JsonCommand, document="arnold.documents.traces_answer:TracesConvertDocument", epilog=EXAMPLES
)
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--meta", required=True, type=FILE, metavar="FILE", help="YAML: dp_size, pp_size, tp_size, vpp_size.")
@click.option("--output", required=True, type=TRACE, metavar="FOLDER", help="Write trace.parquet and meta.yaml here.")
@click.option(
    "--from",
    "source",
    type=click.Choice(["kineto", "megatron-timers"]),
    help="What the files are  [default: told by the first]",
)
@click.option("--microbatches", type=click.IntRange(1, 1 << 16), help="Of a step, where a log does not say it.")
@click.option("--align-clocks", is_flag=True, help="Shift ranks so that a step's barrier ends at once (Kineto).")
def convert(
    *,
    as_json: bool,
    files: tuple[str, ...],
    meta: str,
    output: str,
    source: Any,
    microbatches: int | None,
    align_clocks: bool,
) -> None:
    """Convert PyTorch (Kineto) Chrome traces or a Megatron-LM log of timers.

    FILES are the profiler's JSON files, plain or gzip, one for each worker at least; or one log with
    `--timing-log-level 2 --timing-log-option all`. What cannot be recovered is listed with what that disables.
    """
    from arnold.documents.traces_answer import traces_convert_document
    from health.whatif.converters import convert as convert_files
    from health.whatif.converters.op_trace_output import write_conversion
    from health.whatif.trace import layout_of, read_metadata
    from topology.files import read_source

    sizes = read_metadata(read_source(meta))
    layout = layout_of(sizes)
    with progress("Reading", total=len(files)) as say:
        conversion = convert_files(
            files, layout, source=source, microbatches=microbatches, align_clocks=align_clocks, progress=say
        )
    written = write_conversion(conversion, sizes, output)
    document = traces_convert_document(conversion, layout, [str(path) for path in written])
    answer(document, _print, as_json=as_json)


def _print(out: Console, document: TracesConvertDocument) -> None:
    from topology.quantities import plural

    gaps = plural(len(document.missing), "gap") if document.missing else "nothing missing"
    steps, workers = plural(document.steps, "step"), plural(document.workers, "worker")
    out.print(f"{document.rows:,} operations of {steps} on {workers}, {gaps}: {document.files[0]}", style="bold")
    rows = table("operation", "rows", title="Recovered")
    for optype, count in document.recovered.items():
        rows.add_row(optype, f"{count:,}")
    out.print(rows)
    if document.missing:
        out.print("\nNot recovered", style="bold")
        for entry in document.missing:
            out.print(f"- {entry.optype}: {entry.reason}. Disables {entry.disables}.")
    for note in document.notes:
        out.print(f"Note: {note}")
