"""Names of nodes and UIDs of pods as short texts, so that a plan of 12,500 ranks takes a third of a megabyte."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from uuid import UUID

MOST_BYTES = 64_000_000
"""Names of the nodes of one plan, unpacked; a million nodes with long names."""

_NONE = bytes(16)


def pack_names(names: Sequence[str]) -> str | None:
    """Return the names of nodes as one short text; ``None`` for none."""
    return base64.b64encode(zlib.compress("\n".join(names).encode(), 6)).decode() if names else None


def unpack_names(text: str | None) -> tuple[str, ...]:
    """Return the names in such a text.

    :raises ValueError: it is none, or absurdly long.
    """
    if not text:
        return ()
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"assignment.nodes cannot be unpacked: {error}") from None
    if not unpacker.eof:
        raise ValueError("assignment.nodes is cut off, or absurdly long")
    return tuple(plain.decode().split("\n"))


def pack_uids(uids: Sequence[str | None]) -> str | None:
    """Return the UIDs of pods as one short text; ``None`` for none."""
    if not uids:
        return None
    return base64.b64encode(b"".join(_NONE if uid is None else UUID(uid).bytes for uid in uids)).decode()


def unpack_uids(text: str | None) -> tuple[str | None, ...]:
    """Return the UIDs in such a text.

    :raises ValueError: it is none.
    """
    try:
        data = base64.b64decode(text or "", validate=True)
    except binascii.Error as error:
        raise ValueError(f"assignment.pods cannot be unpacked: {error}") from None
    if len(data) % 16:
        raise ValueError("assignment.pods is cut off")
    chunks = (data[i : i + 16] for i in range(0, len(data), 16))
    return tuple(None if chunk == _NONE else str(UUID(bytes=chunk)) for chunk in chunks)
