"""What all commands share: no value of an option is lost; and those that print one JSON document know its shape."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import Any

import click

from arnold.commands.result_files import check_results
from topology.errors import InvalidInput


class Command(click.Command):
    """A command that refuses a second value of an option that takes one: click would keep the last and say nothing.

    A plain flag (``--json``) may be repeated: it says the same twice.  Nor may a result go to a file that is read.
    """

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
