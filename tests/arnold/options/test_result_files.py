"""Files that commands read and write: no command, our own or one to come, replaces an input by a result."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from arnold.options.field_options import EARLIER, ResultFile, check_results
from ground.errors import InvalidInput
from tests.arnold.commands.test_cli_repeated_options import leaves, root

COMMANDS = {" ".join(words): command for words, command in leaves(root)}


def of_kind(command: click.Command, *, results: bool) -> list[click.Parameter]:
    """The options and arguments that name files, of what is written or of what is read."""
    files = (one for one in command.params if isinstance(one.type, click.Path) and one.type is not EARLIER)
    return [one for one in files if isinstance(one.type, ResultFile) is results]


PAIRS = [
    (f"{name} {result.name} {read.name}", command, result, read)
    for name, command in COMMANDS.items()
    for result in of_kind(command, results=True)
    for read in of_kind(command, results=False)
]
"""What is tried, with the words for it."""


def test_what_is_written_is_known_as_such() -> None:
    """By the type of its option: whatever is written says so in its help, or by its name.

    A flag store, a database, is read and written by parts, and counts as read.
    """
    options = [
        (words, one)
        for words, command in COMMANDS.items()
        for one in command.params
        if isinstance(one, click.Option) and isinstance(one.type, click.Path)
    ]
    known = {words + str(one.name) for words, one in options if isinstance(one.type, ResultFile)}
    written = ("Write", "Save", "File to write", "Folder to write")
    said = {
        words + str(one.name)
        for words, one in options
        if (one.help or "").startswith(written) or str(one.name).endswith(("_out", "output"))
    }
    assert said - known == set()
    names = {str(one.name) for _, one in options if isinstance(one.type, ResultFile)}
    assert names >= {"html", "svg", "chrome_trace", "archive", "checkpoint", "runs_out", "figure"}
    assert not names & {str(one.name) for _, one in options if not isinstance(one.type, ResultFile)}


def test_a_repair_may_replace_the_placement_that_it_repairs() -> None:
    """It is what is true from then on: the only input that a result may replace."""
    replaced = [(name, one.name) for name, command in COMMANDS.items() for one in command.params if one.type is EARLIER]
    assert replaced == [("repair", "placement")]


def test_no_result_replaces_an_input(tmp_path: Path) -> None:
    """Whatever is read from a file, by every command: the error names the file, and the option that reads it."""
    file = tmp_path / "meta.yaml"
    file.write_text("dp_size: 1\n")
    assert len(PAIRS) > 200
    for words, command, result, read in PAIRS:
        assert isinstance(result.type, ResultFile), words
        written = str(tmp_path if result.type.inside else file)
        context = click.Context(command)
        context.params = {
            option.name or "": (value,) if option.multiple or option.nargs == -1 else value
            for option, value in ((read, str(file)), (result, written))
        }
        with pytest.raises(InvalidInput, match="is read as ") as caught:
            check_results(context)
        assert caught.value.where == str(file), words
        name = read.opts[0] if isinstance(read, click.Option) else read.make_metavar(context)
        assert name in caught.value.message, words
