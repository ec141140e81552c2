"""The options of a command from the fields of a dataclass: each is declared once, where the code uses it.

.. code-block:: python

    @dataclass(frozen=True, kw_only=True)
    class PlanQuestion:
        nodes: Annotated[int, Ge(1)]
        time_limit: Annotated[float, Interval(gt=0, le=60)] = field(default=1.0, metadata={"metavar": "SECONDS"})
        shapes: tuple[str, ...] = field(default=(), metadata={"option": "--shape"})

    @click.command("plan")
    @options_of(PlanQuestion, to="question")
    def command(*, question: PlanQuestion) -> None: ...

The module of the dataclass imports neither click nor this one.  The type of a field says what its option takes:
``bool`` is a flag, ``Literal`` a choice of words, ``tuple[T, ...]`` an option that may be repeated, ``Annotated`` with
marks of ``annotated_types`` a range; a field without a default is a required option.  The docstring under a field is
its help.  NaN and infinities are refused.  What a type leaves open is in the ``metadata`` of the field (:data:`WORDS`).

Options that name files say by their type whether they are read (:data:`FILE`) or written (:data:`RESULT`): standard
input is read once, no result takes the place of an input or of another result.  What is both, like a checkpoint,
counts as written; a placement may be replaced by its repair.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, partial, wraps
from math import inf, isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

import click

from ground.errors import InvalidInput
from ground.files import STDIN
from ground.records import field_docs, field_hints, field_types


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


class DependentOption(click.Option):
    """An option that means nothing without another.

    :param needs: options of the command of which one has to be given with it; empty = it stands by itself.
    """

    def __init__(self, *args: Any, needs: Collection[str] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.needs = tuple(needs)

    def check(self, given: Collection[click.Parameter]) -> None:
        """Raise InvalidInput if the command line has this option and none of those that it needs."""
        if self.needs and self in given and not any({*self.needs} & {*option.opts} for option in given):
            needed = " or ".join(self.needs)
            fix = f"add {needed}, or leave {self.opts[0]} out"
            raise InvalidInput(f"means nothing without {needed}", where=self.opts[0], fix=fix)


class FieldOption(DependentOption):
    """An option that gives the value of a field of a record; its help is read from the source when it is shown."""

    _help: str | None

    def __init__(self, *args: Any, record: type, field: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.record = record
        self.field = field

    @property
    def help(self) -> str | None:
        """What the help of the command says of it: the first paragraph of the docstring under the field, if not given
        itself.
        """
        if not self._help:
            doc = field_docs(self.record).get(self.field, "")
            self._help = " ".join(doc.partition("\n\n")[0].split()).replace("``", "`")
        return self._help

    @help.setter
    def help(self, words: str | None) -> None:
        self._help = words


FILE = click.Path()  # Any file name; what is wrong with the file is said by its reader.  Shells complete it
RESULT = ResultFile()
EARLIER = EarlierResult()
PLACES = "arnold.places"  # Key of click's notes: option -> where the context says it (:mod:`arnold.options.context`)
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

Completion = Callable[[click.Context, click.Parameter, str], list[str]]
"""Return the words that complete what was typed, for the shell."""

WORDS: Mapping[str, str] = MappingProxyType(
    {
        "option": "name of the option, instead of the field's with dashes; False = the field is no option",
        "short": "one letter with a dash that stands for the option, too",
        "metavar": "what stands for the value in the help",
        "help": "the help, instead of the docstring under the field",
        "default": "words for the default in the help, instead of the value",
        "separator": "a tuple is one value whose parts this separates, instead of an option that is repeated",
        "file": 'True = names of files that are read, "result" = of files that are written; shells complete both',
        "envvar": "environment variable that gives the value where the option does not",
        "needs": "options of which one has to be given with it",
    }
)
"""Keys of a field's ``metadata``, and their meaning for its option."""


