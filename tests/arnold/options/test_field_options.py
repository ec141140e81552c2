"""Options of a command from the fields of a dataclass: what each type becomes, help, defaults, refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal

import click
import pytest
from annotated_types import Ge, Interval
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from arnold.options.field_options import complete_names, option_names, options_of, takes


@dataclass(frozen=True, kw_only=True)
class SeededTrip:
    """What the trip below inherits."""

    seed: Annotated[int, Interval(ge=0, le=9)] = 0
    """Same seed,
    same ``trip``.

    A second paragraph is not for the terminal.
    """


@dataclass(frozen=True, kw_only=True)
class Trip(SeededTrip):
    """One field of each sort."""

    nodes: Annotated[int, Ge(1)]
    """Nodes of the job."""
    share: Annotated[float, Interval(gt=0, le=1)] = field(default=0.5, metadata={"metavar": "SHARE"})
    limit: float | None = field(default=None, metadata={"default": "the best", "help": "Said by hand."})
    """Not shown."""
    ratios: tuple[Annotated[float, Ge(1)], ...] = field(default=(), metadata={"option": "--ratio"})
    names: tuple[str, ...] = field(default=("a", "b"), metadata={"separator": ","})
    form: Literal["json", "text"] = "json"
    dry: bool = False
    warm: bool = True
    path: str | None = field(default=None, metadata={"file": True})
    places: tuple[int, ...] = field(default_factory=lambda: (1, 2))
    home: str = field(default="h", metadata={"envvar": "TRIP_HOME"})
    inside: dict[str, int] = field(default_factory=dict, metadata={"option": False})


def run(*words: object, kind: type = Trip, **others: Any) -> tuple[Result, Any]:
    """Run a command of one dataclass; the result, and the dataclass if it was made."""
    made = []

    @click.command()
    @options_of(kind)
    @takes(record=partial(kind, **others))
    def command(*, record: object) -> None:
        made.append(record)

    return CliRunner().invoke(command, [str(word) for word in words]), (made or [None])[0]


def test_defaults_are_those_of_the_dataclass() -> None:
    """Only what has no default must be given."""
    assert run("--nodes", 3)[1] == Trip(nodes=3)
    missing, made = run()
    assert (missing.exit_code, made) == (2, None)
    assert "--nodes" in missing.output


def test_every_type() -> None:
    """Repeated options become tuples in order; a separator splits one value, without spaces and copies."""
    words = ["--nodes", 2, "--share", "0.25", "--limit", 7, "--ratio", 4, "--ratio", 2, "--names", "c, d,c"]
    words += ["--form", "text", "--dry", "--no-warm", "--path", "-", "--places", 9, "--seed", 5, "--home", "there"]
    done, made = run(*words, inside={"x": 1})
    assert done.exit_code == 0, done.output
    assert made == Trip(
        nodes=2,
        share=0.25,
        limit=7.0,
        ratios=(4.0, 2.0),
        names=("c", "d"),
        form="text",
        dry=True,
        warm=False,
        path="-",
        places=(9,),
        seed=5,
        home="there",
        inside={"x": 1},
    )
    assert all(type(one) is float for one in made.ratios)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nodes", 0], "range"),
        (["--share", 0], "range"),
        (["--share", "nan"], "finite"),
        (["--limit", "inf"], "finite"),
        (["--ratio", 2, "--ratio", "inf"], "finite"),
        (["--ratio", "0.5"], "range"),
        (["--form", "xml"], "text"),
        (["--nodes", "x"], "integer"),
        (["--seed", 10], "range"),
        (["--inside", 1], "No such option"),
    ],
)
def test_values_that_are_refused(words: list[object], message: str) -> None:
    """Out of range, not finite, not of the type: the dataclass is not made."""
    done, made = run("--nodes", 1, *words)
    assert (done.exit_code, made) == (2, None)
    assert message in done.output


def test_help() -> None:
    """Docstrings, ranges, defaults and metavars are in it; options in order of the fields, inherited ones first."""
    text = " ".join(run("--help")[0].output.split())
    assert "--seed INTEGER RANGE Same seed, same `trip`. [default: 0; 0<=x<=9]" in text
    assert "--nodes INTEGER RANGE Nodes of the job. [x>=1; required]" in text
    assert "--share SHARE [default: 0.5; 0<x<=1]" in text
    assert "Said by hand. [default: (the best)]" in text
    assert "Not shown" not in text
    assert "[default: a,b]" in text
    assert "--form [json|text] [default: json]" in text
    assert "--path FILE" in text
    assert "--warm / --no-warm" in text
    places = [text.index(name) for name in ("--seed", "--nodes", "--share", "--ratio", "--home")]
    assert places == sorted(places)


def test_a_variable_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands in for an option that is not given, and for no other."""
    monkeypatch.setenv("TRIP_HOME", "from outside")
    assert run("--nodes", 1)[1].home == "from outside"
    assert run("--nodes", 1, "--home", "given")[1].home == "given"


def test_names_of_options() -> None:
    """Underscores are dashes; a name in the metadata wins; what is no option has none."""
    names = option_names(Trip)
    assert names["ratios"] == "--ratio"
    assert names["nodes"] == "--nodes"
    assert "inside" not in names


def test_completion() -> None:
    """A shell is told the words of the function that is given."""

    @click.command()
    @options_of(Trip, completions={"home": lambda ctx, parameter, typed: [typed + "!"]})
    def command(**options: Any) -> None:
        """Nothing."""

    option = next(one for one in command.params if one.name == "home")
    assert [item.value for item in option.shell_complete(click.Context(command), "x")] == ["x!"]


def test_the_last_name_of_a_list_is_completed() -> None:
    """What stands before the last comma stays."""
    assert complete_names(["exact", "best-fit", "exit"], "best-fit,ex") == ["best-fit,exact", "best-fit,exit"]
    assert complete_names(["exact"], "b") == []


def _class(**fields: Any) -> Callable[[], type]:
    """A dataclass of one field, for the tests of what is refused."""
    annotations = {name: hint for name, (hint, _) in fields.items()}
    defaults = {name: default for name, (_, default) in fields.items()}
    return lambda: dataclass(type("Odd", (), {"__annotations__": annotations, **defaults}))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (_class(x=(dict, field(default_factory=dict))), "Odd.x: no option takes a value of type"),
        (_class(x=(tuple[int, ...], field(default=(), metadata={"separator": ","}))), "Odd.x: no option takes a value"),
        (_class(x=(int, field(default=1, metadata={"metvar": "N"}))), "Odd.x: no key of metadata is called metvar"),
    ],
)
def test_fields_that_are_no_option(made: Callable[[], type], message: str) -> None:
    """A mistake of the programmer shows when the command is built, with class and field."""
    with pytest.raises(TypeError, match=message):
        options_of(made())(lambda: None)


@given(st.integers(1, 10**6), st.floats(0.01, 1.0), st.lists(st.floats(1.0, 1e6), max_size=4))
def test_what_is_given_arrives(nodes: int, share: float, ratios: list[float]) -> None:
    """Any values within bounds come through a command line unchanged."""
    words = [word for ratio in ratios for word in ("--ratio", repr(ratio))]
    made = run("--nodes", nodes, "--share", repr(share), *words)[1]
    assert made == Trip(nodes=nodes, share=share, ratios=tuple(ratios))
