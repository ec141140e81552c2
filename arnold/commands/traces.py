"""``arnold traces``: traces made into others: op traces of what other tools record, job traces without names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from arnold.commands.command import JsonCommand
from arnold.commands.field_options import FILE
from arnold.commands.output import answer, progress, table
from arnold.commands.result_files import RESULT, ResultFile
from topology.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.documents.traces_answer import TracesAnonymiseDocument, TracesConvertDocument

MAX_KEY = 65_536  # Bytes of the largest key
SHOWN = 20  # Names that stayed
TRACE = ResultFile("trace.parquet", "meta.yaml", "conversion.json")
EXAMPLES = """\b
Examples:
  arnold traces convert torch_profile/rank-*.json.gz --output trace/
  arnold traces convert torch_profile/rank-*.json.gz --meta meta.yaml --output trace/
  arnold traces convert train.log --meta meta.yaml --microbatches 32 --output trace/
  arnold stragglers trace/trace.parquet --meta trace/meta.yaml
"""


@click.group("traces")
def command() -> None:
    """Make op traces for `arnold stragglers` of what other tools record; take the names out of job traces."""


@command.command(
    "convert", cls=JsonCommand, document="arnold.documents.traces_answer:TracesConvertDocument", epilog=EXAMPLES
)
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option(
    "--meta",
    type=FILE,
    metavar="FILE",
    help="YAML: dp_size, pp_size, tp_size, vpp_size  [default: data-parallel ranks only].",
)
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
    meta: str | None,
    output: str,
    source: Any,
    microbatches: int | None,
    align_clocks: bool,
) -> None:
    """Convert PyTorch (Kineto) Chrome traces or a Megatron-LM log of timers.

    FILES are the profiler's JSON files, plain or gzip, one a rank: of a job with a pipeline one for each worker, with
    --meta; of any other as many as there are. Or a log with `--timing-log-level 2 --timing-log-option all`. What cannot
    be recovered is listed with what that disables.
    """
    from arnold.documents.traces_answer import traces_convert_document
    from health.whatif.converters import convert as convert_files
    from health.whatif.converters import data_parallel_sizes
    from health.whatif.converters.op_trace_output import write_conversion
    from health.whatif.trace import layout_of, read_metadata
    from topology.files import read_source

    sizes = data_parallel_sizes(files) if meta is None else read_metadata(read_source(meta))
    layout = layout_of(sizes)
    with progress("Reading", total=len(files)) as say:
        conversion = convert_files(
            files, layout, source=source, microbatches=microbatches, align_clocks=align_clocks, progress=say
        )
    written = write_conversion(conversion, sizes, output)
    document = traces_convert_document(conversion, layout, [str(path) for path in written])
    answer(document, _print, as_json=as_json)


def _print(out: Console, document: TracesConvertDocument) -> None:
    from arnold.commands.step_findings_text import print_findings
    from topology.quantities import plural

    gaps = plural(len(document.missing), "gap") if document.missing else "nothing missing"
    steps, workers = plural(document.steps, "step"), plural(document.workers, "worker")
    out.print(f"{document.rows:,} operations of {steps} on {workers}, {gaps}: {document.files[0]}", style="bold")
    rows = table("operation", "rows", title="Recovered")
    for optype, count in document.recovered.items():
        rows.add_row(optype, f"{count:,}")
    out.print(rows)
    print_findings(out, document.arrivals, document.breakdown)
    if document.missing:
        out.print("\nNot recovered", style="bold")
        for entry in document.missing:
            out.print(f"- {entry.optype}: {entry.reason}. Disables {entry.disables}.")
    for note in document.notes:
        out.print(f"Note: {note}")


ANONYMISE_EXAMPLES = """\b
Examples:
  arnold traces anonymise sacct.log --output jobs.log
  arnold traces anonymise sacct.json --output jobs.json --key-file key
"""


@command.command(
    "anonymise",
    cls=JsonCommand,
    document="arnold.documents.traces_answer:TracesAnonymiseDocument",
    epilog=ANONYMISE_EXAMPLES,
)
@click.argument("trace", type=FILE)
@click.option("--output", required=True, type=RESULT, metavar="FILE", help="Write the trace here, in the same format.")
@click.option("--key-file", type=FILE, metavar="FILE", help="Any secret; the same one gives the same pseudonyms.")
def anonymise(*, as_json: bool, trace: str, output: str, key_file: str | None) -> None:
    """Replace users, groups and job names in a trace of jobs by pseudonyms; nothing else changes.

    TRACE is what sacct prints (--parsable2 or --json), Philly's JSON, JSON lines, or a CSV with a header. Paths,
    command lines and comments, which repeat names, become pseudonyms as a whole. Without --key-file the key is thrown
    away.
    """
    from secrets import token_bytes

    from arnold.documents.traces_answer import TracesAnonymiseDocument
    from simulator.traces.pseudonyms import Pseudonyms, anonymised, still_named
    from topology.files import read_bytes, read_source, write_file

    key = read_bytes(key_file, max_bytes=MAX_KEY)[1].strip() if key_file else token_bytes(32)
    if not key:
        raise InvalidInput("the key is empty", where=key_file or "", fix="write a secret of some 30 characters into it")
    pseudonyms = Pseudonyms(key)
    made = anonymised(read_source(trace), pseudonyms)
    write_file(output, made)
    document = TracesAnonymiseDocument(
        output=output,
        replaced=pseudonyms.counts(),
        kept_key=key_file is not None,
        still_named=still_named(made, pseudonyms),
    )
    answer(document, _print_anonymised, as_json=as_json)


def _print_anonymised(out: Console, document: TracesAnonymiseDocument) -> None:
    from topology.quantities import plural

    nouns = {"user": "user", "group": "group", "job": "job name", "text": "other text"}
    parts = ", ".join(plural(count, nouns[kind]) for kind, count in document.replaced.items())
    out.print(f"{document.output}: {parts} became pseudonyms.")
    if document.still_named:
        names = ", ".join(document.still_named[:SHOWN]) + (", ..." if len(document.still_named) > SHOWN else "")
        out.print(f"Look before you give it away: something that was kept is called after {names}.", markup=False)
    if not document.kept_key:
        out.print("The key is not kept: another run gives other pseudonyms; --key-file keeps them.")
