"""What all commands share: ``-q`` and ``-v``; no value of an option is lost; documents of one JSON shape."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import Any

import click

from arnold.console.verbosity import verbosity_options
from arnold.options.field_options import finite
from arnold.options.option_help import explained
from arnold.options.result_files import check_results
from ground.errors import InvalidInput


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
