"""``arnold capacity``: one command for each question, made of the question's fields.

A question is a dataclass: its fields are the options, with those of a cluster file where it may be asked of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial, wraps
from inspect import getdoc
from typing import TYPE_CHECKING, Any, cast

import click
from click.core import ParameterSource

from arnold.commands.command_table import CommandRow, LazyGroup
from arnold.console.output import GOOD, Console, answer, note, print_rows, print_sentences, progress
from arnold.options.cluster_options import OF_SLURM, ClusterFiles
from arnold.options.command import JsonCommand
from arnold.options.field_options import F, file_option, options_of, take
from arnold.options.shared_options import CLUSTER_HELP, own_page_option
from ground.errors import InvalidInput, InvalidTopology
from ground.files import write_file
from ground.quantities import capitalised
from simulator.sheet import Sheet

if TYPE_CHECKING:
    from simulator.capacity.question import CapacityAnswer, CapacityQuestion

READING = ("format", "levels", "level_names", "domains", "gpu_type", "gpu_resource", "shared_gpus")
"""Options of how a cluster file is read."""


def question_options(kind: type[CapacityQuestion[Any]]) -> Callable[[F], F]:
    """Return a decorator that gives a command the options of a question, and hands it the ``question``.

    What lies over a cluster file counts where jobs are placed on it; elsewhere its levels alone do.  Notes about the
    file go to standard error.
    """
    from simulator.capacity.cluster_question import ClusterQuestion

    over = ("gpus_per_node", "busy", *OF_SLURM, "flags") if issubclass(kind, ClusterQuestion) else ()
    reading = (*READING, *over) if hasattr(kind, "cluster") else ()

    def decorate(command: F) -> F:
        @wraps(command)
        def call(**settings: Any) -> Any:
            if not reading:
                return command(question=take(kind, settings), **settings)
            file = settings.pop("cluster")
            # what the question itself asks by such a name is not about the file
            files = take(partial(ClusterFiles, file), {name: settings.pop(name) for name in reading})
            if file is None:
                # refused, rather than lost
                for option in _given(reading):
                    fix = "give --cluster FILE too"
                    raise InvalidInput(f"{option} belongs to a cluster file", where=option, fix=fix)
                return command(question=take(kind, settings), **settings)
            for option in _given(("made", "busy_share")):
                fix = f"leave --cluster or {option} away"
                raise InvalidInput("is of a cluster that is made, and one is given", where=option, fix=fix)
            loaded = files.read()
            note(*loaded.notes)
            made: Callable[..., CapacityQuestion[Any]] = kind
            question = take(partial(made, cluster=loaded.cluster, source=file), settings)
            try:
                return command(question=question, **settings)
            except InvalidTopology as error:
                error.where = error.where or file
                raise

        asked = options_of(kind)(cast("F", call))
        if not reading:
            return asked
        return file_option("--cluster", help=CLUSTER_HELP)(options_of(ClusterFiles, only=reading)(asked))

    return decorate


def _given(names: Iterable[str]) -> list[str]:
    """Return the options of the command line among those of the names."""
    context = click.get_current_context()
    given = (name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE)
    return [f"--{name.replace('_', '-')}" for name in given]


QUESTIONS = {
    name: CommandRow(f"simulator.capacity.{name}:{name.capitalize()}Question", words)
    for name, words in {
        "minipods": "Minipod size and oversubscription.",
        "spares": "Spares at the least cost, or for an ETTR.",
        "reserve": "When a large job fits, what reserving costs.",
        "fragmentation": "What still fits, by job shape.",
        "grow": "When to order more minipods, what they gain.",
        "power": "How power swings, and what smooths it.",
        "cache": "How to split a cache of training data.",
    }.items()
}

EXAMPLES = """
  arnold capacity minipods
  arnold capacity minipods --price-node 300000 --price-switch-port 2000 --price-kwh 0.1
  arnold capacity minipods --cluster-nodes 4096 --size 128 --size 256 --oversubscription 4 --html minipods.html
  arnold capacity minipods --grid 8x16x20 --algorithm exact,gpu-packing --json
  arnold capacity spares --nodes 1200 --target-ettr 0.9
  arnold capacity spares --nodes 1200 --failures 3..9 --repair-hours 12..48 --price-gpu-hour 2.5 --html spares.html
  arnold capacity spares --nodes 1200 --failure-domain leaf:32 --failure-domain feed:96:0.05 --tornado decides.svg
  arnold capacity spares --nodes 2048 --failures 6.5 --job-checkpoint-write 30 --repair-hours 48 --json
  arnold capacity reserve
  arnold capacity reserve --made 6x32 --grid 8x8x14 --html reserve.html
  arnold capacity reserve --notice-hours 24 --load 0.8 --policy arnold,arnold-no-jct --json
  arnold capacity fragmentation --cluster cluster.csv
  arnold capacity fragmentation --made 22x93 --busy-share 0.8 --html fragmentation.html
  arnold capacity fragmentation --cluster topology.conf --busy busy.txt --shape 8x8 --shape 8x16 --json
  arnold capacity grow --made 11x93 --price-gpu-hour 2.5
  arnold capacity grow --load 0.6..0.7 --growth 0.05..0.15 --lead-time 9 --objective-wait 30 --svg grow.svg
  arnold capacity grow --cluster cluster.csv --busy busy.txt --more 1 --more 4 --html grow.html
  arnold capacity grow --cluster cluster.csv --shape 8x16 --policy priority-age --load 0.8 --growth 0.1 --json
  arnold capacity power
  arnold capacity power --cluster cluster.csv --power power.yaml --grid 8x8x32 --grid 8x8x16 --html power.html
  arnold capacity power --grid 8x8x64 --op-trace trace.parquet --communicate-share 0.5 --price-kwh 0.1 --json
  arnold capacity cache --cache-gb 400
  arnold capacity cache --samples 13333 --readers 4 --job-samples 10000 --cache-gb 1 --html cache.html
  arnold study generations
  arnold study generations --trace-jobs 300 --seeds 5 --load 0.5 --load 1 --load 2 --html generations.html
  arnold study generations --throughputs throughputs.csv --policy fifo,gavel,gavel-finish-time --json
