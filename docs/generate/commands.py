"""The page of all commands: usage, options and examples, from the tree of click."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from arnold.commands.command_table import arnold
from arnold.options.command import option_help
from docs.generate.markdown import prose, table

HEADING = """\
# Commands

Usage and options of every command, as `arnold COMMAND --help` prints them; [cli.md](cli.md) has what all commands
share. Every command takes `-h` and `--help`, `-q` and `--quiet`, `-v` and `--verbose`.

"""


def commands_text() -> str:
    """Return the page: a section for each command, those of a group below it."""
    return HEADING + "\n".join(_sections(arnold, click.Context(arnold, info_name="arnold"), depth=2))


def _sections(group: click.Group, context: click.Context, depth: int) -> Iterator[str]:
    """Yield the section of each command of a group, and of those below it."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        here = click.Context(command, info_name=name, parent=context)
        yield _section(command, here, depth)
        if isinstance(command, click.Group):
            yield from _sections(command, here, depth + 1)


def _section(command: click.Command, context: click.Context, depth: int) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"{'#' * depth} {context.command_path}", f"```text\n{usage}\n```", *_paragraphs(command.help or "")]
    options = [
        _row(option, context)
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and option.name not in ("quiet", "verbose")
    ]
    if options:
        parts.append(table(("option", "default", "meaning"), options).rstrip())
    parts += _paragraphs(command.epilog or "")
    return "\n\n".join(parts) + "\n"


def _row(option: click.Option, context: click.Context) -> tuple[str, str, str]:
    """Return name with placeholder, default, and meaning of an option with the range of its values."""
    names = "/".join([", ".join(option.opts), *option.secondary_opts])
    placeholder = "" if option.is_flag or option.count else f" {option.make_metavar(context)}"
    words, default, bounds = option_help(option)
    said = f"{words} ({bounds})" if bounds else words
    return f"`{names}{placeholder}`", default, prose(said)


def _paragraphs(text: str) -> Iterator[str]:
    r"""Yield the paragraphs of a help text; those that click shows as they stand (`\b`) are code."""
    for paragraph in inspect.cleandoc(text.partition("\f")[0]).split("\n\n"):
        first, _, rest = paragraph.partition("\n")
        if first.strip() != "\b":
            if paragraph.strip():
                yield prose(paragraph)
        elif rest.startswith("Examples:"):
            yield f"```bash\n{inspect.cleandoc(rest.partition(chr(10))[2])}\n```"
        else:
            yield f"```text\n{rest}\n```"
