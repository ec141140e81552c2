"""Where output goes: results to stdout, progress and notes to stderr; and how a run says that it failed.

The result of a command is either one JSON document or text for a person, never both.  Colours and bars appear on a
terminal only; rich honours ``NO_COLOR``.  The streams are taken as they may be: closed, full, read by a program that
stops reading, in an encoding without bars.  ``--quiet`` prints nothing but errors on standard error; ``--verbose``
prints there what was read and chosen, and on standard output all of an answer.  Both stand before or after the name of
a command.
"""

from __future__ import annotations

import codecs
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import perf_counter, process_time
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar

import click

from arnold.console.interrupts import ending_the_search
from ground.errors import ArnoldError
from ground.files import write_file
from ground.records import JsonRecord, json_data

if TYPE_CHECKING:
    from rich.console import Console as Console  # noqa: PLC0414 (exported: other modules take it from here)

    from arnold.pages.charts import ChartCard
    from scheduler.outcome import Outcome
    from scheduler.placement.types import Limits, Status
    from topology.cluster import Cluster
    from topology.flags import NodeFlag
else:
    Console = Any

T = TypeVar("T")

PLAIN_WIDTH = 120  # Width of text that goes to a file or a pipe unless COLUMNS says another, and of lines of JSON
DIGITS, DECIMALS = 12, 6  # Of a number in JSON: what is beyond them is rounding of the floats that computed it
LARGE = 10.0 ** (DIGITS - DECIMALS)  # From here on DIGITS would leave fewer than DECIMALS
GOOD, SO_SO, BAD = "bold green", "bold yellow", "bold red"
"""Styles of what went well, of what may do, and of what did not."""


def to_json(document: object) -> str:
    """Return a JSON record, or a pydantic model, as JSON text: keys in order of its fields, short pieces on one line.

    :raises ValueError: a number is not finite; JSON has no word for it.
    """
    return _layout(as_written(json_data(type(document), document)), "")


def as_written(value: Any) -> Any:
    """Return JSON data with its numbers as people write them: 1.6, and not 1.5999999999999999.

    Fractions keep 12 significant digits, and at least 6 decimals, which instants in seconds since 1970 need.
    """
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}") if abs(value) < LARGE else round(value, DECIMALS)
        case dict():
            return {key: as_written(member) for key, member in value.items()}
        case list():
            return [as_written(member) for member in value]
    return value


def _layout(value: Any, indent: str) -> str:
    """Return JSON text: on one line where it fits, else member by member."""
    line = json.dumps(value, allow_nan=False, ensure_ascii=True)
    if not isinstance(value, dict | list) or len(indent) + len(line) <= PLAIN_WIDTH:
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        members = [f"{json.dumps(key)}: {_layout(member, deeper)}" for key, member in value.items()]
    else:
        members = [_layout(member, deeper) for member in value]
    inner = ",\n".join(deeper + member for member in members)
    start, end = "{}" if isinstance(value, dict) else "[]"
    return f"{start}\n{inner}\n{indent}{end}"


def print_rows(
    out: Console,
    headers: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    title: str,
    left: Sequence[str] = (),
    spare: Sequence[str] = (),
    most: int | None = None,
    bold: Collection[int] = (),
    gap: bool = True,
) -> None:
    """Print a table, or its first rows and how many more there are, which --json has; nothing when there are none.

    :param headers: the first column, never cut, and those in ``left`` are aligned left, the others right.
    :param rows: what is not known is ``None``, and printed as a dash.
    :param spare: columns that a narrow terminal may do without, the first to go first.
    :param bold: numbers of rows that stand out.
    :param gap: whether an empty line stands before it.
    """
    from arnold.console.fitted_table import FittedTable

    shown = [tuple("-" if cell is None else str(cell) for cell in row) for row in rows[:most]]
    if most is not None and len(rows) > most:
        shown.append((f"... {len(rows) - most} more", *[""] * (len(headers) - 1)))
    if shown:
        if gap:
            out.print()
        out.print(FittedTable(title, headers, shown, left, spare, bold))


def plain(text: str) -> str:
    """Return words of others, such as the evidence of a flag, without what would move the cursor or change colours."""
    return "".join(character if character.isprintable() else " " for character in text)


def print_sentences(out: Console, title: str, sentences: Sequence[str]) -> None:
    """Print a titled list of sentences; nothing when there are none."""
    from rich.table import Table
    from rich.text import Text

    from arnold.console.fitted_table import Wrapped

    if sentences:
        out.print()
        out.print(Text(title, "bold"))
        rows = Table.grid(padding=(0, 1))
        for sentence in sentences:
            rows.add_row("  -", Wrapped(plain(sentence)))
        out.print(rows)


