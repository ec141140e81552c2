"""Names that are unique only below their parent, made unique."""

from __future__ import annotations

from collections.abc import Sequence

Path = tuple[str, ...]


def qualified(paths: Sequence[Path]) -> tuple[list[Path], list[int]]:
    """Return paths in which a name that repeats below different parents is written ``parent/name``.

    :param paths: one for each node, from broad to close, all of one length; empty = no domain at that level.
    :returns: the paths, and how many names were qualified at each level.
    """
    depth = len(paths[0]) if paths else 0
    result: list[list[str]] = [[] for _ in paths]
    counts = []
    for level in range(depth):
        parents: dict[str, set[str]] = {}
        above = [_closest(done) for done in result]
        for path, parent in zip(paths, above, strict=True):
            parents.setdefault(path[level], set()).add(parent)
        repeated = {name for name, under in parents.items() if name and len(under) > 1}
        for path, parent, done in zip(paths, above, result, strict=True):
            name = path[level]
            done.append(f"{parent}/{name}" if name in repeated and parent else name)
        counts.append(len(repeated))
    return [tuple(path) for path in result], counts


def _closest(path: Sequence[str]) -> str:
    """Return the closest domain of a path."""
    return next((name for name in reversed(path) if name), "")
