"""What all commands share: ``-q`` and ``-v``; no value of an option is lost; documents of one JSON shape; what
``--help`` says of an option.
"""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import Any, NamedTuple

import click

from arnold.console.output import verbosity_options
from arnold.options.field_options import check_results, finite
from ground.errors import InvalidInput

# -- option_help --
# What ``--help`` says of an option: its words, whether it may be repeated, its default and its range.


LARGE = 1e9  # Bounds from here on keep out what no number can be stored as; they say nothing to a reader


class OptionHelp(NamedTuple):
    """What there is to say of an option."""

    words: str  # its sentence, and whether it may be repeated
    default: str  # what holds without it, or "required"; empty for a flag that is off
    bounds: str  # the range of its numbers; empty where it has none that a person would leave


def option_help(option: click.Option) -> OptionHelp:
    """Return what there is to say of an option."""
    words, _, default = (option.help or "").partition("  [default: ")
    words += " May be repeated." if option.multiple else ""
    bounds = _bounds(option.type) if isinstance(option.type, click.IntRange | click.FloatRange) else ""
    return OptionHelp(words, _default(option, default.removesuffix("]")), bounds)


def explained(option: click.Option) -> str:
    """Return the help of an option in a line: ``Threads that a solver may use.  [default: 2; 1 to 1024]``."""
    words, default, bounds = option_help(option)
    default = default if option.required or not default else f"default: {default}"
    extra = "; ".join(filter(None, (default, bounds)))
    return f"{words}  [{extra}]" if extra else words


def _default(option: click.Option, in_words: str) -> str:
    if option.required:
        return "required"
    if in_words or isinstance(option.show_default, str):
        return in_words or str(option.show_default)
    if option.is_flag:
        return ""
    return _written(option.default) if option.show_default else "none"


def _bounds(numbers: click.IntRange | click.FloatRange) -> str:
    """Return a range in words; empty where it keeps out nothing that a person would give."""
    low, high = numbers.min, numbers.max
    high = None if high is None or high >= LARGE else high
    if low is None:
        return "" if high is None else f"at most {_written(high)}"
    if high is None:
        return f"above {_written(low)}" if numbers.min_open else f"at least {_written(low)}"
    if numbers.min_open or numbers.max_open:
        beyond = "below" if numbers.max_open else "at most"
        return f"{'above' if numbers.min_open else 'at least'} {_written(low)}, {beyond} {_written(high)}"
    return f"{_written(low)} to {_written(high)}"


def _written(value: object) -> str:
    """Return a value as it is typed: 10 and not 10.0; several with commas between them."""
    if isinstance(value, tuple | list):
        return ", ".join(map(_written, value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


# -- command --
# What all commands share: ``-q`` and ``-v``; no value of an option is lost; documents of one JSON shape.


class Command(click.Command):
    """A command that refuses a second value of an option that takes one: click would keep the last and say nothing.

    A plain flag (``--json``) may be repeated: it says the same twice.  Nor may a result go to a file that is read.
    ``--output`` has the short form ``-o``.  A fraction is neither infinite nor NaN.  The help of each
    option says what holds without it.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        for option in self.params:
            if isinstance(option, click.Option) and option.opts == ["--output"]:
                option.opts = ["--output", "-o"]
            if isinstance(option.type, click.IntRange) and option.metavar is None:
                option.metavar = "N"
            if option.type is click.FLOAT or isinstance(option.type, click.FloatRange):
                option.callback = option.callback or finite
        self.params += verbosity_options()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options' lines of the help."""
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        records = [(record[0], explained(option)) for option in options if (record := option.get_help_record(ctx))]
        with formatter.section("Options"):
            formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words after the name of the command.

        :raises InvalidInput: an option of one value is given twice, or a result would replace an input or another.
        """
        # the parser eats the list that it is given
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        if not ctx.resilient_parsing and self.get_help_option(ctx) not in given:
            for option, count in Counter(given).items():
                if count > 1 and isinstance(option, click.Option) and _takes_one(option):
                    name = "/".join([option.opts[0], *option.secondary_opts[:1]])
                    raise InvalidInput(
                        f"{name} is given twice", where=ctx.command_path, fix="give it once: it takes one value"
                    )
        left = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            check_results(ctx)
        return left


def _takes_one(option: click.Option) -> bool:
    """Return whether a second value would replace the first: no list, and no flag without an opposite."""
    return not option.multiple and (not option.is_flag or bool(option.secondary_opts))


class Group(click.Group):
    """A group of commands; ``-q`` and ``-v`` may stand before the name of its command as well as after."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += verbosity_options()


class JsonCommand(Command):
    """A command with ``--json``, passed on as ``as_json``.

    :param document: ``module:name`` of the JSON record or pydantic model, or union of them, that ``--json`` prints;
        imported only to print its schema.
    """

    def __init__(self, *args: Any, document: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.document = document
        self.params.append(
            click.Option(
                ["--json", "as_json"],
                is_flag=True,
                is_eager=True,
                help="Print one JSON document (see `arnold schema`).",
            )
        )


def object_at(target: str) -> Any:
    """Import what stands at ``module:name``."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
