"""Extensions by name: what installed packages offer through an entry-point group, and whose fault is whose."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar

from ground import DISTRIBUTION
from ground.errors import ArnoldError, UnknownName, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from importlib.metadata import EntryPoint, EntryPoints

T = TypeVar("T")


class PluginFailed(ArnoldError):
    """What another package offers cannot be imported, or raised what it must not."""

    exit_code = 1


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
        return tuple(sorted({point.name for point in points if inside in (None, point.module.partition(".")[0])}))

    def load(self, name: str, *, where: str = "") -> T:
        """Return what the entry point of that name makes, importing its module alone.

        Our own wins over one of the same name that another package offers, which is left out with a warning: what
        commands say of ``exact`` must not depend on what else is installed.

        :param where: the option that the name came from, if not the usual one.
        :raises UnknownName: no package offers the name, or several others do.
        :raises PluginFailed: what another package offers cannot be imported or made.
        """
        where, points = where or self._where, list(_entry_points(self.group))
        offers = [point for point in points if point.name == name]
        if not offers:
            names = {point.name: point for point in points}
            fix = f"{did_you_mean(name, names)}use one of {', '.join(sorted(names))}"
            raise UnknownName(f"{self._unknown} {name!r}", where=where, fix=fix)
        chosen = offers[0]
        if len(offers) > 1:
            of_package = {_package(point): point for point in offers}
            if DISTRIBUTION not in of_package:
                several = f"{' and '.join(sorted(of_package))} both offer {name!r} ({self.group})"
                raise UnknownName(several, where=where, fix="uninstall all but one of these packages")
            chosen = of_package.pop(DISTRIBUTION)
            several = ", ".join(sorted(of_package))
            _warn_once(f"{name} of {several} ({self.group}) is left out: the name is taken by {DISTRIBUTION}")
        try:
            made: T = chosen.load()()
        except ArnoldError:
            raise
        except Exception as error:
            if _package(chosen) == DISTRIBUTION:
                raise
            raise _failed(chosen, error) from error
        return made

    def load_all(self, *, but: Collection[str] = ()) -> Iterator[T]:
        """Yield what is on offer, in the order of the names, but for some names.

        What another package offers and cannot be imported is left out with a warning: it must not be in the way of
        whoever asks for none by name.
        """
        for name in sorted({*self.names()} - {*but}):
            try:
                yield self.load(name)
            except PluginFailed as error:
                _warn_once(f"{error.message} ({self.group}): left out")


@contextmanager
def noted(words: str) -> Iterator[None]:
    """Note what was being done on an error that comes out of a block and is not of Arnold's tree."""
    try:
        yield
    except ArnoldError:
        raise
    except Exception as error:
        error.add_note(words)
        raise


def failed_plugin(error: BaseException) -> PluginFailed | None:
    """Return the plug-in that raised an error, or was on the way to it, with the innermost line of its own.

    ``None`` = no code of a package that offers something to Arnold was running.
    """
    from importlib.metadata import entry_points
    from traceback import walk_tb

    offered = {
        point.module: point
        for group in entry_points().groups
        if group.startswith("arnold.")
        for point in entry_points(group=group)
        if _package(point) != DISTRIBUTION
    }
    for frame, line in reversed([*walk_tb(error.__traceback__)]):
        module = frame.f_globals.get("__name__", "")
        package = module.partition(".")[0]
        if own := [point for name, point in offered.items() if name.partition(".")[0] == package]:
            # of several plug-ins of a package the one whose module it is
            nearest = next((point for point in own if point.module == module), own[0])
            return _failed(nearest, error, where=f"{frame.f_code.co_filename}:{line}")
    return None


def _failed(point: EntryPoint, error: BaseException, *, where: str = "") -> PluginFailed:
    package = _package(point)
    context = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
    words = f"{point.name} of the package {package} failed{context}: {type(error).__name__}: {error}"
    return PluginFailed(words, where=where, fix=f"tell the authors of {package}, or uninstall it")


def _package(point: EntryPoint) -> str:
    """Return the name of the package that offers an entry point."""
    return point.dist.name if point.dist is not None else point.value


@cache
def _warn_once(sentence: str) -> None:
    """Say what is left out; it may be asked for several times in a run."""
    from logging import getLogger

    getLogger(__name__).warning("%s", sentence)


@cache
def _entry_points(group: str) -> EntryPoints:
    """Return the entry points of a group, looked up once: the metadata of everything installed is read for it."""
    from importlib.metadata import entry_points

    return entry_points(group=group)
