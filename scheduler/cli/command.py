"""A command that prints either text or one JSON document, and knows the shape of that document."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click


class JsonCommand(click.Command):
    """A command with ``--json``, passed on as ``as_json``.

    :param document: ``module:name`` of the pydantic model, or union of models, that ``--json`` prints; imported only to
        print its schema.
    """

    def __init__(self, *args: Any, document: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._document = document
        self.params.append(
            click.Option(
                ["--json", "as_json"],
                is_flag=True,
                is_eager=True,
                help="Print one JSON document (see `arnold schema`).",
            )
        )

    def document(self) -> Any:
        """The type of the JSON document."""
        return document_at(self._document)


def document_at(target: str) -> Any:
    """The type at ``module:name``."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
