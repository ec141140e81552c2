"""The HTTP application: the protocol's answers, and what it makes of requests that are none."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster_cache import ClusterCache
from extender.gangs.types import GangKey
from tests.case_counts import examples
from tests.extender.service.asgi import Client
from tests.extender.things import gang_pods, member_json, minipods, node_json, plan_all, pod_json, state_of

NODES = [f"m{m}-{i}" for m in range(2) for i in range(4)]


@pytest.fixture
def state() -> ClusterCache:
    """Eight nodes and a planned gang of four."""
    state = state_of(minipods(4, 4), gang_pods("g", 4))
    plan_all(state)
    return state


def question(pod: Any, names: list[str] | None = None) -> dict[str, Any]:
    """What a scheduler with nodeCacheCapable sends."""
    return {"Pod": pod, "Nodes": None, "NodeNames": NODES if names is None else names}


def test_filter_of_a_member(state: ClusterCache) -> None:
    """A member gets its planned node; all others are refused for good, or kube-scheduler would preempt there."""
    answer = Client(state).post("/filter", question(member_json("g", 2, 4)))
    (plan,) = state.plans.values()
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["NodeNames"] == [plan.nodes[2]]
    assert set(answer.json["FailedAndUnresolvableNodes"]) == {*NODES} - {plan.nodes[2]}
    assert (answer.json["Error"], answer.json["FailedNodes"], answer.json["Nodes"]) == ("", {}, None)


def test_filter_waits_for_the_plan_that_is_being_written() -> None:
    """The scheduler may see a plan before its writer hears that it is stored; of other gangs nobody waits."""
    state = state_of(minipods(4, 4), gang_pods("g", 4))

    class Write(asyncio.Event):
        """One that comes back when it is waited for."""

        async def wait(self) -> Literal[True]:
            plan_all(state)
            return True

    (pod, *_) = state.pods.values()
    member = state.recognise(pod)
    assert member is not None
    state.under_way[GangKey("other", "g")] = Write()
    assert Client(state).post("/filter", question(member_json("g", 2, 4))).json["NodeNames"] == []
    state.under_way[member.key] = Write()
    answer = Client(state).post("/filter", question(member_json("g", 2, 4)))
    (plan,) = state.plans.values()
    assert answer.json["NodeNames"] == [plan.nodes[2]]


def test_filter_of_whole_nodes(state: ClusterCache) -> None:
    """Without nodeCacheCapable nodes come whole and go back as they came."""
    (plan,) = state.plans.values()
    items = [node_json(name) for name in NODES]
    body = {"Pod": member_json("g", 0, 4), "Nodes": {"items": items}, "NodeNames": None}
    answer = Client(state).post("/filter", body)
    assert answer.json["Nodes"]["items"] == [node_json(plan.nodes[0])]
    assert answer.json["NodeNames"] is None


def test_filter_is_a_pure_read(state: ClusterCache) -> None:
    """Asked any number of times, in any order, it answers the same and changes nothing."""
    client = Client(state)
    before = dict(state.plans)
    first = [client.post("/filter", question(member_json("g", rank, 4))).json for rank in (0, 1, 2, 3)]
    again = [client.post("/filter", question(member_json("g", rank, 4))).json for rank in (3, 2, 1, 0)]
    assert again == first[::-1]
    assert dict(state.plans) == before


def test_preempt_keeps_gangs_whole(state: ClusterCache) -> None:
    """A member of a planned gang may push others off its own node only, and never its fellows."""
    (plan,) = state.plans.values()
    victims = {name: {"Pods": [{"UID": "somebody"}], "NumPDBViolations": 0} for name in NODES}
    body = {"Pod": member_json("g", 1, 4), "NodeNameToMetaVictims": victims}
    answer = Client(state).post("/preempt", body)
    assert (answer.status, list(answer.json["NodeNameToMetaVictims"])) == (200, [plan.nodes[1]])


def test_a_cache_that_is_not_filled(state: ClusterCache) -> None:
    """Before the cache is filled nobody is refused for good: the attempt fails, and is made again."""
    client = Client(state, unready=lambda: ["pods are not listed yet"])
    answer = client.post("/filter", question(member_json("g", 0, 4)))
    assert answer.status == 200
    assert "pods are not listed yet" in answer.json["Error"]
    assert not answer.json["FailedAndUnresolvableNodes"]
    assert client.post("/preempt", {"Pod": member_json("g", 0, 4)}).status == 503
    ready = client.get("/readyz")
    assert (ready.status, ready.text) == (503, "pods are not listed yet")
    assert client.get("/healthz").status == 200
    assert Client(state).get("/readyz").status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe\x00",
        b'{"Pod": 3}',
        b'{"Pod": {"metadata": {"name": 7}}, "NodeNames": []}',
        b'{"Pod": {}, "NodeNames": "all"}',
        b'{"Pod": {}, "Nodes": {"items": [{"metadata": {}}]}}',
        b'{"Pod": {}, "NodeNames": [' + b'"n",' * 1000,
        b"[" * 100_000,
    ],
)
def test_requests_that_are_none(state: ClusterCache, body: bytes) -> None:
    """Filter says in ``Error`` what is wrong and what to do; Preempt, which has no such field, with status 400."""
    client = Client(state)
    answer = client.post("/filter", body)
    assert answer.status == 200
    assert "To fix: " in answer.json["Error"]
    assert not answer.json["NodeNames"]
    refused = client.post("/preempt", body)
    if body != b'{"Pod": {}, "NodeNames": "all"}' and not body.startswith(b'{"Pod": {}'):
        assert (refused.status, "To fix: " in refused.text) == (400, True)


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/filter", 405), ("POST", "/bind", 404), ("GET", "/", 404)]
)
def test_other_requests(state: ClusterCache, method: str, path: str, status: int) -> None:
    """There is no bind and no prioritize."""
    assert Client(state).ask(method, path, [b""]).status == status


def test_long_requests(state: ClusterCache) -> None:
    """Longer than the limit: refused by its header before it is read, or as soon as too much has come."""
    client = Client(state, limit=1000)
    by_header = client.ask("POST", "/filter", [b"x"], length=1001)
    assert (by_header.status, "--body-limit" in by_header.text) == (413, True)
    by_length = client.ask("POST", "/filter", [b"x" * 400] * 4)
    assert (by_length.status, by_length.headers["connection"]) == (413, "close")
    assert client.ask("POST", "/filter", [b"x" * 1000]).status == 200


def test_many_long_requests_at_once(state: ClusterCache) -> None:
    """All bodies together have a limit too; what was read is given back when a request ends, however it ends."""
    client = Client(state, limit=1000)
    client.intake._room = 500
    assert client.ask("POST", "/filter", [b"x" * 400] * 2).status == 503
    assert client.ask("POST", "/filter", [b"x" * 400], cut=True).status == 400
    assert client.intake._room == 500


def test_only_clients_with_a_certificate(state: ClusterCache) -> None:
    """Off loopback: without a certificate anybody learns how we are and nothing else."""
    client = Client(state, mutual_tls=True)
    asked = question(member_json("g", 0, 4))
    assert client.get("/healthz").status == 200
    assert client.get("/readyz").status == 200
    assert client.get("/metrics").status == 401
    assert client.post("/filter", asked).status == 401
    assert client.post("/preempt", asked).status == 401
    assert client.post("/filter", asked, authenticated=True).status == 200


def test_metrics(state: ClusterCache) -> None:
    """What the issue asks for: latencies, gangs by phase, spread, gap, refusals by reason, the Lease."""
    client = Client(state)
    client.post("/filter", question(member_json("g", 0, 4)))
    client.post("/filter", question(member_json("h", 0, 4)))
    client.post("/filter", question(pod_json("single", gpus=8), names=[]))
    client.metrics.plan_seconds.labels(outcome="plan").observe(0.2)
    client.metrics.wrote("release", "ok", 0.01)
    client.metrics.decide_seconds.observe(0.001)
    lines = client.get("/metrics").text.splitlines()
    assert "arnold_leader 1.0" in lines
    assert 'arnold_gangs{phase="Planned"} 1.0' in lines
    assert 'arnold_gangs{phase="Bound"} 0.0' in lines
    assert 'arnold_gang_spread{family="dp",gang="g",namespace="team"} 1.0' in lines
    assert 'arnold_gang_gap{gang="g",namespace="team"} 0.0' in lines
    assert "arnold_promised_nodes 4.0" in lines
    assert "arnold_unbound_ranks 4.0" in lines  # planned, and no pod is on its node yet
    assert "arnold_filter_seconds_count 3.0" in lines
    assert 'arnold_refused_total{reason="no plan yet"} 1.0' in lines
    assert 'arnold_plan_seconds_count{outcome="plan"} 1.0' in lines
    assert 'arnold_writes_total{kind="release",outcome="ok"} 1.0' in lines


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
FIELDS = st.sampled_from(
    ["metadata", "name", "namespace", "uid", "labels", "annotations", "spec", "status", "containers", "nodeName"]
)
PODS = st.recursive(JSON, lambda inner: st.dictionaries(FIELDS, inner, max_size=6), max_leaves=15)


@examples(150)
@given(PODS, JSON, st.booleans())
def test_fuzz(pod: Any, nodes: Any, whole: bool) -> None:
    """Whatever comes, each request has its answer: of the protocol's form, or an error that says what to do."""
    state = state_of(minipods(2), gang_pods("g", 2))
    client = Client(state)
    body = {"Pod": pod, "Nodes": nodes if whole else None, "NodeNames": None if whole else nodes}
    answer = client.post("/filter", json.dumps(body).encode("utf-8", "surrogatepass"))
    assert answer.status == 200
    assert {"NodeNames", "FailedAndUnresolvableNodes", "Error"} <= set(answer.json)
    refused = client.post("/preempt", {"Pod": pod, "NodeNameToMetaVictims": nodes})
    assert refused.status in (200, 400)


@examples(100)
@given(st.binary(max_size=200))
def test_fuzz_bytes(body: bytes) -> None:
    """Bytes that are no JSON at all."""
    assert Client(state_of(minipods(2))).post("/filter", body).status == 200


def test_filter_with_nodes_and_other_names(state: ClusterCache) -> None:
    """Both forms at once that contradict each other: what the scheduler shows says so, and it is no fault of ours."""
    items = [node_json(name) for name in NODES]
    for pod in (member_json("g", 0, 4), pod_json("single"), pod_json("none", gpus=0)):
        answer = Client(state).post("/filter", {"Pod": pod, "Nodes": {"items": items}, "NodeNames": NODES[:3]})
        assert answer.status == 200
        assert "Nodes has 8 nodes, NodeNames 3" in answer.json["Error"]
