"""A small HTTP server that answers range queries like Prometheus, well or badly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import numpy as np

Answer = Callable[[str, float, float, float], Any]


class FakePrometheus:
    """What it was asked and what it answers.

    :ivar answer: query, start, end, step -> JSON document, or (status, body) as it stands.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[dict[str, str]] = []
        self.authorization: list[str | None] = []
        self.url = ""


@contextmanager
def serving(answer: Answer) -> Iterator[FakePrometheus]:
    """Run the server for a while."""
    fake = FakePrometheus(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            asked = {key: value[0] for key, value in form.items()}
            fake.asked.append({"path": self.path, **asked})
            fake.authorization.append(self.headers.get("Authorization"))
            made = fake.answer(asked["query"], *(float(asked[key]) for key in ("start", "end", "step")))
            status, body = made if isinstance(made, tuple) else (200, json.dumps(made).encode())
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def machines(*, broken: str | None = None, count: int = 6, factor: float = 0.1, until: float | None = None) -> Answer:
    """Machines n0.. that all do the same, but for one that has idled since the beginning.

    :param factor: what its values are of its peers'.
    :param until: when it is like its peers again, seconds from the beginning; ``None`` = never.
    """

    def answer(query: str, start: float, end: float, step: float) -> Any:
        times = np.arange(start, end + step / 2.0, step)
        result = []
        for k in range(count):
            values = 50.0 + np.random.default_rng([k, int(start)]).normal(0.0, 1.0, len(times))
            values[times - start < (np.inf if until is None else until)] *= factor if f"n{k}" == broken else 1.0
            pairs = [[float(t), f"{v:.2f}"] for t, v in zip(times, values, strict=True)]
            result.append({"metric": {"node": f"n{k}"}, "values": pairs})
        return {"status": "success", "data": {"resultType": "matrix", "result": result}}

    return answer