def options_of(
    kind: type | partial[Any],
    *,
    to: str | None = None,
    only: Collection[str] | None = None,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    completions: Mapping[str, Completion] = MappingProxyType({}),
) -> Callable[[F], F]:
    """Return a decorator that gives a command one option for each field of a dataclass, in their order; for a field
    that is a dataclass itself, those of its fields.

    The command gets the values by the names of the fields, or the dataclass that they describe.

    :param kind: as :func:`takes` has it.
    :param to: parameter of the command that gets the dataclass; ``None`` = the values by the names of the fields.
    :param only: names of the fields that are options of this command; ``None`` = all.
    :param defaults: name of a field -> default of this command, instead of the field's.
    :param completions: name of a field -> what completes its value in a shell.
    :raises TypeError: a field is of a type that no option has, or its metadata has an unknown key.
    """
    described: Any = kind.func if isinstance(kind, partial) else kind

    def decorate(command: F) -> F:
        command = command if to is None else takes(**{to: kind})(command)
        for field in reversed(_option_fields(described)):
            if (part := _parts(described).get(field.name)) is not None:
                command = options_of(part)(command)
            elif only is None or field.name in only:
                own = field.default if field.default_factory is MISSING else field.default_factory()
                default = defaults.get(field.name, own)
                command = _option(described, field, default, completions.get(field.name))(command)
        return command

    return decorate


def file_option(
    *names: str, help: str, metavar: str = "FILE", written: bool = False, **settings: Any
) -> Callable[[F], F]:
    """Return an option that names a file, which is read, or ``written``."""
    file = RESULT if written else FILE
    return click.option(*names, cls=DependentOption, type=file, metavar=metavar, help=help, **settings)


def takes(**kinds: type | partial[Any]) -> Callable[[F], F]:
    """Return a decorator that hands a command dataclasses in place of the values of their fields.

    It stands below the decorators that give the command its options.

    :param kinds: parameter of the command -> a dataclass, or a partial call of it with fields that are no options of
        this command.  A value goes to the first that has a field of its name; fields without an option have their
        defaults.
    """

    def decorate(command: F) -> F:
        @wraps(command)
        def call(**values: Any) -> Any:
            made = {name: take(kind, values) for name, kind in kinds.items()}
            return command(**made, **values)

        return cast("F", call)

    return decorate


def take(kind: Callable[..., T], values: dict[str, Any]) -> T:
    """Return what :func:`takes` calls a kind, of values of options, which are taken out of ``values``."""
    described: Any = kind.func if isinstance(kind, partial) else kind
    parts, given = _parts(described), dict[str, Any]()
    for field in _option_fields(described):
        if field.name in parts:
            given[field.name] = take(parts[field.name], values)
        elif field.name in values:
            given[field.name] = values.pop(field.name)
    return kind(**given)


def option_names(kind: type) -> dict[str, str]:
    """Return the option of each field, for messages: ``time_limit`` -> ``--time-limit``."""
    return {field.name: _name(field) for field in _option_fields(kind)}


def _option_fields(kind: Any) -> list[Field[Any]]:
    return [field for field in fields(kind) if field.init and field.metadata.get("option") is not False]


@cache
def _parts(kind: Any) -> Mapping[str, type]:
    """Return the fields of a dataclass that are dataclasses of options themselves, with their types."""
    hints = field_hints(kind)
    return {field.name: hints[field.name] for field in _option_fields(kind) if is_dataclass(hints[field.name])}


def _name(field: Field[Any]) -> str:
    return str(field.metadata.get("option") or "--" + field.name.replace("_", "-"))


