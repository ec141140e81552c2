"""Extensions by name: what installed packages offer through an entry-point group."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar

from topology.errors import UnknownName, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

T = TypeVar("T")


class PluginGroup(Generic[T]):
    """What installed packages offer through one entry-point group; each entry point is called without arguments."""

    def __init__(self, group: str, *, unknown: str, where: str) -> None:
        self.group = group
        self._unknown = unknown  # the beginning of the message that no package offers a name
        self._where = where  # the option that names come from

    def names(self, *, inside: str | None = None) -> tuple[str, ...]:
        """Return the names on offer, sorted.

        :param inside: a package: names of what its own modules make alone, which is known without importing anything.
        """
        points = _entry_points(self.group)
        return tuple(sorted({one.name for one in points if inside in (None, one.module.partition(".")[0])}))

    def load(self, name: str, *, where: str = "") -> T:
        """Return what the entry point of that name makes, importing its module alone; ``where`` is the option that the
        name came from, if not the usual one.
        """
        found = {point.name: point for point in _entry_points(self.group)}
        if name not in found:
            fix = f"{did_you_mean(name, found)}use one of {', '.join(sorted(found))}"
            raise UnknownName(f"{self._unknown} {name!r}", where=where or self._where, fix=fix)
        made: T = found[name].load()()
        return made


@cache
def _entry_points(group: str) -> EntryPoints:
    """Return the entry points of a group, looked up once: the metadata of everything installed is read for it."""
    from importlib.metadata import entry_points

    return entry_points(group=group)