def save_flags(
    flags: Iterable[NodeFlag], file: str | None, *, of: int | None = None, cluster: Cluster | None = None
) -> None:
    """Write the file of ``--flags-out``, if one is named, as ``--flags`` of `arnold place` reads it.

    :param of: nodes that were judged, of which a file takes out a share at most; ``None`` = as many as there are.
    :param cluster: of which it takes out a share at most, and of each domain; ``None`` = those judged count.
    """
    from topology.flag_sources import Breaker, FlagFile

    if file is not None:
        flags = tuple(flags)
        if of is not None:
            Breaker(of, cluster).check(flags, where="--flags-out")
        write_file(file, to_json(FlagFile(tuple(flags))) + "\n")


def emit_json(document: object) -> None:
    """Print the one JSON document of a run."""
    click.echo(to_json(document))


def answer(
    document: T,
    show: Callable[[Console, T], None],
    *,
    file: str | None = None,
    html: str | None = None,
    charts: Callable[[T], Iterable[ChartCard]] = lambda _: (),
) -> None:
    """Print the one JSON document of a run, or show it as text, as the run was asked to; write it to a file, and the
    text with charts to a page, if these are named.

    :param html: the page; ``None`` = that of ``--html``, where the command leaves it to this function.
    :raises InvalidInput: a file cannot be written; then nothing is printed.
    """
    html = html or _notes().get(PAGE)
    text = to_json(document) if prints_json() or file is not None else ""
    if file is not None:
        write_file(file, text + "\n")
    if html is not None:
        from arnold.console.fitted_table import save_page

        save_page(html, document, show, charts)
    if prints_json():
        click.echo(text)
    else:
        show(console(), document)


def console() -> Console:
    """Return the console for text results, on stdout; names of users are never taken for markup."""
    from rich.console import Console

    class Plain(Console):
        """A console that leaves it to the run what follows when the reader of the output stops reading."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    width_is_given = os.environ.get("COLUMNS", "").strip("0").isdigit()  # 0 is no width
    width = None if sys.stdout.isatty() or width_is_given else PLAIN_WIDTH
    return Plain(highlight=False, markup=False, emoji=False, width=width)


class Step(Protocol):
    """Says how far a command is."""

    def __call__(self, sentence: str, *, done: int | None = None) -> None:
        """Show a short sentence, and that so many steps are done; ``None`` = one more than before."""


@contextmanager
def progress(label: str, *, total: int | None = None) -> Iterator[Step]:
    """Show on a terminal what is going on; elsewhere keep silent.

    :param label: what the command is doing.
    :param total: number of steps; ``None`` = unknown, the bar pulses.
    """
    if not sys.stderr.isatty() or is_quiet():
        yield lambda sentence, *, done=None: None  # noqa: ARG005
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.fields[label]}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, label=label)
        yield lambda sentence, *, done=None: bar.update(
            task, description=sentence, completed=done, advance=1 if done is None and total is not None else None
        )


@contextmanager
def searching(label: str, limits: Limits) -> Iterator[Limits]:
    """Show that a search goes on, which the first Ctrl-C ends with the best so far; yield limits by which it says so.

    :param label: as of :func:`progress`.
    """
    with progress(label) as say, ending_the_search():
        yield replace(limits, progress=say)


PACKAGES = ("ground", "topology", "scheduler", "health", "simulator", "arnold")
"""Whose log lines ``--verbose`` shows; the service `arnold extender serve` has its own log."""

_QUIET, _LINES, JSON, PAGE = "arnold.quiet", "arnold.verbose", "arnold.json", "arnold.page"
"""Keys of the context's notes, which all commands of a run share."""


def _notes() -> dict[str, Any]:
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta


def kept_as(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return the callback of an option that keeps its value among the context's notes."""

    def keep(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value:
            context.meta[key] = value

    return keep


def is_quiet() -> bool:
    """Return whether this run was asked to be quiet."""
    return _QUIET in _notes()


def is_verbose() -> bool:
    """Return whether this run was asked to tell all."""
    return _LINES in _notes()


def prints_json() -> bool:
    """Return whether this run prints one JSON document."""
    return JSON in _notes()


def note(*sentences: str) -> None:
    """Print notes on standard error, a line each, unless the run is to be quiet."""
    for sentence in () if is_quiet() else sentences:
        click.echo(sentence, err=True)


class _Lines(logging.Handler):
    """Writes log lines to standard error."""

    def __init__(self) -> None:
        super().__init__()
        self.started = perf_counter(), process_time()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, without what would move the cursor or change colours."""
        click.echo(plain(record.getMessage()), err=True)

    def end(self) -> None:
        """Say how long the run took, and write no more."""
        wall, processor = (now - then for now, then in zip((perf_counter(), process_time()), self.started, strict=True))
        logging.getLogger(PACKAGES[0]).info("took %.2f s, %.2f s of it this process computed", wall, processor)
        for name in PACKAGES:
            logger = logging.getLogger(name)
            logger.removeHandler(self)
            logger.setLevel(logging.NOTSET)
            logger.propagate = True


def verbosity_options() -> list[click.Option]:
    """Return new options ``-q`` and ``-v``, for a command or a group of commands."""

    def be_verbose(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        """Write the log lines of our packages until the run ends."""
        if not wanted or _LINES in context.meta:
            return
        lines = context.meta[_LINES] = _Lines()
        for name in PACKAGES:
            logger = logging.getLogger(name)
            logger.addHandler(lines)
            logger.setLevel(logging.INFO)
            logger.propagate = False  # said once, also by a service that writes a log of its own
        context.find_root().call_on_close(lines.end)

    return [
        click.Option([short, long], is_flag=True, is_eager=True, expose_value=False, callback=does, help=words)
        for short, long, does, words in (
            ("-q", "--quiet", kept_as(_QUIET), "Print no progress and no notes on standard error, only errors."),
            (
                "-v",
                "--verbose",
                be_verbose,
                "Print the whole answer, and on standard error what was read and how long it took.",
            ),
        )
    ]


EXIT_CODES = {"optimal": 0, "feasible": 0, "infeasible": 3}
OUT_OF_TIME = 4  # Of every other status: nothing valid was found, and nothing proved


def log_outcome(outcome: Outcome) -> None:
    """Tell `--verbose` how a search ended."""
    solver = logging.getLogger(__name__)
    solver.info("%s, %.3f s: %s", outcome.algorithm, outcome.proposal.solve_seconds, outcome.verdict)


def exit_code(*statuses: Status) -> int:
    """Return the best exit code of the statuses of some outcomes: 0 if any has a placement."""
    return min((EXIT_CODES.get(status, OUT_OF_TIME) for status in statuses), default=OUT_OF_TIME)


class ErrorDetails(JsonRecord, kw_only=True):
    """One error."""

    kind: str
    """Stable name of the kind: InvalidJob, UnknownName, UsageError, ..."""
    message: str
    """What is wrong, one sentence."""
    where: str
    """File and line, or option; empty when there is no such place."""
    fix: str
    """What to do about it."""


class ErrorDocument(JsonRecord):
    """The one JSON document of a failed run."""

    error: ErrorDetails
    """What went wrong."""


def error_document(error: ArnoldError) -> ErrorDocument:
    """Return the document of an error."""
    return ErrorDocument(ErrorDetails(kind=error.kind, message=error.message, where=error.where, fix=error.fix))


ERRORS = "arnold.lookalike"  # Name of the error handler that writes what an encoding does not have
_LOOKALIKES = str.maketrans(
    {"█": "#", "▒": "+", "░": ".", "─": "-", "│": "|", "├": "+", "└": "+", "…": "...", "±": "+-", "µ": "u"}
)
"""Of the bars, branches and signs that texts are drawn with."""


def settle_streams() -> None:
    """Make stdout and stderr fit for any text: where one is closed, what is written to it is gone, as was asked for;
    what its encoding does not have is written by characters that look alike.

    Raw bytes of file names come out as the bytes that they are.
    """
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            # on the number of the one that is closed: no file that is opened later may get it
            opened = os.open(os.devnull, os.O_WRONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", errors="replace"))
        elif isinstance(stream, io.TextIOWrapper) and name == "stdout":
            stream.reconfigure(errors=ERRORS)


def silence(stream: IO[str] | None) -> None:
    """Send what a stream that cannot be written to still holds nowhere, so that the interpreter can close it."""
    if stream is None:
        return
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _lookalike(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), error.start + 1
    looks = character.translate(_LOOKALIKES)
    return (looks if looks.isascii() else "?"), error.start + 1


codecs.register_error(ERRORS, _lookalike)