"""
"""Of all questions; the help of each shows its own."""


class QuestionGroup(LazyGroup):
    """A group whose table names dataclasses of questions, each of which becomes a command; other rows are commands."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or a question and make its command."""
        target: Any = super().get_command(ctx, cmd_name)
        return question_command(cmd_name, target) if isinstance(target, type) else target


command = QuestionGroup(
    name="capacity",
    table=QUESTIONS,
    help="Say what to buy, reserve and keep spare.  Every answer lists its assumptions.",
    epilog="`arnold capacity spares --help` explains a question, and so on for each.",
)


@cache
def question_command(name: str, kind: type[CapacityQuestion[Any]]) -> click.Command:
    """Return the command that asks a question; exits 3 where what the question aims at cannot be had.

    :param kind: dataclass whose fields are the options.
    """

    def ask(*, html: str | None, svg: str | None, tornado: str | None, question: CapacityQuestion[Any]) -> int:
        with progress(name.capitalize(), total=question.steps) as step:
            answered = question.answer(step=step)
        sheet = question.sheet(answered)
        if tornado is not None and not answered.headline:
            fix = "leave --tornado away; the assumptions say what the answer is of"
            raise InvalidInput("no uncertain input decides on this answer", where="--tornado", fix=fix)
        if html or svg or tornado:
            from arnold.pages.capacity_page import answer_page, picture, tornado_picture

            if html is not None:
                write_file(html, answer_page(sheet, answered))
            if svg is not None:
                write_file(svg, picture(sheet.charts[0]))
            if tornado is not None:
                write_file(tornado, tornado_picture(answered.headline[0]))
        answer(answered, partial(print_answer, sheet=sheet))
        return 0 if answered.reached else 3

    for option in (
        file_option("--tornado", written=True, help="Save the figure of the inputs that decide the answer, SVG."),
        file_option("--svg", written=True, help="Save the figure of the answer, SVG."),
        own_page_option,
        question_options(kind),
    ):
        ask = option(ask)
    examples = [line for line in EXAMPLES.splitlines() if line.split()[2:3] == [name]]
    document = f"{kind.answer_type.__module__}:{kind.answer_type.__name__}"
    decorate = click.command(
        name, cls=JsonCommand, document=document, help=getdoc(kind), epilog="\n".join(["\b\nExamples:", *examples, ""])
    )
    return decorate(ask)


def print_answer(out: Console, answer: CapacityAnswer, *, sheet: Sheet) -> None:
    """Print an answer as a person reads it: question, verdict, range, tables, what would change it, assumptions."""
    out.print(answer.question, style="dim")
    out.print(answer.verdict, style=GOOD)
    for span in answer.ranges:
        out.print(f"{capitalised(span.quantity)}: {span.sentence}.")
    for table in (*sheet.tables, *(span.table() for span in answer.headline)):
        print_rows(out, table.headers, table.rows, title=table.title)
    print_sentences(out, "What would change it", answer.changes)
    print_sentences(out, "Assumptions", answer.assumptions)
