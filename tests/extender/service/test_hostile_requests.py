"""Requests as nobody honest sends them, to the server with its certificates, its limits and the whole application."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from pathlib import Path

import pytest

from extender.extender_metrics import Metrics
from extender.service.web import BodyReader, HttpApplication, RotatingContext, TlsFiles, web_server
from scheduler.queue.priority import PriorityAge
from tests.case_counts import cases
from tests.extender.service.hostile_requests import MUTATIONS, hostile_requests, request, statuses
from tests.extender.service.https import Authority, install, run, send, started
from tests.extender.things import NOW, gang_pods, member_json, minipods, node_json, plan_all, state_of

REQUESTS = cases(4_000)
AT_ONCE = 16
LIMIT = 4_000_000
NODES = ["m0-0", "m0-1", "m0-2", "m0-3"]


@pytest.mark.many_cases
def test_no_request_is_a_fault_of_ours(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No answer 500 and nothing logged with a traceback; an honest question has the same answer before and after, and
    neither connections nor the room for bodies are used up.
    """
    files = TlsFiles(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"), str(tmp_path / "ca.crt"))
    authority = Authority(tmp_path, "ca")
    install(files, authority, authority)
    state = state_of(minipods(4), gang_pods("g", 2))
    plan_all(state)
    bodies = BodyReader(LIMIT)
    application = HttpApplication(
        state=state,
        metrics=Metrics(plans=state.plans.values, leads=lambda: True),
        now=lambda: NOW,
        unready=list,
        lacks=lambda: state.definitions.sentences,
        policy=PriorityAge(),
        bodies=bodies,
        mutual_tls=True,
    )
    server = web_server(application.app(), tls=RotatingContext(files))
    by_name = {"Pod": member_json("g", 1, 2, gate=False), "Nodes": None, "NodeNames": NODES}
    whole = {**by_name, "Nodes": {"items": [node_json(name) for name in NODES]}, "NodeNames": None}
    honest = [json.dumps(document).encode() for document in (by_name, whole)]
    found: Counter[str] = Counter()

    async def scenario() -> None:
        tls, turns = authority.client(shows=authority), asyncio.Semaphore(AT_ONCE)

        async def ask(kind: str, sent: bytes) -> None:
            async with turns:
                answered = await statuses(port, tls, sent, patience=0.3)
            found.update(f"{status} {kind}" for status in answered)

        async with started(server, socket.create_server(("127.0.0.1", 0))) as port:
            before = [await send(port, request(body), tls=tls) for body in honest]
            await asyncio.gather(*(ask(*one) for one in hostile_requests(honest, REQUESTS, seed=5)))
            assert [await send(port, request(body), tls=tls) for body in honest] == before
            assert all(answer.startswith(b"HTTP/1.1 200") for answer in before)
            while server.server_state.connections:
                await asyncio.sleep(0.01)

    run(scenario(), seconds=300)
    assert {what: count for what, count in found.items() if what.startswith("500")} == {}
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
    assert bodies._room == 4 * LIMIT
    assert len({what.partition(" ")[2] for what in found}) >= len(MUTATIONS) - 1, "those cut off have no answer"
