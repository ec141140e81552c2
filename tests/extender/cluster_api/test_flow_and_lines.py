"""The small parts of the door: turns, lines, paths, answers, events."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster_api.client import (
    EVENTS,
    LEASES,
    NODES,
    PODS,
    Busy,
    Conflict,
    Gone,
    Lines,
    NotFound,
    PatchFailed,
    Refused,
    Resource,
    refusal,
)
from extender.cluster_api.events import LONGEST_NOTE, REPEAT_SECONDS, EventRecorder, Regarding
from extender.cluster_api.flow import FlowControl
from tests.case_counts import examples
from tests.extender.fake_cluster import FakeCluster, soon, unreachable


def test_a_bucket_of_tokens() -> None:
    """Ten at once after a pause, then one in each hundredth of a second."""
    time = [0.0]

    async def sleep(seconds: float) -> None:
        time[0] += seconds

    async def scenario() -> list[float]:
        flow = FlowControl(rate=100, burst=10, parallel=5, clock=lambda: time[0], sleep=sleep)
        begun = []
        for _ in range(30):
            async with flow.turn():
                begun.append(time[0])
        time[0] += 60
        async with flow.turn():
            begun.append(time[0])
        return begun

    begun = asyncio.run(scenario())
    assert begun[:10] == [0.0] * 10
    assert begun[10:30] == pytest.approx([0.01 * i for i in range(1, 21)])
    assert begun[30] == pytest.approx(60.2), "a full bucket waits for nobody"


def test_at_most_so_many_under_way() -> None:
    """However fast the rate, only as many run at once as allowed."""

    async def scenario() -> int:
        flow = FlowControl(rate=1e9, burst=1000, parallel=3)
        running, most = 0, 0

        async def one() -> None:
            nonlocal running, most
            async with flow.turn():
                running += 1
                most = max(most, running)
                await asyncio.sleep(0)
                running -= 1

        await asyncio.gather(*(one() for _ in range(20)))
        return most

    assert asyncio.run(scenario()) == 3


@examples(50)
@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_lines_do_not_depend_on_chunks(parts: list[bytes], size: int) -> None:
    """However a stream is cut into chunks, its complete lines come out in order, without empty ones."""
    stream = b"\n".join(parts)
    lines = Lines()
    got = [line for i in range(0, len(stream), size) for line in lines.feed(stream[i : i + size])]
    assert got == [line for line in stream.split(b"\n")[:-1] if line]


@pytest.mark.parametrize(
    ("resource", "where", "path"),
    [
        (PODS, {}, "/api/v1/pods"),
        (PODS, {"namespace": "train", "name": "w-0"}, "/api/v1/namespaces/train/pods/w-0"),
        (NODES, {"name": "n/../x"}, "/api/v1/nodes/n%2F..%2Fx"),
        (LEASES, {"namespace": "a"}, "/apis/coordination.k8s.io/v1/namespaces/a/leases"),
        (
            Resource("arnold.dev", "v1alpha1", "gangplans", "GangPlan"),
            {"namespace": "t", "name": "llm", "subresource": "status"},
            "/apis/arnold.dev/v1alpha1/namespaces/t/gangplans/llm/status",
        ),
    ],
)
def test_paths(resource: Resource, where: dict[str, str], path: str) -> None:
    """Objects are where the API puts them; a name can never lead elsewhere."""
    assert resource.path(**where) == path


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, NotFound), (409, Conflict), (410, Gone), (422, PatchFailed), (429, Busy), (503, Busy), (403, Refused)],
)
def test_refusals(status: int, kind: type[Refused]) -> None:
    """Each status is an error of its own kind, with the server's words."""
    error = refusal(status, b'{"kind":"Status","message":"no way","reason":"Because"}', where="GET /x")
    assert type(error) is kind
    assert error.reason == "Because"
    assert "no way" in str(error)


def test_a_refusal_in_a_watch_may_say_null() -> None:
    """A line of a watch says its status itself; the words beside it may be null, and history is gone all the same."""
    error = refusal(None, b'{"kind":"Status","code":410,"message":null,"reason":null}', where="watching pods")
    assert type(error) is Gone
    assert error.reason == ""


@pytest.mark.parametrize("body", [b"", b"<html>Bad Gateway</html>", b"\xff\xfe", b"[1,2]", b'{"message": 3}'])
def test_refusals_without_a_status(body: bytes) -> None:
    """What a proxy answers is an error like any other."""
    assert isinstance(refusal(502, body, where="GET /x"), Busy)


PLAN = Regarding(Resource("arnold.dev", "v1alpha1", "gangplans", "GangPlan"), "train", "llm", "uid-1")


def posted(api: FakeCluster) -> list[dict[str, Any]]:
    """Events that the server has."""
    return list(api.objects[EVENTS.plural].values())


def test_events_are_posted_in_the_background() -> None:
    """An event names its object, says what happened, and comes again only after a while."""

    async def scenario() -> list[dict[str, Any]]:
        api, time = FakeCluster(), [0.0]
        recorder = EventRecorder(api, instance="replica-1", clock=lambda: time[0])
        task = asyncio.create_task(recorder.run())
        for _ in range(5):
            recorder.say(PLAN, reason="Planned", note="DP spread 2, proved")
        recorder.say(PLAN, reason="Released", note="96 pods", kind="Normal")
        time[0] += REPEAT_SECONDS
        recorder.say(PLAN, reason="Planned", note="DP spread 2, proved")
        await soon()
        task.cancel()
        return posted(api)

    events = asyncio.run(scenario())
    assert sorted(event["reason"] for event in events) == ["Planned", "Planned", "Released"]
    assert events[0]["regarding"] == {
        "apiVersion": "arnold.dev/v1alpha1",
        "kind": "GangPlan",
        "namespace": "train",
        "name": "llm",
        "uid": "uid-1",
    }
    assert len(json.dumps(events[0])) < 1_000


def test_events_never_get_in_the_way() -> None:
    """A server that refuses events, and notes of any length, disturb nobody."""

    async def scenario() -> list[dict[str, Any]]:
        api = FakeCluster()
        api.fail_next("create", unreachable(), refusal(403, b"", where="POST"))
        recorder = EventRecorder(api, instance="r")
        task = asyncio.create_task(recorder.run())
        for note in ("one", "two", "ä" * 2_000):
            recorder.say(PLAN, reason="Waiting", note=note)
        await soon()
        task.cancel()
        return posted(api)

    (event,) = asyncio.run(scenario())
    assert len(event["note"].encode()) <= LONGEST_NOTE
    assert event["note"].startswith("äää")
