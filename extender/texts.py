"""Texts of users, cut to a length that is safe to repeat.

Annotations may have 256 kB, and so may the reference of a pod to its owner.  Such a text would come back in the name of
a gang, in each sentence about it, and in an answer to Filter once for each node.
"""

from __future__ import annotations

import hashlib

LONGEST = 253
"""Bytes of the longest text of a user that is repeated anywhere: what Kubernetes allows to a name of an object."""

_CUT = "..."


def clip(text: str, most: int = LONGEST) -> str:
    """Return a text of at most so many bytes of UTF-8: itself, or its beginning and three dots.

    :param most: at least 3.
    """
    # A character has one byte at least: what comes after so many cannot stay.
    encoded = text[: most + 1].encode("utf-8", "replace")
    if len(encoded) <= most:
        return text
    return encoded[: most - len(_CUT)].decode("utf-8", "ignore") + _CUT


def short_name(name: str) -> str:
    """Return a name of at most :data:`LONGEST` bytes: itself, or its beginning and a hash that tells it from others."""
    if len(name.encode("utf-8", "replace")) <= LONGEST:
        return name
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"{clip(name, LONGEST - len(digest) - 1)}-{digest}"
