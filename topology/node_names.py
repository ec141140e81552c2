"""Names of nodes: Slurm hostlists, ``n[0001-0128,0200],login1``, and other spellings than the cluster's.

What is written here is read by Slurm, which knows less than what is read here: behind the last bracket of a name
nothing may stand, a range has at most 65,536 numbers, and a name that ends in a number of 2^64 or more is read as one
that ends in 2^64 - 1.  Source: ``src/common/hostlist.c`` of Slurm, tried with 22.05 and 24.11.

ClusterShell's range sets know how to pad, expand and fold numbers; the names around them are put together here.  A
hostlist is counted before it is expanded, so that ``n[0-400000000]`` is refused before anything of that size exists.
ClusterShell's own node sets are not used: they know groups, which run commands, and set operators, and are slow.

Lists may spell a node with a domain or without, in capitals or in small letters: :class:`NodeNames` finds it.
"""

import re
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from functools import cached_property

from ground.errors import InvalidInput, InvalidTopology, TooLarge, some
from ground.records import checked
from topology.cluster import MAX_NODES

_PIECE = re.compile(r"""\[(?P<ranges>[^\[\]]*)\]|(?P<comma>,)|(?P<word>[^\s,\[\]#="'\\&!^@*%?(){}]+)""")
_DIGITS = 64  # Of a number in a bracket, zeros before it among them: a Python number of thousands takes long to read
_RANGE = re.compile(rf"([0-9]{{1,{_DIGITS}}})(?:-([0-9]{{1,{_DIGITS}}}))?")
_NAME = re.compile(r"""[^\s,\[\]#="'\\&!^@*%?(){}]+""")
_ABSURD = 10**15
_NUMBERED = re.compile(r"(.*?)([0-9]+)()")  # a name, cut at the number at its end
_LAST_NUMBER = re.compile(r"(.*?)([0-9]+)([^0-9]*)")  # the same, cut at its last number, whatever stands behind it
_LARGEST = 2**64 - 1  # Number at the end of a name that Slurm reads as it is
_RANGE_NUMBERS = 65_536  # Of a range, and ranges of a bracket, that Slurm reads: MAX_RANGE and MAX_RANGES

_Term = list[tuple[str, str]]
"""One comma-separated part of a hostlist: words and insides of brackets, as pairs (word, ranges), one of them empty."""


def expand_hostlist(text: str, *, where: str = "", limit: int = MAX_NODES) -> list[str]:
    """Return the names of a hostlist, at most ``limit``, each once, as it is written; numbers of a bracket ascend."""
    terms = list(_terms(text, where))
    count = 0
    for term in terms:
        total = 1  # counting ends where the number is absurd
        for _, ranges in term:
            if ranges and total < _ABSURD:
                total *= sum(_check_range(part, text, where) for part in ranges.split(","))
        count += total
    if count > limit:
        many = f"the hostlist {_short(text)} names {count if count < _ABSURD else 'absurdly many'} nodes"
        raise TooLarge(many, where=where, fix=f"a cluster has at most {MAX_NODES:,} nodes; correct the range")
    from ClusterShell.RangeSet import RangeSet

    names: list[str] = []
    for term in terms:
        beginnings = [""]
        for word, ranges in term:
            endings = list(RangeSet(ranges).striter()) if ranges else [word]
            beginnings = [name + ending for name in beginnings for ending in endings]
        names += beginnings
    if len(set(names)) < count:
        raise InvalidInput(f"the hostlist {_short(text)} names a node twice", where=where, fix="name every node once")
    return names


@checked
def fold_hostlist(names: Iterable[str]) -> str:
    """Return names as a hostlist that Slurm reads as these names: those that differ in the number at their end alone
    share a bracket.

    :raises InvalidInput: a name cannot stand in one, by :func:`check_name`, or ends as :func:`outgrows_slurm` says.
    """
    names = list(names)
    for name in names:
        check_name(name)
        if outgrows_slurm(name):
            outgrown = f"the name {name!r} ends in a number of 2^64 or more, which Slurm reads as another"
            raise InvalidInput(outgrown, fix="rename it, so that it ends in a smaller number or in a letter")
    return _folded(names, _NUMBERED)