def _option(kind: type, field: Field[Any], default: Any, completion: Completion | None) -> Callable[[F], F]:
    """Return the option of a field; a ``default`` that is ``MISSING`` = the option is required."""
    where = f"{kind.__name__}.{field.name}"
    if unknown := field.metadata.keys() - WORDS.keys():
        raise TypeError(f"{where}: no key of metadata is called {', '.join(sorted(unknown))}")
    words, name = field.metadata, _name(field)
    admitted, separator = field_types(kind).get(field.name), words.get("separator")
    if admitted is None or (separator is not None and (admitted.kind, admitted.many) != (str, True)):
        raise TypeError(f"{where}: no option takes a value of type {field.type}")
    value_type: Any = admitted.kind
    if words.get("file"):
        value_type = RESULT if words["file"] == "result" else FILE
    elif admitted.choices:
        value_type = click.Choice(admitted.choices)
    elif admitted.bounded:
        ranged: Any = click.IntRange if admitted.kind is int else click.FloatRange
        low = None if admitted.low == -inf else admitted.low
        high = None if admitted.high == inf else admitted.high
        value_type = ranged(low, high, min_open=admitted.low_open, max_open=admitted.high_open)
    settings: dict[str, Any] = {
        "type": value_type,
        "help": words.get("help"),
        "metavar": words.get("metavar") or ("FILE" if words.get("file") else None),
        "envvar": words.get("envvar"),
        "shell_complete": completion,
        "needs": words.get("needs", ()),
    }
    if separator is None:
        settings["multiple"] = admitted.many
        settings["callback"] = finite if admitted.kind is float else None
    else:

        def parts(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
            """Return the parts of a value, without spaces around them; each once."""
            return () if value is None else tuple(dict.fromkeys(part.strip() for part in value.split(separator)))

        settings["callback"] = parts
    if admitted.kind is bool:
        del settings["type"], settings["metavar"]
        settings["is_flag"] = True
        # a flag that is on by default needs a word that turns it off
        name = f"{name}/--no-{name.removeprefix('--')}" if default is True else name
    if default is MISSING:
        settings["required"] = True
    else:
        settings["default"] = separator.join(default) or None if separator is not None else default
        # an empty default is not shown; 0 is, although it equals False
        settings["show_default"] = words.get("default") or not (default is False or default in (None, (), ""))
    names = [*([words["short"]] if "short" in words else []), name, field.name]
    return click.option(*names, cls=FieldOption, record=kind, field=field.name, **settings)


def complete_names(names: Iterable[str], typed: str) -> list[str]:
    """Return what completes the last of the names that were typed with commas between them."""
    before, comma, last = typed.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


def finite(_: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Refuse NaN and infinities, which click's ranges let through, in a number, several, or ``None``."""
    for number in value if isinstance(value, tuple) else (value,):
        if number is not None and not isfinite(number):
            raise click.BadParameter(f"{number} is not a finite number.", param=parameter)
    return value


def check_results(context: click.Context) -> None:
    """Check the files that the options of a command name, before anything is computed.

    Raises as :func:`check_stdin` and :func:`refuse_clashes`.
    """
    check_stdin(context)
    kinds = [(option.type, file) for option, file in _named_files(context)]
    results = [written for kind, file in kinds if isinstance(kind, ResultFile) for written in kind.files(file)]
    refuse_clashes(results, context)


def check_stdin(context: click.Context, others: Mapping[str, Iterable[str]] = MappingProxyType({})) -> None:
    """Make sure that at most one of the files that a command reads is standard input.

    :param others: option -> files that are named inside its values.
    :raises InvalidInput: it would be read twice.
    """
    read = ((option, file) for option, file in _named_files(context) if not isinstance(option.type, ResultFile))
    from_stdin = [_spelt(option, context) for option, file in read if file == STDIN]
    from_stdin += [option for option, files in others.items() for file in files if file == STDIN]
    if len(from_stdin) > 1:
        problem = f"{' and '.join(from_stdin)} both read standard input, which can be read once only"
        raise InvalidInput(problem, where=from_stdin[1], fix="give a file for all but one")


def refuse_clashes(results: Iterable[str], context: click.Context) -> None:
    """Make sure that each result has a file of its own, which is none that the options of the command name as read.

    :raises InvalidInput: two results go to one file, or a result to a file that is read.
    """
    # a circle of links is an error of the file's reader or writer; a terminal or a live cluster is no file
    inputs = {
        os.path.realpath(file): option
        for option, file in _named_files(context)
        if not isinstance(option.type, ResultFile | EarlierResult) and Path(file).is_file()
    }
    written = set[str]()
    for file in results:
        path = os.path.realpath(file)
        if path in written:
            raise InvalidInput("two results go to one file", where=file, fix="give each a file of its own")
        if (reader := inputs.get(path)) is not None:
            raise InvalidInput(f"is read as {_spelt(reader, context)}", where=file, fix="give the result another file")
        written.add(path)


def _spelt(option: click.Parameter, context: click.Context) -> str:
    return option.opts[0] if isinstance(option, click.Option) else option.make_metavar(context)


def _named_files(context: click.Context) -> Iterator[tuple[click.Parameter, str]]:
    """Yield the options and arguments that name files, each with a file."""
    for option in context.command.params:
        if isinstance(option.type, click.Path):
            value = context.params.get(option.name or "")
            for file in value if isinstance(value, tuple) else (value,):
                if file is not None:
                    yield option, file
