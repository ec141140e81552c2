"""Things by what they have in common."""

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> defaultdict[K, list[V]]:
    """Return the values of each key, keys and values in the order of the pairs; of any other key there are none.

    >>> dict(grouped((len(word), word) for word in ("tp", "ring", "pp")))
    {2: ['tp', 'pp'], 4: ['ring']}
    """
    groups: defaultdict[K, list[V]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups
