"""``arnold capacity``: one command for each question, made of the question's fields."""

from __future__ import annotations

from inspect import getdoc
from typing import TYPE_CHECKING, Any

import click

from arnold.commands.cluster_options import read_cluster, state_options
from arnold.commands.command import JsonCommand, object_at
from arnold.commands.command_table import CommandRow, LazyGroup
from arnold.commands.field_options import FILE, options_of, take
from arnold.commands.output import GOOD, console, emit_json, print_sentences, progress, table
from arnold.commands.result_files import RESULT
from topology.errors import InvalidInput

if TYPE_CHECKING:
    from simulator.capacity.capacity_question import CapacityAnswer, CapacityQuestion

QUESTIONS = {
    name: CommandRow(f"simulator.capacity.{name}_question:{name.capitalize()}Question", words)
    for name, words in {
        "minipods": "Minipod size and oversubscription.",
        "spares": "Spares for a target ETTR.",
        "reserve": "When a large job fits, what reserving costs.",
        "fragmentation": "What still fits, by job shape.",
        "grow": "What one more minipod buys.",
    }.items()
}

EXAMPLES = """
  arnold capacity minipods
  arnold capacity minipods --nodes 4096 --size 128 --size 256 --oversubscription 4 --html minipods.html
  arnold capacity minipods --job 8x16x20 --algorithms exact,gpu-packing --json
  arnold capacity spares --nodes 1200 --target 0.9
  arnold capacity spares --nodes 1200 --failures llama3 --restart hot-update --html spares.html
  arnold capacity spares --nodes 2048 --failures 6.5 --job-checkpoint-write 30 --repair-hours 48 --json
  arnold capacity reserve
  arnold capacity reserve --made 6x32 --job 8x8x14 --html reserve.html
  arnold capacity reserve --notice-hours 8 --load 0.8 --policies arnold,fifo-backfill --json
  arnold capacity fragmentation --cluster cluster.csv
  arnold capacity fragmentation --made 22x93 --busy-share 0.8 --html fragmentation.html
  arnold capacity fragmentation --cluster topology.conf --busy busy.txt --shape 8x8 --shape 8x16 --json
  arnold capacity grow --made 11x93
  arnold capacity grow --cluster cluster.csv --busy busy.txt --more 1 --more 4 --html grow.html
  arnold capacity grow --cluster cluster.csv --shape 8x16 --policy priority-age --load 0.8 --json
"""
"""Of all questions; the help of each shows its own."""


class QuestionGroup(LazyGroup):
    """A group whose table names the dataclasses of questions, each of which becomes a command."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one question, and make its command."""
        row = QUESTIONS.get(cmd_name)
        return None if row is None else question_command(cmd_name, object_at(row.target))


command = QuestionGroup(
    name="capacity",
    table=QUESTIONS,
    help="Say what to buy, reserve and keep spare.  Every answer lists its assumptions.",
    epilog="Each explains itself: arnold capacity spares --help.",
)


def question_command(name: str, kind: type[CapacityQuestion[Any]]) -> click.Command:
    """Return the command that asks a question; exits 3 where what the question aims at cannot be had.

    :param kind: dataclass whose fields are the options.
    """
    from simulator.capacity.cluster_question import ClusterQuestion

    of_cluster = issubclass(kind, ClusterQuestion)

    def ask(*, as_json: bool, html: str | None, svg: str | None, **options: Any) -> int:
        question = take(kind, options, **(_cluster(**options) if of_cluster else {}))
        with progress(name.capitalize(), total=question.steps) as step:
            answer = question.answer(step=step)
        _show(question, answer, as_json=as_json, html=html, svg=svg)
        return 0 if answer.reached else 3

    for option in (
        click.option("--svg", type=RESULT, metavar="FILE", help="Save the figure as a picture."),
        click.option("--html", type=RESULT, metavar="FILE", help="Save a page with figure, tables and assumptions."),
        options_of(kind),
    ):
        ask = option(ask)
    if of_cluster:
        given = click.option(
            "--cluster", type=FILE, metavar="FILE", help="The cluster, in any known format; - is stdin."
        )
        ask = given(state_options(ask))
    examples = [line for line in EXAMPLES.splitlines() if line.split()[2:3] == [name]]
    document = f"{kind.answer_type.__module__}:{kind.answer_type.__name__}"
    decorate = click.command(
        name, cls=JsonCommand, document=document, help=getdoc(kind), epilog="\n".join(["\b\nExamples:", *examples, ""])
    )
    return decorate(ask)


def _cluster(*, cluster: str | None, **options: Any) -> dict[str, Any]:
    """Read the cluster of a file with what lies over it; notes about it go to standard error.

    :raises ArnoldError: a file is unusable, or something is to lie over no file.
    """
    names = ("format", "levels", "domains", "gpus_per_node", "gpu_type", "gpu_resource", "busy", "flags")
    state = {name: options[name] for name in names}
    if cluster is None:
        # refused, rather than lost
        if given := [f"--{name.replace('_', '-')}" for name, value in state.items() if value not in (None, ())]:
            raise InvalidInput(f"{given[0]} belongs to a cluster file", where=given[0], fix="give --cluster FILE too")
        return {}
    tree, notes = read_cluster(cluster=cluster, **state)
    for note in notes:
        click.echo(note, err=True)
    return {"cluster": tree, "source": cluster}


def _show(
    question: CapacityQuestion[Any], answer: CapacityAnswer, *, as_json: bool, html: str | None, svg: str | None
) -> None:
    """Print an answer as text or JSON, and save what was asked for.

    :raises InvalidInput: a file cannot be written.
    """
    from topology.files import write_file

    sheet = question.sheet(answer)
    if html is not None:
        from arnold.pages.capacity.answer_page import answer_page

        write_file(html, answer_page(sheet, answer))
    if svg is not None:
        from arnold.pages.capacity.answer_page import picture

        write_file(svg, picture(sheet.charts[0]))
    if as_json:
        emit_json(answer)
        return
    out = console()
    out.print(answer.verdict, style=GOOD)
    for shown in sheet.tables:
        rows = table(*shown.headers, title=shown.title)
        for row in shown.rows:
            rows.add_row(*row)
        out.print()
        out.print(rows)
    print_sentences(out, "Assumptions", answer.assumptions)
