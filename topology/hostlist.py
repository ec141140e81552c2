"""Slurm hostlists, ``n[0001-0128,0200],login1``: names in few characters.

ClusterShell expands and folds.  A hostlist is read and counted here first, so that ``n[0-400000000]`` is refused
before anything of that size exists, and so that nothing but plain names and ranges reaches ClusterShell (no groups,
which run commands, no set operators, no wildcards).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topology.cluster import MAX_NODES
from topology.errors import InvalidInput, TooLarge

_PIECE = re.compile(r"""\[(?P<ranges>[^\[\]]*)\]|(?P<comma>,)|[^\s,\[\]#="'\\&!^@*%?(){}]+""")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_NAME = re.compile(r"""[^\s,\[\]#="'\\&!^@*%?(){}]+""")
_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,18})([^0-9]*)")


def expand_hostlist(text: str, *, where: str = "", limit: int = MAX_NODES) -> list[str]:
    """All names of a hostlist, in natural order.

    :param where: its place, for error messages.
    :raises InvalidInput: broken brackets or ranges, characters that no host name has, a name twice.
    :raises TooLarge: more than ``limit`` names.
    """
    count, plain = _count(text, where)
    if count > limit:
        raise TooLarge(
            f"the hostlist {_short(text)} names {count if count < 10**15 else 'absurdly many'} nodes",
            where=where,
            fix=f"a cluster has at most {MAX_NODES:,} nodes; correct the range",
        )
    names = text.split(",") if plain else _expand(text, where)
    if len(set(names)) != count:
        raise InvalidInput(f"the hostlist {_short(text)} names a node twice", where=where, fix="name every node once")
    return names


def fold_hostlist(names: Iterable[str]) -> str:
    """The names as a hostlist: those that differ only in their last number share one bracket.

    :raises InvalidInput: a name has a character that no hostlist can carry.
    """
    from ClusterShell.RangeSet import RangeSet

    families: dict[tuple[str, str], list[str]] = {}
    words: list[str] = []
    for name in names:
        check_name(name)
        if parts := _LAST_NUMBER.fullmatch(name):
            prefix, number, suffix = parts.groups()
            families.setdefault((prefix, suffix), []).append(number)
        else:
            words.append(name)
    for (prefix, suffix), numbers in families.items():
        ranges = str(RangeSet(",".join(numbers))) if len(numbers) > 1 else numbers[0]
        words.append(f"{prefix}[{ranges}]{suffix}" if len(numbers) > 1 else f"{prefix}{ranges}{suffix}")
    return ",".join(words)


def check_name(name: str) -> None:
    """Whether a name can stand in a hostlist and in Slurm's files.

    :raises InvalidInput: it cannot: it has a space, a bracket, a comma, a quote, ...
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"the name {name!r} cannot stand in a Slurm hostlist", fix="rename it")


def _expand(text: str, where: str) -> list[str]:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetParseError

    try:
        return list(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except NodeSetParseError as error:
        raise InvalidInput(
            f"the hostlist {_short(text)} cannot be expanded: {error}",
            where=where,
            fix="put a letter between two ranges: r[1-2]n[1-4]",
        ) from None


def _count(text: str, where: str) -> tuple[int, bool]:
    """Number of names, and whether the hostlist is without brackets."""
    total, term, at, plain = 0, 0, 0, True
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None or (piece["comma"] and not term):
            raise InvalidInput(
                f"the hostlist {_short(text)} is broken at character {at + 1}",
                where=where,
                fix="write names and ranges like n[001-128,200],login1",
            )
        at = piece.end()
        if piece["comma"]:
            total, term = total + term, 0
        elif piece["ranges"] is not None:
            plain = False
            term = max(term, 1) * _count_ranges(piece["ranges"], text, where)
        else:
            term = max(term, 1)
    if not term:
        raise InvalidInput(
            f"the hostlist {_short(text)} ends early", where=where, fix="write at least one name after each comma"
        )
    return total + term, plain


def _count_ranges(ranges: str, text: str, where: str) -> int:
    total = 0
    for part in ranges.split(","):
        bounds = _RANGE.fullmatch(part)
        first, last = (bounds[1], bounds[2] or bounds[1]) if bounds else ("1", "0")
        padded = first.startswith("0") and len(first) > 1
        if int(last) < int(first) or ((padded or last.startswith("0")) and len(first) != len(last)):
            raise InvalidInput(
                f"the range {_short(part)} in the hostlist {_short(text)} is not one",
                where=where,
                fix="write ranges like [001-128], low to high, both ends with as many digits",
            )
        total += int(last) - int(first) + 1
    return total


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
