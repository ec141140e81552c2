"""The messages of the extender protocol, against recordings of the real kube-scheduler."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.verbs import (
    FilterResult,
    MetaPod,
    MetaVictims,
    PreemptResult,
    RawNodeList,
    decode_filter,
    decode_preempt,
    encode,
)
from ground.errors import InvalidInput
from tests.case_counts import examples
from tests.extender.things import node_json, pod_json

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))
RECORDED = [pytest.param(json.loads(path.read_text()), id=path.stem) for path in GOLDEN]
FILTERED = [param for param in RECORDED if param.values[0]["verb"] == "filter"]
PREEMPTED = [param for param in RECORDED if param.values[0]["verb"] == "preempt"]


def test_there_are_recordings_of_both_verbs_and_both_modes() -> None:
    """Names and whole nodes, Filter and Preempt: the tests below would pass on an empty folder."""
    seen = {(scene.values[0]["verb"], scene.values[0]["extender"]["nodeCacheCapable"]) for scene in RECORDED}
    assert seen == {("filter", True), ("filter", False), ("preempt", True), ("preempt", False)}


@pytest.mark.parametrize("scene", FILTERED)
def test_filter_requests_of_the_real_scheduler_are_read(scene: dict[str, Any]) -> None:
    """The pod, its UID and GPUs, and the nodes asked about, in order."""
    request = scene["request"]
    args = decode_filter(json.dumps(request).encode())
    asked = request["NodeNames"]
    if asked is None:
        asked = [item["metadata"]["name"] for item in request["Nodes"]["items"]]
    assert list(args.names) == asked
    assert (args.pod.name, args.pod.namespace) == (request["Pod"]["metadata"]["name"], "golden")
    assert (args.pod.uid, args.pod.gpus) == (request["Pod"]["metadata"]["uid"], 8)


@pytest.mark.parametrize("scene", [scene for scene in FILTERED if "FailedNodes" in scene.values[0]["answer"]["body"]])
def test_filter_answers_are_written_as_the_real_scheduler_took_them(scene: dict[str, Any]) -> None:
    """The recorded answers, made from our types, are the same JSON; whole nodes come back byte for byte."""
    recorded = scene["answer"]["body"]
    args = decode_filter(json.dumps(scene["request"]).encode())
    nodes = None
    if args.nodes is not None:
        passed = {item["metadata"]["name"] for item in recorded["Nodes"]["items"]}
        items = zip(args.nodes.items or (), args.names, strict=True)
        nodes = RawNodeList([raw for raw, name in items if name in passed])
    result = FilterResult(
        nodes=nodes,
        node_names=recorded["NodeNames"],
        failed_nodes=recorded["FailedNodes"],
        failed_and_unresolvable_nodes=recorded["FailedAndUnresolvableNodes"],
        error=recorded.get("Error", ""),
    )
    assert json.loads(encode(result)) == {"Nodes": None, "Error": "", **recorded}


@pytest.mark.parametrize("scene", PREEMPTED)
def test_preempt_requests_of_the_real_scheduler_are_read(scene: dict[str, Any]) -> None:
    """Victims by UID, whether whole pods or UIDs were sent."""
    request = scene["request"]
    args = decode_preempt(json.dumps(request).encode())
    if request["NodeNameToMetaVictims"] is not None:
        sent = {
            name: [pod["UID"] for pod in victims["Pods"]] for name, victims in request["NodeNameToMetaVictims"].items()
        }
    else:
        sent = {
            name: [pod["metadata"]["uid"] for pod in victims["Pods"]]
            for name, victims in request["NodeNameToVictims"].items()
        }
    found = {name: [pod.uid for pod in victims.pods or ()] for name, victims in args.candidates.items()}
    assert found == sent
    assert all(sent.values())


@pytest.mark.parametrize("scene", PREEMPTED)
def test_preempt_answers_are_written_as_the_real_scheduler_took_them(scene: dict[str, Any]) -> None:
    """Always by UID."""
    recorded = scene["answer"]["body"]
    chosen = {
        name: MetaVictims([MetaPod(pod["UID"]) for pod in victims["Pods"]], victims["NumPDBViolations"])
        for name, victims in recorded["NodeNameToMetaVictims"].items()
    }
    assert json.loads(encode(PreemptResult(chosen))) == recorded


def test_no_nodes_at_all_ask_about_none() -> None:
    """Go writes null for a slice that is not there."""
    request = {"Pod": pod_json("p"), "Nodes": None, "NodeNames": None}
    assert list(decode_filter(json.dumps(request).encode()).names) == []
    assert list(decode_filter(json.dumps({**request, "Nodes": {"items": None}}).encode()).names) == []


def test_violations_of_disruption_budgets_survive() -> None:
    """The scheduler prefers nodes with fewer of them; an answer that dropped them would change its choice."""
    victims = {"n1": {"Pods": [{"metadata": {"uid": "u"}}], "NumPDBViolations": 3}}
    request = {"Pod": pod_json("p"), "NodeNameToVictims": victims, "NodeNameToMetaVictims": None}
    candidates = decode_preempt(json.dumps(request).encode()).candidates
    assert json.loads(encode(PreemptResult(candidates))) == {
        "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u"}], "NumPDBViolations": 3}}
    }


def test_an_error_fails_the_attempt_and_says_why() -> None:
    """``Error`` alone; the scheduler shows it in the pod's events and tries again."""
    answer = json.loads(encode(FilterResult(error="the cache is empty")))
    assert answer["Error"] == "the cache is empty"
    assert answer["NodeNames"] is None
    assert answer["Nodes"] is None


