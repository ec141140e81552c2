"""Extensions by name: what installed packages offer through an entry-point group."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint
from typing import Any

from topology.errors import UnknownName, did_you_mean


def make_named(name: str, points: Iterable[EntryPoint], *, unknown: str, where: str) -> Any:
    """Return what the entry point of that name makes; only its own module is imported.

    :param points: the entry points of one group; each names something that is called without arguments.
    :param unknown: the beginning of the message that no package offers the name.
    :param where: the option that the name came from.
    :raises UnknownName: no installed package offers it.
    """
    found = {point.name: point for point in points}
    if name not in found:
        raise UnknownName(
            f"{unknown} {name!r}",
            where=where,
            fix=f"{did_you_mean(name, found)}use one of {', '.join(sorted(found))}",
        )
    return found[name].load()()
