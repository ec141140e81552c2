"""Requests as nobody honest sends them, each made of an honest body by one seeded random mutation."""

from __future__ import annotations

import asyncio
import copy
import json
import random
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from httptools import HttpParserError, HttpResponseParser

from extender.service.web import HEAD_BYTES

DEPTH = 100_000
NAMES = 100_000
PIPELINED = 20
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)
"""What a client of HTTP/2 says first, with an empty frame of settings."""

ODD_VALUES: tuple[Any, ...] = (None, True, -1, 2**70, 1e308, "", "x" * 300, "\ud800", "\x00", [], {}, [[]], {"": {}})
LITERALS = (b"1e999999", b"9" * 5_000, b"-0", b"NaN", b"Infinity", b"0x10", b'"\\ud800"', b"'a'", b"[" * 50, b"")
LENGTHS = (b"-1", b"+5", b"0x10", b"1 1", b"1, 1", b"", b"9" * 30, b"1e3", b"0", b"5\x00")
HEADS = (
    b"BREW /filter HTTP/1.1",
    b"GET /filter HTTP/1.1",
    b"POST /\x00 HTTP/1.1",
    b"POST //filter/../preempt?%ff=%00 HTTP/1.1",
    b"POST http://other/filter HTTP/1.1",
    b"POST /filter HTTP/3.0",
    b"POST /filter HTTP/1.0",
    b"POST /filter",
    b"post /filter http/1.1",
    b"CONNECT other:443 HTTP/1.1",
    b"OPTIONS * HTTP/1.1",
    b"GET /metrics HTTP/1.1",
    b"TRACE /healthz HTTP/1.1",
)
CHUNKS = (
    b"zz\r\n",
    b"-1\r\n",
    b"5\r\nab",
    b"f" * 16 + b"\r\n",
    b"1;" + b"e" * 9_000,
    b"0\r\n",
    b"3\r\nabcd\r\n0\r\n\r\n",
)
CODINGS = (b"xchunked", b"chunked, identity", b" chunked", b"chunked\r\nTransfer-Encoding: identity", b"gzip, chunked")


def request(body: bytes, *, line: bytes = b"POST /filter HTTP/1.1", headers: Sequence[bytes] | None = None) -> bytes:
    """A request with a body.

    :param headers: in place of its length.
    """
    own = [b"Content-Length: %d" % len(body)] if headers is None else headers
    return b"\r\n".join([line, b"Host: x", b"Content-Type: application/json", *own, b"", body])


def hostile_requests(bodies: Sequence[bytes], count: int, *, seed: int) -> Iterator[tuple[str, bytes]]:
    """So many requests, with the name of what is wrong with each.

    :param bodies: of honest questions to Filter.
    """
    chance = random.Random(seed)
    for _ in range(count):
        (kind,) = chance.choices([*MUTATIONS], [SELDOM if kind in LONG else 1.0 for kind in MUTATIONS])
        yield kind, MUTATIONS[kind](chance, chance.choice(bodies))


