"""Names of nodes in other spellings than the cluster's: with a domain and without, in capitals and in small letters."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable
from functools import cached_property

from topology.errors import InvalidTopology, some

_DOMAIN = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?")
"""What may stand behind the first dot of a host name, in small letters: no blank, no bar, no comma of a row."""


class NodeNames(Container[str]):
    """The names of a cluster's nodes, found in another spelling too.

    A name without a domain is the one node that has it with any (``n01`` and ``n01.example.com``), and the other way
    round; capitals make no difference, as in host names.  A name that is spelled as the cluster has it comes first.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._own = names

    def __contains__(self, name: object) -> bool:
        return name in self._own or (isinstance(name, str) and bool(self._alike(name)))

    def find(self, name: str, *, where: str) -> str | None:
        """Return the node's name in the cluster; ``None`` = it has no such node.

        :raises InvalidTopology: it has several.
        """
        if name in self._own:
            return name
        alike = self._alike(name)
        if len(alike) > 1:
            which = f"{name!r} may be any of {some(alike)}"
            raise InvalidTopology(which, where=where, fix="write names as the cluster file has them")
        return alike[0] if alike else None

    def any(self, name: str) -> str:
        """Return the node's name in the cluster where there is one such node, else the name itself."""
        alike = [] if name in self._own else self._alike(name)
        return alike[0] if len(alike) == 1 else name

    @property
    def spelled(self) -> Iterable[str]:
        """The names as the cluster has them."""
        return self._own

    @cached_property
    def _spellings(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Return the names by their small letters, and those with a domain by the part before it."""
        whole: dict[str, list[str]] = {}
        short: dict[str, list[str]] = {}
        for name in self._own:
            lower = name.lower()
            whole.setdefault(lower, []).append(name)
            if "." in lower:
                short.setdefault(lower.partition(".")[0], []).append(name)
        return whole, short

    def _alike(self, name: str) -> list[str]:
        whole, short = self._spellings
        lower = name.lower()
        if lower in whole:
            return whole[lower]
        host, dot, domain = lower.partition(".")
        # the parts of an address, 10.0.0.1, are no host and domain
        if host.isdecimal() or (dot and not _DOMAIN.fullmatch(domain)):
            return []
        return whole.get(host, []) if dot else short.get(host, [])
