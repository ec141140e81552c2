"""Lines out of the chunks in which a watch arrives."""

from __future__ import annotations


class Lines:
    """Collects chunks and gives back complete lines; an object of a watch may be a megabyte, over many chunks."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add a chunk, and return the lines that it completes, without their ends and without empty ones."""
        end = chunk.rfind(b"\n")
        if end < 0:
            self._rest.append(chunk)
            return []
        whole = b"".join([*self._rest, chunk[:end]])
        self._rest = [chunk[end + 1 :]]
        return [line for line in whole.split(b"\n") if line]
