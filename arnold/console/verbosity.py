"""How much a run says on standard error: ``--quiet`` nothing but errors, ``--verbose`` also what it read and chose.

Both may stand before or after the name of a command.  Results on standard output are the same with either.
"""

from __future__ import annotations

import logging
from time import perf_counter, process_time

import click

PACKAGES = ("topology", "scheduler", "health", "simulator", "arnold")
"""Whose log lines ``--verbose`` shows; the service `arnold extender serve` has its own log."""

_QUIET, _LINES = "arnold.quiet", "arnold.verbose"  # Keys of the context's notes, which all commands of a run share


def verbosity_options() -> list[click.Option]:
    """Return new options ``-q`` and ``-v``, for a command or a group of commands."""
    return [
        click.Option([short, long], is_flag=True, is_eager=True, expose_value=False, callback=does, help=words)
        for short, long, does, words in (
            ("-q", "--quiet", _be_quiet, "Print no progress and no notes on standard error, only errors."),
            ("-v", "--verbose", _be_verbose, "Print on standard error what was read and chosen, and how long it took."),
        )
    ]


def is_quiet() -> bool:
    """Return whether this run was asked to be quiet."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


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
        said = record.getMessage()
        click.echo("".join(character if character.isprintable() else " " for character in said), err=True)

    def end(self) -> None:
        """Say how long the run took, and write no more."""
        wall, processor = (now - then for now, then in zip((perf_counter(), process_time()), self.started, strict=True))
        logging.getLogger(PACKAGES[0]).info("took %.2f s, %.2f s of it this process computed", wall, processor)
        for name in PACKAGES:
            logger = logging.getLogger(name)
            logger.removeHandler(self)
            logger.setLevel(logging.NOTSET)
            logger.propagate = True


def _be_quiet(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        context.meta[_QUIET] = True


def _be_verbose(context: click.Context, _: click.Parameter, wanted: bool) -> None:
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
