"""Bodies of requests, read whole and never more than allowed."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request


class BodyReader:
    """Reads bodies.

    :param limit: bytes of one body.  A node takes 7 to 25 kB in full-node mode, a name some 20 bytes in the other.
    :param at_once: bytes of all bodies that are being read at a time.
    """

    def __init__(self, limit: int, *, at_once: int | None = None) -> None:
        self.limit = limit
        self._room = 4 * limit if at_once is None else at_once

    async def read(self, request: Request) -> bytes:
        """Return the body of a request.

        :raises HTTPException: 413 too long, 503 too many long ones at once, 400 the client went away.
        """
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > self.limit:
            raise self._too_long()
        chunks: list[bytes] = []
        taken = 0
        try:
            async for chunk in request.stream():
                taken += len(chunk)
                self._room -= len(chunk)
                if taken > self.limit:
                    raise self._too_long()
                if self._room < 0:
                    raise HTTPException(503, "too many large requests at once", {"connection": "close"})
                chunks.append(chunk)
        except ClientDisconnect:
            raise HTTPException(400, "the request did not arrive") from None
        finally:
            self._room += taken
        return b"".join(chunks)

    def _too_long(self) -> HTTPException:
        return HTTPException(
            413,
            f"a request may have {self.limit:,} bytes\nTo fix: set nodeCacheCapable: true, or raise --body-limit",
            {"connection": "close"},
        )
