"""One name, one meaning: an option says the same of itself in every command that has it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import click
import pytest
from click.types import FloatParamType, IntParamType

from arnold.commands.command_table import SECTIONS
from arnold.commands.command_table import arnold as root
from arnold.options.command import explained
from tests.arnold.commands.test_cli_repeated_options import leaves

Arnold = Callable[..., Any]

OF_THE_COMMAND = {
    "--output": "the result of the command, in the format that it has",
    "--node-map": "workers are rows of a pipeline in op traces, and ranks in collectives",
    "--format": "replays have two inputs",
    "--algorithm": "replays may also place nothing",
    "--all": "of flags those of all nodes, of scores those of all jobs",
    "--cluster": "a report reads several snapshots",
    "--job": "calibration adds its records to the file, so that it has to be a job file",
    "--trace": "a report reads the accounting of a period that was, with the jobs that waited",
}
"""Options whose help differs from command to command, and why."""

OF_TWO_KINDS = {
    "--cluster": "a watch writes to a live Kubernetes, all others read a cluster of any form",
    "--grid": "a study has shapes of jobs, a job on Slurm its degrees of parallelism",
    "--from": "profiles are of any package, flags of a few tools",
    "--policy": "a watch advises or acts, all others put jobs in an order",
    "--nodes": "a job that runs has names of nodes, a capacity question numbers of them",
}
"""Options that take another kind of value in one command than in another, and why."""

RANGES = {"--load", "--repair-hours"}
"""Numbers that questions of `arnold capacity` take as ranges too, so that the type there is a text."""


@cache
def declared() -> Mapping[str, list[tuple[str, click.Option]]]:
    """Option -> each command that has it, with its declaration there."""
    found = defaultdict(list)
    for words, command in leaves(root):
        for option in command.params:
            if isinstance(option, click.Option):
                found[option.opts[0] if option.opts[0].startswith("--") else option.opts[-1]].append(
                    (" ".join(words), option)
                )
    return found


def meaning(option: click.Option) -> str:
    """The help without what is a matter of the command: its default, and whether several values count."""
    return (option.help or "").partition("  [default:")[0]


def placeholder(option: click.Option) -> str:
    """What stands for the value; that of a list is that of one, and a question may take a range instead."""
    return (
        ""
        if option.is_flag
        else str(option.metavar or type(option.type).__name__).replace("[,..]", "").replace("|RANGE", "")
    )


def kind(option: click.Option) -> str:
    """The kind of the value, whatever its bounds and words are; results are files too."""
    kinds = {click.Path: "file", click.Choice: "word", IntParamType: "whole number", FloatParamType: "number"}
    return next((word for kind, word in kinds.items() if isinstance(option.type, kind)), "text")


def test_a_name_means_the_same_everywhere() -> None:
    """Placeholder, type and help are one for all commands; where they need not be, it is said why."""
    for name in declared().keys() - OF_TWO_KINDS.keys():
        options = [option for _, option in declared()[name]]
        assert len({placeholder(option) for option in options}) == 1, name
        assert name in RANGES or len({kind(option) for option in options}) == 1, name
        assert name in OF_THE_COMMAND or len({meaning(option) for option in options}) == 1, name


def test_exceptions_are_needed() -> None:
    """What may differ does: a table of exceptions that nothing needs hides what comes later."""
    for name in OF_THE_COMMAND:
        assert len({meaning(option) for _, option in declared()[name]}) > 1, name
    for name in RANGES:
        assert len({kind(option) for _, option in declared()[name]}) > 1, name


def test_an_option_explains_itself() -> None:
    """A sentence or noun phrase with a full stop, a placeholder that says what stands there, and the default."""
    for name, commands in declared().items():
        for command, option in commands:
            place, words = f"{command} {name}", meaning(option)
            assert re.fullmatch(r"[A-Z].*[.)]", words), f"{place}: {words}"
            assert not re.search(r"\.\.$|^(Of|That|Before|After)\b", words), f"{place}: {words}"
            if not option.is_flag:
                assert option.metavar or isinstance(option.type, click.Choice), place
                assert re.search(r"  \[(default: .+|required.*)\]$", explained(option)), f"{place}: {explained(option)}"


def test_repeated_values_have_names_of_their_own() -> None:
    """An option that takes several has the name of one; a plural is something else.

    --seeds and --clusters are numbers of them, --jobs the processes, --levels labels to take as levels, --grids a file.
    """
    names = set(declared())
    assert {name for name in names if f"{name}s" in names} == {"--seed", "--cluster", "--job", "--level", "--grid"}


@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_quiet_and_verbose_stand_anywhere(arnold: Arnold, cluster_file: Any, place: str) -> None:
    """Before the group, before its command, and among the options of the command; the result is the same."""
    words: list[Any] = ["topology", "validate", cluster_file]
    where = {"before": 0, "between": 1, "after": 3}[place]

    def run(*flags: str) -> Any:
        return arnold(*words[:where], *flags, *words[where:])

    plain, quiet, verbose = run(), run("-q"), run("-v")
    assert plain.out == quiet.out == verbose.out
    assert quiet.err == ""
    assert "is of the format csv" in verbose.err
    assert "took" in verbose.err
    assert run("--quiet", "-q").err == ""
    assert run("-q", "-v").err.splitlines()[:-1] == verbose.err.splitlines()[:-1]


def test_every_command_has_the_common_options() -> None:
    """`-q` and `-v` everywhere, groups too, and `-o` wherever there is an `--output`."""

    def walk(command: click.Command) -> Iterator[click.Command]:
        yield command
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                member = command.get_command(click.Context(command), name)
                assert member is not None
                yield from walk(member)

    for command in walk(root):
        options = [set(option.opts) for option in command.params if isinstance(option, click.Option)]
        assert {"-q", "--quiet"} in options, command.name
        assert {"-v", "--verbose"} in options, command.name
        assert all("-o" in opts for opts in options if "--output" in opts), command.name


def test_help_has_ten_headings(arnold: Arnold) -> None:
    """Each command of ours stands under one, in the order of the table."""
    out = arnold("--help").out
    assert len(SECTIONS) == 10
    places = [out.index(f"\n{heading}:\n") for heading in SECTIONS]
    assert places == sorted(places)
    assert "Commands:" not in out
    assert "More commands:" not in out
