"""``arnold health collectives``: what makes a job's collectives hang or slow."""

from datetime import UTC, datetime

import click

from arnold.console.output import answer, progress, save_flags
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE, file_option, options_of
from arnold.options.shared_options import flags_out_option, html_option, lenient_option, yes_option
from ground.files import read_source
from health.collectives.trigger_settings import TriggerSettings


def _print_converter(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.resources import files

        from health.collectives.reading import CONVERTER

        click.echo(files("health.collectives").joinpath(CONVERTER).read_text(encoding="utf-8"), nl=False)
        ctx.exit()


@click.command("collectives", cls=JsonCommand, document="arnold.documents.collectives_answer:CollectivesDocument")
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option("--format", metavar="NAME", help="Format of the input.  [default: recognised by content]")
@file_option("--node-map", help="Node of each rank: a CSV of rank,node or host,node.")
@flags_out_option
@yes_option
@lenient_option
@options_of(TriggerSettings, to="settings", only=("window", "period"))
@click.option(
    "--converter",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_converter,
    help="Print the script that turns pickles into JSON where they were written.",
)
@html_option
def command(
    *,
    files: tuple[str, ...],
    format: str | None,
    node_map: str | None,
    flags_out: str | None,
    yes: bool,
    lenient: bool,
    settings: TriggerSettings,
) -> None:
    """Find which rank makes a job's collectives hang or slow, and how sure that is.

    FILEs are of one job and one format: NCCL Inspector (JSON lines or Prometheus text), PyTorch Flight Recorder as
    JSON, NCCL RAS as JSON, or Arnold's three-counter progress lines. Pickles are refused; --converter prints a script
    that turns them into JSON at their source. Only what is certain becomes a flag.

    $ arnold health collectives progress.jsonl
    $ arnold health collectives nccl-inspector-4711/*.log --flags-out flags.json
    $ arnold health collectives nccl_trace_rank_*.json --node-map nodes.csv --json
    $ ncclras -f json > 1.json; sleep 10; ncclras -f json > 2.json; arnold health collectives 1.json 2.json
    $ arnold health collectives --converter > flight_recorder_to_json.py
    """
    from arnold.documents.collectives_answer import collectives_document, print_collectives
    from health.collectives.flagging import flags_of, nodes_of
    from health.collectives.reading import diagnose_files, read_traces

    with progress("Reading", total=len(files)) as say:
        sources, unread = read_traces(files, lenient=lenient, say=say)
    recognised, diagnosis = diagnose_files(sources, unread=unread, format=format, settings=settings, lenient=lenient)
    node_of = nodes_of(diagnosis.members, read_source(node_map) if node_map is not None else None)
    flags = flags_of(diagnosis, node_of, now=datetime.now(UTC))
    document = collectives_document(diagnosis, format=recognised, node_of=node_of, flags=flags)
    save_flags(document.flags, flags_out, of=None if yes else len({*node_of.values()}))
    answer(document, print_collectives)
