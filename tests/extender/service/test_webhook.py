"""The mutating webhook: what it adds to a pod, and of whom it takes questions."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest

from extender.cluster_cache import ClusterCache
from extender.kubernetes_names import GATE, SCHEDULER
from extender.service.webhook import MOST_BYTES, admit_pod
from ground.errors import InvalidInput
from tests.extender.service.asgi import Client
from tests.manifests.rendering import read

OURS, QUOTA = {"name": GATE}, {"name": "example.com/quota"}


def review(**spec: Any) -> bytes:
    """What an API server asks about a new pod."""
    pod = {"metadata": {"name": "llm-0"}, "spec": {"containers": [], **spec}}
    request = {"uid": "7", "operation": "CREATE", "object": pod, "oldObject": None}
    about = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**about, "request": request}).encode()


def changed(**spec: Any) -> dict[str, Any]:
    """The spec of a pod after the patch of the answer."""
    answer = json.loads(admit_pod(review(**spec)))
    response = answer["response"]
    assert (answer["kind"], answer["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    assert (response["uid"], response["allowed"], response["patchType"]) == ("7", True, "JSONPatch")
    for change in json.loads(b64decode(response["patch"])):
        *_, key, last = change["path"].split("/")
        assert change["op"] == "add"
        if last == "-":
            spec[key] = [*spec[key], change["value"]]
        else:
            spec[last] = change["value"]
    return spec


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, [OURS]),
        ({"schedulingGates": None}, [OURS]),
        ({"schedulingGates": []}, [OURS]),
        ({"schedulingGates": [QUOTA]}, [QUOTA, OURS]),
        ({"schedulingGates": [OURS]}, [OURS]),
        ({"schedulerName": "default-scheduler"}, [OURS]),
    ],
)
def test_gate_and_scheduler(before: dict[str, Any], after: list[dict[str, str]]) -> None:
    """Both are there afterwards, once, and so are the gates of others."""
    assert changed(**before) == before | {"schedulerName": SCHEDULER, "schedulingGates": after}


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b'{"request": {"uid": 3}}', b"[" * 100_000])
def test_questions_that_are_none(body: bytes) -> None:
    """They are refused, and how to ask is said."""
    with pytest.raises(InvalidInput, match="no AdmissionReview") as error:
        admit_pod(body)
    assert error.value.fix


def test_an_api_server_needs_no_certificate() -> None:
    """With --webhook it is answered without one, about pods of any size that it takes; all else needs one as before."""
    client = Client(ClusterCache(), mutual_tls=True, webhook=True)
    assert client.post("/mutate", review()).status == 200
    nonsense = client.post("/mutate", b"{")
    assert (nonsense.status, "To fix: " in nonsense.text) == (400, True)
    assert client.ask("POST", "/mutate", [b"x"], length=MOST_BYTES + 1).status == 413
    assert client.post("/filter", {}).status == 401
    assert client.get("/mutate").status == 405
    assert Client(ClusterCache()).post("/mutate", review()).status == 404


def test_rules_are_those_of_the_policy() -> None:
    """The API server asks about the pods that the policy is for, but for those that have gate and scheduler."""
    (policy, _), (refusal, _) = read("base/admission.yaml"), read("components/before-1.36/admission.yaml")
    (webhook,) = read("components/before-1.36/webhook.yaml")[0]["webhooks"]
    *conditions, lacking = webhook["matchConditions"]
    assert conditions == policy["spec"]["matchConditions"] == refusal["spec"]["matchConditions"]
    has_both = " ".join(refusal["spec"]["validations"][0]["expression"].split())
    assert lacking["expression"] == has_both.replace("==", "!=", 1).replace("&& ", "|| !")
    for rules in (policy, refusal):
        constraints = rules["spec"]["matchConstraints"]
        assert webhook["objectSelector"] == constraints["objectSelector"]
        assert webhook["rules"] == constraints["resourceRules"]
    assert webhook["reinvocationPolicy"] == policy["spec"]["reinvocationPolicy"]
    assert webhook["failurePolicy"] == "Ignore"