def _folded(names: Iterable[str], cut: re.Pattern[str]) -> str:
    """Return names as a hostlist; those share a bracket that differ in one number alone, at which they are cut."""
    from ClusterShell.RangeSet import RangeSet

    families: dict[tuple[str, str], list[str]] = {}
    terms: list[str] = []
    for name in names:
        parts = cut.fullmatch(name)
        # counting up to the largest number, Slurm never comes to an end
        if parts and len(parts[2]) <= _DIGITS and int(parts[2]) < _LARGEST:
            families.setdefault((parts[1], parts[3]), []).append(parts[2])
        else:
            terms.append(name)
    for (before, behind), numbers in families.items():
        if len(numbers) > _RANGE_NUMBERS:
            numbers.sort(key=lambda number: (len(number), number))
        for start in range(0, len(numbers), _RANGE_NUMBERS):
            part = numbers[start : start + _RANGE_NUMBERS]
            ranges = f"[{RangeSet(','.join(part))}]" if len(part) > 1 else part[0]
            terms.append(f"{before}{ranges}{behind}")
    return ",".join(terms)


def spell_names(names: Iterable[str], *, most: int | None = None) -> str:
    """Return the names for a person: a hostlist, as Arnold reads it, of those that can stand in one, and the others in
    quotes one by one.

    :param most: characters; of a longer text the first names stand, and how many more there are.

    >>> spell_names(["n1.site", "gpu node 1", "n2.site"])
    "n[1-2].site,'gpu node 1'"
    """
    names = list(names)
    text = _spelt(names)
    if most is None or len(text) <= most:
        return text
    fits, too_many = 0, len(names)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        text = f"{_spelt(names[:middle])} and {len(names) - middle:,} more"
        fits, too_many = (middle, too_many) if len(text) <= most else (fits, middle)
    return f"{_spelt(names[:fits])} and {len(names) - fits:,} more" if fits else f"{len(names):,} in all"


def _spelt(names: Sequence[str]) -> str:
    plain: list[str] = []
    odd: list[str] = []
    for name in names:
        if _NAME.fullmatch(name) and not outgrows_slurm(name):
            plain.append(name)
        else:
            odd.append(repr(name))
    return ",".join([_folded(plain, _LAST_NUMBER), *odd] if plain else odd)


def check_name(name: str, *, what: str = "a Slurm hostlist") -> None:
    """Raise :class:`InvalidInput` for a name that cannot stand in Slurm's files: one with a space, a comma, ..."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"the name {name!r} cannot stand in {what}", fix="rename it")


def outgrows_slurm(name: str) -> bool:
    """Return whether a name ends in a number of 2^64 or more: Slurm takes all of these for the largest below."""
    parts = _NUMBERED.fullmatch(name)
    # a number of thousands of digits is none that Python reads; zeros before it count for nothing
    return parts is not None and (len(digits := parts[2].lstrip("0")) > 20 or int(digits or "0") > _LARGEST)


def _terms(text: str, where: str) -> Iterator[_Term]:
    """Cut a hostlist at its commas and brackets."""
    term: _Term = []
    at = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None or (piece["comma"] and not term):
            broken = f"the hostlist {_short(text)} is broken at character {at + 1}"
            raise InvalidInput(broken, where=where, fix="write names and ranges like n[001-128,200],login1")
        at = piece.end()
        if piece["comma"]:
            yield term
            term = []
        else:
            if piece["ranges"] == "":
                _check_range("", text, where)
            term.append((piece["word"] or "", piece["ranges"] or ""))
    if not term:
        early = f"the hostlist {_short(text)} ends early"
        raise InvalidInput(early, where=where, fix="write at least one name after each comma")
    yield term


def _check_range(part: str, text: str, where: str) -> int:
    """Return how many numbers a range holds."""
    bounds = _RANGE.fullmatch(part)
    first, last = (bounds[1], bounds[2] or bounds[1]) if bounds else ("1", "0")
    padded = any(number.startswith("0") and len(number) > 1 for number in (first, last))
    if int(last) < int(first) or (padded and len(first) != len(last)):
        broken = f"the range {_short(part)} in the hostlist {_short(text)} is not one"
        fix = "write ranges like [001-128], low to high, both ends with as many digits"
        raise InvalidInput(broken, where=where, fix=fix)
    return int(last) - int(first) + 1


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


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
