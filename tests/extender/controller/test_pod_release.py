"""The patch that releases a pod: gate off, node pinned, all that the user wrote kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster_api.client import PatchFailed
from extender.controller.actions import release_patch
from extender.fleet.hosts import demand_of
from extender.objects import decode_pod
from tests.case_counts import examples
from tests.extender.fake_cluster import patched
from tests.extender.things import Json, pod_json

LABEL = {"key": "zone", "operator": "In", "values": ["a", "b"]}
NOT_N2 = {"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}
PIN = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
MARK = {"arnold.dev/released": "0123456789abcdef"}


def released(document: Json, node: str = "n1") -> Json:
    """The pod after the patch, as the API server applies it."""
    return patched(document, release_patch(decode_pod(document), node, *MARK.values()))


def affinity(*terms: Json, **others: Any) -> Json:
    """An affinity with these required terms."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}} if terms else {}
    return {"nodeAffinity": {**required, **others}}


def terms_of(document: Json) -> list[Json]:
    """The required terms of a pod."""
    required = document["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    found: list[Json] = required["nodeSelectorTerms"]
    return found


def test_a_pod_without_affinity() -> None:
    """The gate goes, the pin and the mark come, nothing else changes."""
    before = pod_json("w", gate=True)
    after = released(before)
    assert after["metadata"].pop("labels") == MARK
    before["metadata"].pop("labels")
    assert after["spec"].pop("affinity") == affinity({"matchFields": [PIN]})
    assert after["spec"].pop("schedulingGates") == []
    before["spec"].pop("schedulingGates")
    assert after == before


def test_labels_are_kept() -> None:
    """The mark comes beside them; a pod without any is patched only if that is still so."""
    labels = {"arnold.dev/gang": "g", "team": "a/b~c"}
    assert released(pod_json("w", gate=True, labels=labels))["metadata"]["labels"] == labels | MARK
    before = pod_json("w", gate=True)
    patch = release_patch(decode_pod(before), "n1", "mark")
    before["metadata"] |= {"labels": labels, "resourceVersion": "2"}
    with pytest.raises(PatchFailed):
        patched(before, patch)


def test_gates_of_others_stay() -> None:
    """Only our gate is taken off, wherever it stands among others."""
    gates = [{"name": "first"}, {"name": "arnold.dev/gang"}, {"name": "last"}]
    after = released(pod_json("w", schedulingGates=gates))
    assert after["spec"]["schedulingGates"] == [{"name": "first"}, {"name": "last"}]


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ([{"matchExpressions": [LABEL]}], [{"matchExpressions": [LABEL], "matchFields": [PIN]}]),
        ([{"matchFields": [NOT_N2]}], [{"matchFields": [NOT_N2, PIN]}]),
        (
            [{"matchExpressions": [LABEL]}, {"matchFields": [NOT_N2]}],
            [{"matchExpressions": [LABEL], "matchFields": [PIN]}, {"matchFields": [NOT_N2, PIN]}],
        ),
        # An empty term matches no node; with a pin in it, it would match one whatever the other terms say.
        ([{}, {"matchExpressions": [LABEL]}], [{}, {"matchExpressions": [LABEL], "matchFields": [PIN]}]),
    ],
)
def test_terms_of_the_user_are_kept(given_: list[Json], expected: list[Json]) -> None:
    """The pin is added to every term that can match."""
    assert terms_of(released(pod_json("w", gate=True, affinity=affinity(*given_)))) == expected


@pytest.mark.parametrize(
    "kept",
    [
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack"}]}},
        affinity(preferredDuringSchedulingIgnoredDuringExecution=[{"weight": 1, "preference": {}}]),
        {},
    ],
)
def test_other_affinities_are_kept(kept: Json) -> None:
    """Affinity to pods and preferences, which we do not even read, survive."""
    after = released(pod_json("w", gate=True, affinity=kept))
    assert terms_of(after) == [{"matchFields": [PIN]}]
    node_affinity = after["spec"]["affinity"].pop("nodeAffinity")
    node_affinity.pop("requiredDuringSchedulingIgnoredDuringExecution")
    before = {**kept}
    assert node_affinity == before.pop("nodeAffinity", {})
    assert after["spec"]["affinity"] == before


def test_a_pod_of_the_same_name() -> None:
    """Another UID: the patch fails, and nothing is changed."""
    patch = release_patch(decode_pod(pod_json("w", gate=True)), "n1", "mark")
    other = pod_json("w", gate=True)
    other["metadata"]["uid"] = "another"
    with pytest.raises(PatchFailed):
        patched(other, patch)


def test_a_pod_that_is_released_already() -> None:
    """The second patch fails: whoever was first decided the node."""
    before = pod_json("w", gate=True)
    patch = release_patch(decode_pod(before), "n2", "mark")
    with pytest.raises(PatchFailed):
        patched(released(before), patch)


def test_terms_that_changed_meanwhile() -> None:
    """Terms are found by their place: a pod whose terms were read at another version is not patched."""
    before = pod_json("w", gate=True, affinity=affinity({"matchExpressions": [LABEL]}))
    patch = release_patch(decode_pod(before), "n1", "mark")
    before["metadata"]["resourceVersion"] = "2"
    with pytest.raises(PatchFailed):
        patched(before, patch)


EXPRESSIONS = st.lists(
    st.sampled_from([LABEL, {"key": "zone", "operator": "Exists"}, {"key": "gpu", "operator": "DoesNotExist"}]),
    max_size=2,
)
FIELDS = st.lists(st.sampled_from([NOT_N2, {"key": "metadata.name", "operator": "In", "values": ["n1"]}]), max_size=1)
TERMS = st.builds(
    lambda expressions, fields: {
        **({"matchExpressions": expressions} if expressions else {}),
        **({"matchFields": fields} if fields else {}),
    },
    EXPRESSIONS,
    FIELDS,
)


@examples(100)
@given(st.lists(TERMS, min_size=1, max_size=4), st.sampled_from(["n1", "n2"]))
def test_a_pin_only_narrows(given_: list[Json], node: str) -> None:
    """After the release a pod admits its node if it did before, and no other."""
    before = pod_json("w", gate=True, affinity=affinity(*given_))
    after = released(before, node)
    for name in ("n1", "n2", "n3"):
        for labels in ({}, {"zone": "a"}, {"zone": "c", "gpu": "h100"}):
            admits = admitted(before, name, labels) and name == node
            assert admitted(after, name, labels) == admits


def admitted(document: Json, name: str, labels: dict[str, str]) -> bool:
    """Whether a pod's required terms admit a node; without the mark, beside which its pin is no demand of its own."""
    unmarked = {**document, "metadata": {**document["metadata"], "labels": {}}}
    return demand_of(decode_pod(unmarked)).accepts(name, labels)


@pytest.mark.parametrize(
    ("terms", "node"),
    [
        ([{"matchFields": [PIN]}], "n1"),
        ([{"matchExpressions": [LABEL], "matchFields": [NOT_N2, PIN]}, {"matchFields": [PIN]}, {}], "n1"),
        ([{"matchFields": [PIN]}, {"matchExpressions": [LABEL]}], None),
        ([{"matchFields": [{**PIN, "values": ["n1", "n2"]}]}], None),
        ([{"matchFields": [NOT_N2]}], None),
        ([], None),
    ],
)
def test_reading_the_pin(terms: list[Json], node: str | None) -> None:
    """A pod is pinned when all terms that can match name one and the same node."""
    assert decode_pod(pod_json("w", affinity=affinity(*terms))).pin == node
