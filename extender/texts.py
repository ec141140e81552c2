"""Names in sentences, and texts of users cut to a length that is safe to repeat.

Annotations may have 256 kB, and so may the reference of a pod to its owner.  Such a text would come back in the name of
a gang, in each sentence about it, and in an answer to Filter once for each node.
"""

import hashlib
from collections.abc import Iterable
from typing import Self

from ground.errors import few

LONGEST = 253  # bytes of a text of a user that is repeated anywhere: as many as a name of an object may have
LONGEST_KEY = 253 + 1 + 63  # of a node label: the name of a domain, a slash, a name; none is longer in Kubernetes
_CUT = "..."


def clip(text: str, most: int = LONGEST) -> str:
    """Return a text of at most so many bytes of UTF-8, at least 3: itself, or its beginning and three dots."""
    # A character has one byte at least: what comes after so many cannot stay.
    encoded = text[: most + 1].encode("utf-8", "replace")
    if len(encoded) <= most:
        return text
    return encoded[: most - len(_CUT)].decode("utf-8", "ignore") + _CUT


class CutText(str):
    """The beginning of a text too long to be kept, and a hash that tells it from others; above :data:`LONGEST_KEY`."""

    size: int  # bytes of all of it

    __slots__ = ("size",)

    def __new__(cls, text: str) -> Self:
        """Return what stays of a text."""
        encoded = text.encode("utf-8", "replace")
        digest = hashlib.blake2b(encoded, digest_size=16).hexdigest()
        shortened = super().__new__(cls, f"{clip(text, LONGEST_KEY)}{digest}")
        shortened.size = len(encoded)
        return shortened


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters, at least :data:`LONGEST_KEY`; of a longer one, what stays of it."""
    return text if len(text) <= most else CutText(text)


def size_of(text: str) -> int:
    """Return the bytes of a text, or of that of which it is the beginning."""
    return text.size if isinstance(text, CutText) else len(text.encode("utf-8", "replace"))


def short_name(name: str) -> str:
    """Return a name of at most :data:`LONGEST` bytes: itself, or its beginning and a hash that tells it from others."""
    if size_of(name) <= LONGEST:
        return name
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"{clip(name, LONGEST - len(digest) - 1)}-{digest}"


def named(names: Iterable[str]) -> str:
    """Return the first three names, cut short, and how many more there are."""
    return few(map(clip, names), most=3)
