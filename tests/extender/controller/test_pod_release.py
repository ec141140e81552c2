"""The patch that releases a pod: gate off, node and gang marked, all that the user wrote kept."""

from __future__ import annotations

from typing import Any

import pytest

from extender.cluster_api.client import Conflict
from extender.controller.actions import release_patch
from extender.objects import decode_pod
from tests.extender.fake_cluster import merged
from tests.extender.things import Json, pod_json

PIN = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
LABEL = {"key": "zone", "operator": "In", "values": ["a", "b"]}
NOT_N2 = {"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}
MARK = {"arnold.dev/released": "0123456789abcdef"}
NODE = {"arnold.dev/node": "n1"}


def released(document: Json) -> Json:
    """The pod after the patch, as the API server applies it."""
    return merged(document, release_patch(decode_pod(document), "n1", *MARK.values(), version="1"))


def affinity(*terms: Json) -> Json:
    """An affinity with these required terms."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize("asks", [{}, {"affinity": affinity({"matchExpressions": [LABEL]})}])
def test_nothing_else_changes(asks: Json) -> None:
    """The gate goes, node and mark come beside labels and annotations; what the pod asks of nodes stays as it is."""
    labels, annotations = {"arnold.dev/gang": "g", "team": "a/b~c"}, {"arnold.dev/gang-size": "1", "other": "x"}
    before = pod_json("w", gate=True, labels=labels, annotations=annotations, **asks)
    after = released(before)
    assert after["metadata"].pop("labels") == labels | MARK
    assert after["metadata"].pop("annotations") == annotations | NODE
    assert after["metadata"].pop("managedFields") == [{}]
    assert "schedulingGates" not in after["spec"]
    before["spec"].pop("schedulingGates")
    for name in ("labels", "annotations"):
        before["metadata"].pop(name)
    assert after == before


def test_gates_of_others_stay() -> None:
    """Only our gate is taken off, wherever it stands among others."""
    gates = [{"name": "first"}, {"name": "arnold.dev/gang"}, {"name": "last"}]
    after = released(pod_json("w", schedulingGates=gates))
    assert after["spec"]["schedulingGates"] == [{"name": "first"}, {"name": "last"}]


@pytest.mark.parametrize("news", [{"uid": "another"}, {"resourceVersion": "2"}])
def test_a_pod_that_is_another_by_now(news: Json) -> None:
    """A pod of the same name, or a newer version, is left alone: whoever was first decided the node."""
    before = pod_json("w", gate=True)
    patch = release_patch(decode_pod(before), "n1", "mark", version="1")
    before["metadata"] |= news
    with pytest.raises(Conflict):
        merged(before, patch)


@pytest.mark.parametrize(
    ("marks", "node"),
    [
        ({"labels": MARK, "annotations": NODE}, "n1"),
        ({"labels": MARK, "annotations": {}}, "n0"),  # a release of a version that wrote a pin
        ({"labels": {}, "annotations": NODE}, None),  # anybody may write an annotation
    ],
)
def test_the_node_of_a_release(marks: Json, node: str | None) -> None:
    """It counts beside the mark alone."""
    pinned = affinity({"matchFields": [{**PIN, "values": ["n0"]}]})
    assert decode_pod(pod_json("w", affinity=pinned, **marks)).released_to == node


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
def test_reading_a_pin(terms: list[Any], node: str | None) -> None:
    """A pod is pinned when all terms that can match name one and the same node."""
    assert decode_pod(pod_json("w", affinity=affinity(*terms))).pin == node
