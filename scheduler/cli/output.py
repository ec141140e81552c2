"""Where output goes: results to stdout, progress to stderr.

The result of a command is either one JSON document or text for a person, never both.  Colours and bars appear on a
terminal only; rich honours ``NO_COLOR``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

PLAIN_WIDTH = 120
"""Width of text that goes to a file or a pipe."""


def to_json(document: BaseModel) -> str:
    """A document as JSON text, keys in the order of the model's fields.

    :raises ValueError: a number is not finite; JSON has no word for it.
    """
    import json

    return json.dumps(document.model_dump(mode="json", by_alias=True), indent=2, allow_nan=False)


def emit_json(document: BaseModel) -> None:
    """Print the one JSON document of a run."""
    click.echo(to_json(document))


def console() -> Console:
    """The console for text results, on stdout."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


@contextmanager
def progress(label: str, *, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """Tell whoever waits at a terminal what is going on; elsewhere keep silent.

    :param label: what the command is doing.
    :param total: number of steps; ``None`` = unknown, the bar pulses.
    :returns: call it with a short sentence; each call is a step when ``total`` is known.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.fields[label]}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, label=label)
        yield lambda sentence: bar.update(task, description=sentence, advance=0 if total is None else 1)