BAD = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"\xff\xfe",
    b'{"Pod": null}',
    b'{"Pod": {"metadata": {"name": 7}}, "NodeNames": []}',
    b'{"Pod": {"spec": {"containers": {}}}, "NodeNames": []}',
    b'{"Pod": {}, "NodeNames": "n1"}',
    b'{"Pod": {}, "NodeNames": [1]}',
    b'{"Pod": {}, "Nodes": []}',
    b'{"Pod": ' + b"[" * 100_000,
    json.dumps({"Pod": pod_json("p"), "NodeNames": ["n"]}).encode()[:-20],
]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_a_request_that_is_none_is_refused_with_what_to_do(body: bytes) -> None:
    """Empty, cut off, of wrong types, absurdly deep: one kind of error, never another."""
    with pytest.raises(InvalidInput, match="not an ExtenderArgs") as caught:
        decode_filter(body)
    assert "kube-scheduler" in caught.value.fix


def test_a_node_without_a_name_is_refused() -> None:
    """Whole nodes are read only as far as their names, and only when asked for."""
    body = json.dumps({"Pod": {}, "Nodes": {"items": [node_json("n1"), {"metadata": {}}]}}).encode()
    args = decode_filter(body)
    with pytest.raises(InvalidInput, match="name"):
        _ = args.names


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@examples(200)
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """No other exception escapes, whatever comes."""
    with suppress(InvalidInput):
        decode_filter(body)
    with suppress(InvalidInput):
        decode_preempt(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
PLACES = st.sampled_from(["Pod", "Nodes", "NodeNames", "NodeNameToVictims", "NodeNameToMetaVictims"])


@given(st.dictionaries(PLACES, JSON))
@examples(200)
def test_any_json_under_the_right_names_is_read_or_refused(message: dict[str, Any]) -> None:
    """Wrong types in every field, also where decoding is put off until the names are asked for."""
    body = json.dumps(message).encode()
    with suppress(InvalidInput):
        list(decode_filter(body).names)
    with suppress(InvalidInput):
        _ = decode_preempt(body).candidates


def test_nodes_and_names_that_contradict_each_other() -> None:
    """The scheduler sends one of the two; who sends both, and different ones, is told so."""
    nodes = {"items": [node_json("n1"), node_json("n2")]}
    for names in ([], ["n1"], ["n2", "n1"], ["n1", "n2", "n3"]):
        request = {"Pod": pod_json("p"), "Nodes": nodes, "NodeNames": names}
        with pytest.raises(InvalidInput, match=f"Nodes has 2 nodes, NodeNames {len(names)}") as error:
            _ = decode_filter(json.dumps(request).encode()).names
        assert "nodeCacheCapable" in error.value.fix
    request = {"Pod": pod_json("p"), "Nodes": nodes, "NodeNames": ["n1", "n2"]}
    assert list(decode_filter(json.dumps(request).encode()).names) == ["n1", "n2"]