def _other_bytes(chance: random.Random, body: bytes) -> bytes:
    changed = bytearray(body)
    for _ in range(chance.randint(1, 20)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return request(bytes(changed), line=_line(chance))


def _other_values(chance: random.Random, body: bytes) -> bytes:
    """One to three values anywhere in the document are others, or are gone."""
    document = json.loads(body)
    for _ in range(chance.randint(1, 3)):
        inside, at = chance.choice([*_places(document)])
        inside[at] = copy.deepcopy(chance.choice(ODD_VALUES))
    inside, at = chance.choice([*_places(document)])
    if isinstance(inside, dict) and chance.random() < 0.3:
        del inside[at]
    return request(json.dumps(document).encode(), line=_line(chance))


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Each value of a document: what it is in, and its key there."""
    keys = [*document] if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    for key in keys:
        yield document, key
        yield from _places(document[key])


def _line(chance: random.Random) -> bytes:
    return chance.choice((b"POST /filter HTTP/1.1", b"POST /preempt HTTP/1.1"))


def _other_literals(chance: random.Random, body: bytes) -> bytes:
    """A value is no JSON, or a number that nothing can hold."""
    at = chance.choice([place for place, byte in enumerate(body) if byte == ord(":")]) + 1
    return request(body[:at] + chance.choice(LITERALS) + b"," + body[at:])


def _deep(chance: random.Random, body: bytes) -> bytes:
    opened = chance.choice((b"[", b'{"a":', b'{"Pod":', b'{"metadata":'))
    text = opened * (DEPTH // len(opened))
    at = body.index(b":") + 1
    return request(chance.choice((text, body[:at] + text, text + b"1" + b"]" * len(text))))


def _broken_utf8(chance: random.Random, body: bytes) -> bytes:
    quote = chance.choice([place for place, byte in enumerate(body) if byte == ord('"')]) + 1
    return request(body[:quote] + chance.choice((b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf8\x88")) + body[quote:])


def _cut_body(chance: random.Random, body: bytes) -> bytes:
    return request(body[: chance.randrange(len(body))])


def _cut_off(chance: random.Random, body: bytes) -> bytes:
    whole = request(body)
    return whole[: chance.randrange(1, len(whole))]


def _bad_length(chance: random.Random, body: bytes) -> bytes:
    said = [chance.choice((*LENGTHS, b"%d" % (len(body) + 5), b"%d" % (len(body) // 2)))]
    if chance.random() < 0.3:
        said.append(b"%d" % len(body))
    return request(body, headers=[b"Content-Length: " + length for length in said])


def _bad_chunks(chance: random.Random, body: bytes) -> bytes:
    good = b"%x\r\n%s\r\n" % (len(body), body) if chance.random() < 0.5 else b""
    return request(good + chance.choice(CHUNKS), headers=[b"Transfer-Encoding: chunked"])


def _smuggled(chance: random.Random, body: bytes) -> bytes:
    """Two lengths for one body, and a second request in what only one of them leaves over."""
    inner = request(body, line=b"GET /metrics HTTP/1.1")
    coding = b"Transfer-Encoding: " + chance.choice((b"chunked", *CODINGS))
    return request(b"0\r\n\r\n" + inner, headers=[b"Content-Length: %d" % chance.choice((5, 0, len(inner))), coding])


def _http2(chance: random.Random, body: bytes) -> bytes:
    return HTTP2 + chance.randbytes(chance.randint(0, 100)) + (request(body) if chance.random() < 0.5 else b"")


def _odd_head(chance: random.Random, body: bytes) -> bytes:
    odd = (b"X: " + bytes([chance.randrange(256)]), b"no colon", b": nothing", b"Expect: 100-continue", b"Upgrade: h2c")
    headers = [chance.choice(odd), b"Content-Length: %d" % len(body)]
    return request(body, line=chance.choice(HEADS), headers=headers)


def _long_head(chance: random.Random, body: bytes) -> bytes:
    many = chance.choice(([b"X: " + b"y" * 8 * HEAD_BYTES], [b"X%d: y" % number for number in range(HEAD_BYTES // 8)]))
    return request(body, headers=[*many, b"Content-Length: %d" % len(body)])


def _many_names(chance: random.Random, body: bytes) -> bytes:
    document = json.loads(body)
    document["NodeNames"] = [f"n{number}" for number in range(NAMES)] if chance.random() < 0.5 else ["n"] * NAMES
    return request(json.dumps(document).encode())


def _pipelined(chance: random.Random, body: bytes) -> bytes:
    others = (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", request(body), request(b"{"), b"GET / HTTP/9\r\n\r\n")
    return b"".join(chance.choices(others, (5, 10, 3, 1), k=PIPELINED))


def _noise(chance: random.Random, body: bytes) -> bytes:
    return chance.randbytes(chance.randint(1, 3_000))


Mutation = Callable[[random.Random, bytes], bytes]
MUTATIONS: Mapping[str, Mutation] = {
    "other bytes": _other_bytes,
    "other values": _other_values,
    "numbers and literals": _other_literals,
    "depth": _deep,
    "broken UTF-8": _broken_utf8,
    "cut body": _cut_body,
    "cut off": _cut_off,
    "bad length": _bad_length,
    "bad chunks": _bad_chunks,
    "smuggling": _smuggled,
    "HTTP/2": _http2,
    "odd head": _odd_head,
    "long head": _long_head,
    "many names": _many_names,
    "pipelining": _pipelined,
    "noise": _noise,
}
"""What is wrong with a request -> how it is made."""
LONG = ("depth", "long head", "many names", "pipelining")
SELDOM = 0.2
"""How much seldomer than others the long ones come: each takes as long as ten others."""


async def statuses(port: int, tls: ssl.SSLContext, sent: bytes, *, patience: float) -> list[int]:
    """Send bytes on a connection of their own, and return the statuses of the answers to them.

    :param patience: seconds to wait for each; a request that does not end has none.
    """
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="localhost")
    except OSError:
        return []
    answers = _Answers()
    try:
        writer.write(sent)
        while data := await asyncio.wait_for(reader.read(1 << 18), patience if not answers.statuses else FURTHER):
            answers.parser.feed_data(data)
    except (OSError, TimeoutError, HttpParserError):
        pass
    finally:
        writer.transport.abort()
    return answers.statuses


FURTHER = 0.02
"""Seconds to wait for one more answer."""


class _Answers:
    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.parser = HttpResponseParser(self)

    def on_message_complete(self) -> None:
        self.statuses.append(self.parser.get_status_code())
