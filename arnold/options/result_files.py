"""Files of a command line: standard input is read once, no result takes the place of an input or of another result.

The type of an option says which it names: :data:`~arnold.options.field_options.FILE` what is read, :data:`RESULT` what
is written.  What is both, like a checkpoint, counts as written; a placement may be replaced by its repair.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import click

from ground.errors import InvalidInput
from ground.files import STDIN


class ResultFile(click.Path):
    """A file that a command writes, or a folder with files of these names that it writes."""

    def __init__(self, *inside: str) -> None:
        super().__init__()
        self.inside = inside

    def files(self, named: str) -> Sequence[str]:
        """Return the files that are written."""
        return [str(Path(named) / name) for name in self.inside] or [named]


class EarlierResult(click.Path):
    """What an earlier run wrote and this one reads, and may replace by what is true now."""


RESULT = ResultFile()
EARLIER = EarlierResult()


def check_results(context: click.Context) -> None:
    """Check the files that the options of a command name, before anything is computed.

    Raises as :func:`check_stdin` and :func:`refuse_clashes`.
    """
    check_stdin(context)
    named = [(option.type, file) for option, file in _named(context)]
    refuse_clashes([one for kind, file in named if isinstance(kind, ResultFile) for one in kind.files(file)], context)


def check_stdin(context: click.Context, others: Mapping[str, Iterable[str]] = MappingProxyType({})) -> None:
    """Make sure that at most one of the files that a command reads is standard input.

    :param others: option -> files that are named inside its values.
    :raises InvalidInput: it would be read twice.
    """
    read = ((one, file) for one, file in _named(context) if not isinstance(one.type, ResultFile))
    from_stdin = [_spelt(one, context) for one, file in read if file == STDIN]
    from_stdin += [option for option, files in others.items() for file in files if file == STDIN]
    if len(from_stdin) > 1:
        raise InvalidInput(
            f"{' and '.join(from_stdin)} both read standard input, which can be read once only",
            where=from_stdin[1],
            fix="give a file for all but one",
        )


def refuse_clashes(results: Iterable[str], context: click.Context) -> None:
    """Make sure that each result has a file of its own, which is none that the options of the command name as read.

    :raises InvalidInput: two results go to one file, or a result to a file that is read.
    """
    read = ((one, file) for one, file in _named(context) if not isinstance(one.type, ResultFile | EarlierResult))
    # no terminal, and no live cluster
    inputs = {_place(file): one for one, file in read if Path(file).is_file()}
    written = set[str]()
    for file in results:
        path = _place(file)
        if path in written:
            raise InvalidInput("two results go to one file", where=file, fix="give each a file of its own")
        if (reader := inputs.get(path)) is not None:
            raise InvalidInput(f"is read as {_spelt(reader, context)}", where=file, fix="give the result another file")
        written.add(path)


def _spelt(named: click.Parameter, context: click.Context) -> str:
    return named.opts[0] if isinstance(named, click.Option) else named.make_metavar(context)


def _place(file: str) -> str:
    """Return where a file is, whatever links lead to it; a circle of links is an error of its reader or writer."""
    return os.path.realpath(file)


def _named(context: click.Context) -> Iterator[tuple[click.Parameter, str]]:
    """Yield the options and arguments that name files, each with a file."""
    for option in context.command.params:
        if isinstance(option.type, click.Path):
            value = context.params.get(option.name or "")
            for named in value if isinstance(value, tuple) else (value,):
                if named is not None:
                    yield option, named
