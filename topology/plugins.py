"""Extensions by name: what installed packages offer through an entry-point group."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar

from topology import DISTRIBUTION
from topology.errors import UnknownName, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

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
        """Return what the entry point of that name makes, importing its module alone.

        Our own wins over one of the same name that another package offers, which is left out with a warning: what
        commands say of ``exact`` must not depend on what else is installed.

        :param where: the option that the name came from, if not the usual one.
        :raises UnknownName: no package offers the name, or several others do.
        """
        where, points = where or self._where, list(_entry_points(self.group))
        found = [point for point in points if point.name == name]
        if not found:
            known = {point.name: point for point in points}
            fix = f"{did_you_mean(name, known)}use one of {', '.join(sorted(known))}"
            raise UnknownName(f"{self._unknown} {name!r}", where=where, fix=fix)
        chosen = found[0]
        if len(found) > 1:
            of_package = {_package(point): point for point in found}
            if DISTRIBUTION not in of_package:
                several = f"{' and '.join(sorted(of_package))} both offer {name!r} ({self.group})"
                raise UnknownName(several, where=where, fix="uninstall all but one of these packages")
            chosen = of_package.pop(DISTRIBUTION)
            _warn_once(name, self.group, tuple(sorted(of_package)))
        made: T = chosen.load()()
        return made


def _package(point: EntryPoint) -> str:
    """Return the name of the package that offers an entry point."""
    return point.dist.name if point.dist is not None else point.value


@cache
def _warn_once(name: str, group: str, packages: tuple[str, ...]) -> None:
    """Say that others offer what we have; a name may be asked for several times in a run."""
    from logging import getLogger

    several, logger = ", ".join(packages), getLogger(__name__)
    logger.warning("%s of %s (%s) is left out: the name is taken by %s", name, several, group, DISTRIBUTION)


@cache
def _entry_points(group: str) -> EntryPoints:
    """Return the entry points of a group, looked up once: the metadata of everything installed is read for it."""
    from importlib.metadata import entry_points

    return entry_points(group=group)
