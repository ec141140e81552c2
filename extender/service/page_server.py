"""A page about what there is now, over HTTP: read by any number of browsers, which can change nothing.

Every reader has a stream of server-sent events.  None is queued: a reader is told what has changed since it was last
told, and only when its connection has taken that; so one that is slow skips states, and costs no memory.  Where there
is no news it is told so every two seconds.

A page of another site must not read ours through a reader's browser: no header lets it, and a request that names
another host than those we are known by is refused, which DNS rebinding would need.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from time import monotonic
from typing import Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from extender.service.settings import Address
from extender.service.web import listen, serve_until_signal, web_server
from ground.errors import InvalidInput

TICK = 0.5  # seconds after which a stream looks whether it is to end
HEARTBEAT = 2.0  # seconds after which a reader is told that there is no news
MOST_READERS = 200  # streams at once
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")  # names by which a page is known that this machine alone can open
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class LivePage(Protocol):
    """A page, and what has changed of what it shows."""

    def html(self) -> tuple[str, str]:
        """Return the page and its content security policy."""

    def news(self, since: int) -> tuple[int, str]:
        """Return the number of the newest state, and in a line of JSON what of it another state has not; -1 = none."""

    async def newer(self, than: int, *, seconds: float) -> None:
        """Return when there is a newer state, or so many seconds later."""

    async def follow(self) -> None:
        """Keep it up to date for ever."""


def page_application(page: LivePage, hosts: Sequence[str], *, ending: Callable[[], bool] = lambda: False) -> Starlette:
    """Return the application that shows a page: ``/`` and ``/events``, by GET and HEAD.

    :param hosts: names and addresses by which readers may call it.
    :param ending: whether streams are to end.
    """
    readers = set[object]()

    async def show(_: Request) -> Response:
        html, policy = page.html()
        return HTMLResponse(html, headers=HEADERS | {"Content-Security-Policy": policy})

    async def events(request: Request) -> Response:
        if request.method == "HEAD":
            return Response(headers=HEADERS, media_type="text/event-stream")
        if len(readers) >= MOST_READERS:
            return PlainTextResponse("too many readers\n", status_code=503, headers=HEADERS)
        return StreamingResponse(stream(), headers=HEADERS, media_type="text/event-stream")

    async def stream() -> AsyncIterator[str]:
        reader, told, spoke = object(), -1, monotonic()
        readers.add(reader)
        try:
            while not ending():
                number, line = page.news(told)
                if number != told or monotonic() - spoke >= HEARTBEAT:
                    yield f"data: {line}\n\n"  # comes back when the connection has taken it
                    told, spoke = number, monotonic()
                await page.newer(told, seconds=TICK)
        finally:
            readers.discard(reader)

    by_name = Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    return Starlette(routes=[Route("/", show), Route("/events", events)], middleware=[by_name])


def known_by(bind: Address, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names by which readers may call a page.

    :raises InvalidInput: others than this machine can reach it, and no name says that this is meant.
    """
    if not names and not bind.loopback:
        message = f"anybody who reaches {bind} could read the names of gangs, namespaces and nodes"
        fix = "bind to 127.0.0.1 and forward the port (ssh -L), or give --host-name NAME, by which others open the page"
        raise InvalidInput(message, where="--bind", fix=fix)
    given = [f"[{name}]" if ":" in name and not name.startswith("[") else name for name in names]
    if unusable := [name for name in given if not name or set("*/@ ") & set(name)]:
        fix = "write the name or address alone, as in --host-name arnold.example.com"
        raise InvalidInput(f"{unusable[0][:80]!r} is no name of a host", where="--host-name", fix=fix)
    own = [f"[{bind.host}]" if ":" in bind.host else bind.host]
    return (*LOOPBACK, *(own if bind.loopback else ()), *given)


async def serve_page(page: LivePage, bind: Address, hosts: Sequence[str], *, said: Callable[[str], None]) -> None:
    """Show a page until SIGTERM or Ctrl-C; raise what ends its following, and ``InvalidInput``: the address is taken.

    :param said: told the address when it can be opened.
    """
    listener = listen(bind)
    server = web_server(page_application(page, hosts, ending=lambda: server.should_exit))
    following = asyncio.create_task(page.follow())
    following.add_done_callback(lambda _: setattr(server, "should_exit", True))
    said(f"http://{Address(*listener.getsockname()[:2])}/")
    await serve_until_signal(server, listener)
    if following.done():
        await following
    following.cancel()
