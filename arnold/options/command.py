"""What all commands share: ``-q`` and ``-v``; no value of an option is lost; documents of one JSON shape; what
``--help`` says of an option.
"""

import logging
import re
import shlex
from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

import click

from arnold.console.output import JSON, kept_as, verbosity_options
from arnold.options.field_options import PLACES, DependentOption, check_results, finite
from ground.errors import ArnoldError, InvalidInput, UnknownName, did_you_mean


class Command(click.Command):
    """A command that refuses a second value of an option that takes one: click would keep the last and say nothing.

    A plain flag (``--json``) may be repeated: it says the same twice.  Nor may a result go to a file that is read.
    ``--output`` has the short form ``-o``.  A fraction is neither infinite nor NaN.  The help of each
    option says what holds without it.

    :param help: where lines begin with ``$``, as in a shell, these are its examples, and the last of it.
    """

    def __init__(
        self, name: str | None, *, help: str | None = None, epilog: str | None = None, **settings: Any
    ) -> None:
        text, *examples = re.split(r"^ *\$ ", help or "", flags=re.MULTILINE)
        if examples:
            epilog = "\b\nExamples:\n" + "".join(f"  {example.strip()}\n" for example in examples)
        super().__init__(name, help=text, epilog=epilog, **settings)
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

        :raises InvalidInput: an option of one value is given twice, or without one that it needs, or a result would
            replace an input or another.
        """
        # the parser eats the list that it is given
        values, _, given = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_WORDS], from_context = list(args), ""
        if not ctx.resilient_parsing and self.get_help_option(ctx) not in given:
            for option, count in Counter(given).items():
                if count == 1 or not isinstance(option, click.Option):
                    continue
                # a list has all its values, and a flag without an opposite says the same twice
                if not option.multiple and (not option.is_flag or option.secondary_opts):
                    name = "/".join([option.opts[0], *option.secondary_opts[:1]])
                    fix = "give it once: it takes one value"
                    raise InvalidInput(f"{name} is given twice", where=ctx.command_path, fix=fix)
            for option in self.params:
                if isinstance(option, DependentOption):
                    option.check(given)
            from arnold.options.context import take_from_context

            named = {
                parameter.name
                for parameter in given
                if isinstance(parameter, click.Option) or isinstance(values[parameter.name], str)
            }
            from_context = take_from_context(self, ctx, named)
        left = super().parse_args(ctx, args)
        if from_context:  # said once it is known how much is to be said
            logging.getLogger(__name__).info("%s", from_context)
        if not ctx.resilient_parsing:
            check_results(ctx)
        return left

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; an error about an option that the context said has the line of the context."""
        try:
            return super().invoke(ctx)
        except ArnoldError as error:
            error.where = ctx.meta.get(PLACES, {}).get(error.where, error.where)
            raise


_WORDS = "arnold.words"  # Key of the context's notes: the words after the name of the command


def said_again(name: str, *more: str, without: Collection[str] = ()) -> str:
    """Return the command line of a command with what this run was given of its options, as a shell takes it.

    :param more: words that follow.
    :param without: options that are left out; those about what is printed always are.
    """
    context = click.get_current_context()
    root = context.find_root()
    other = root.command.get_command(root, name) if isinstance(root.command, click.Group) else None
    parameters = (other or context.command).params
    takes_arguments = any(isinstance(parameter, click.Argument) for parameter in parameters)
    kept = {spelling for parameter in parameters for spelling in parameter.opts}
    kept -= {*without, "--json", "--verbose", "--quiet"}
    options = {spelling: option for option in context.command.params for spelling in option.opts}
    words, left = list[str](), iter(context.meta.get(_WORDS, ()))
    for word in left:
        spelling, _, value = word.partition("=")
        option = options.get(spelling) if word.startswith("-") else None
        takes_value = isinstance(option, click.Option) and not option.is_flag and not value
        of_option = [word, next(left)] if takes_value else [word]
        if option is None:  # the value of an argument
            words += of_option if takes_arguments else []
        elif kept.issuperset(option.opts):
            words += of_option
    return f"arnold {name} {shlex.join([*words, *more])}"


class Group(click.Group):
    """A group of commands; ``-q`` and ``-v`` may stand before the name of its command as well as after.

    The first sentence of a command is its line in the help of the group.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += verbosity_options()

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of its commands, in the order in which they are made."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name, or raise UnknownName with the closest name: there is none."""
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None and name == "help":
            if len(args) == 1:
                click.echo(ctx.get_help())
                ctx.exit()
            return self.resolve_command(ctx, [*args[1:], "--help"])
        if command is None and not name.startswith("-"):
            names = self.list_commands(ctx)
            fix = f"{did_you_mean(name, names)}commands: {', '.join(names)}"
            raise UnknownName(f"there is no command {name!r}", where=ctx.command_path, fix=fix)
        return (name, command, args[1:]) if command else super().resolve_command(ctx, args)


class JsonCommand(Command):
    """A command with ``--json``: how its answer is printed is no business of the command (:func:`prints_json`).

    :param document: ``module:name`` of the JSON record or pydantic model, or union of them, that ``--json`` prints;
        imported only to print its schema.
    """

    def __init__(self, name: str | None, *, document: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.document = document
        self.params.append(
            click.Option(
                ["--json"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=kept_as(JSON),
                help="Print one JSON document (see `arnold schema`).",
            )
        )


LARGE = 1e9  # Bounds from here on keep out what no number can be stored as; they say nothing to a reader


class OptionHelp(NamedTuple):
    """What there is to say of an option."""

    words: str  # its sentence, and whether it may be repeated
    default: str  # what holds without it, or "required"; empty for a flag that is off
    bounds: str  # the range of its numbers; empty where it has none that a person would leave


def option_help(option: click.Option) -> OptionHelp:
    """Return what there is to say of an option."""
    words, _, in_words = (option.help or "").partition("  [default: ")
    words += " May be repeated." if option.multiple else ""
    in_words = in_words.removesuffix("]") or (option.show_default if isinstance(option.show_default, str) else "")
    if option.required:
        default = "required, or the context's" if option.name in ("cluster", "clusters") else "required"
    elif in_words or option.is_flag:
        default = in_words
    else:
        default = _written(option.default) if option.show_default else "none"
    if not isinstance(numbers := option.type, click.IntRange | click.FloatRange):
        return OptionHelp(words, default, "")
    low, high = numbers.min, numbers.max
    high = None if high is None or high >= LARGE else high
    lower, upper = "above" if numbers.min_open else "at least", "below" if numbers.max_open else "at most"
    if low is None:
        bounds = "" if high is None else f"at most {_written(high)}"
    elif high is None:
        bounds = f"{lower} {_written(low)}"
    elif numbers.min_open or numbers.max_open:
        bounds = f"{lower} {_written(low)}, {upper} {_written(high)}"
    else:
        bounds = f"{_written(low)} to {_written(high)}"
    return OptionHelp(words, default, bounds)


def explained(option: click.Option) -> str:
    """Return the help of an option in a line: ``Threads that a solver may use.  [default: 2; 1 to 1024]``."""
    words, default, bounds = option_help(option)
    default = default if option.required or not default else f"default: {default}"
    extra = "; ".join(filter(None, (default, bounds)))
    return f"{words}  [{extra}]" if extra else words


def _written(value: object) -> str:
    """Return a value as it is typed: 10 and not 10.0; several with commas between them."""
    if isinstance(value, tuple | list):
        return ", ".join(map(_written, value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
