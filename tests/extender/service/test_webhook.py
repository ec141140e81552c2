"""The mutating webhooks: what they add to a pod, and of whom they take questions."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest

from extender.cluster_cache import ClusterCache
from extender.kubernetes_names import GANG_SIZE, GATE, SCHEDULER
from extender.service.webhook import MOST_BYTES, Admission, admit_pod
from ground.errors import InvalidInput
from tests.extender.service.asgi import Client
from tests.manifests.rendering import read

OURS, QUOTA = {"name": GATE}, {"name": "example.com/quota"}


def review(annotations: dict[str, str] | None = None, **spec: Any) -> bytes:
    """What an API server asks about a new pod."""
    pod = {"metadata": {"name": "llm-0", "annotations": annotations}, "spec": {"containers": [], **spec}}
    request = {"uid": "7", "operation": "CREATE", "object": pod, "oldObject": None}
    about = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**about, "request": request}).encode()


def changed(why: Admission, annotations: dict[str, str] | None = None, **spec: Any) -> tuple[dict[str, str], Any]:
    """The annotations and the spec of a pod after the patch of the answer."""
    answer = json.loads(admit_pod(review(annotations, **spec), why))
    response = answer["response"]
    assert (answer["kind"], answer["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    assert (response["uid"], response["allowed"], response["patchType"]) == ("7", True, "JSONPatch")
    parts: dict[str, Any] = {"metadata": {"annotations": annotations}, "spec": spec}
    for change in json.loads(b64decode(response["patch"])):
        _, part, key, *end = change["path"].split("/")
        assert change["op"] == "add"
        assert end in ([], ["-"])
        parts[part][key] = [*parts[part][key], change["value"]] if end else change["value"]
    return parts["metadata"]["annotations"], parts["spec"]


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
    """Both are there afterwards, once, and so are the gates of others; annotations stay as they are."""
    wanted = before | {"schedulerName": SCHEDULER, "schedulingGates": after}
    assert changed(Admission.MEMBER, {"team": "a"}, **before) == ({"team": "a"}, wanted)


def test_a_pod_with_gpus_waits_for_nobody() -> None:
    """It gets the scheduler alone."""
    wanted = {"schedulingGates": [QUOTA], "schedulerName": SCHEDULER}
    assert changed(Admission.GPU_POD, None, schedulingGates=[QUOTA]) == (None, wanted)


@pytest.mark.parametrize("annotations", [None, {}, {"team": "a"}])
def test_a_pod_of_a_whole_node_is_a_gang(annotations: dict[str, str] | None) -> None:
    """It says that its gang has one pod, beside what it says already, and gets gate and scheduler."""
    wanted = {"schedulingGates": [OURS], "schedulerName": SCHEDULER}
    assert changed(Admission.WHOLE_NODE_POD, annotations) == ((annotations or {}) | {GANG_SIZE: "1"}, wanted)


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b'{"request": {"uid": 3}}', b"[" * 100_000])
def test_questions_that_are_none(body: bytes) -> None:
    """They are refused, and how to ask is said."""
    with pytest.raises(InvalidInput, match="no AdmissionReview") as error:
        admit_pod(body, Admission.MEMBER)
    assert error.value.fix


@pytest.mark.parametrize("path", Admission)
def test_an_api_server_needs_no_certificate(path: Admission) -> None:
    """With --webhook it is answered without one, about pods of any size that it takes; all else needs one as before."""
    client = Client(ClusterCache(), mutual_tls=True, webhook=True)
    answer = client.post(path, review())
    assert (answer.status, answer.body) == (200, admit_pod(review(), path))
    nonsense = client.post(path, b"{")
    assert (nonsense.status, "To fix: " in nonsense.text) == (400, True)
    assert client.ask("POST", path, [b"x"], length=MOST_BYTES + 1).status == 413
    assert client.post("/filter", {}).status == 401
    assert client.get(path).status == 405
    assert Client(ClusterCache()).post(path, review()).status == 404


OLD = "components/before-1.36"


@pytest.mark.parametrize(
    ("policy_file", "refusal_file", "webhook_file", "why"),
    [
        ("base/admission.yaml", f"{OLD}/admission.yaml", f"{OLD}/webhook.yaml", Admission.MEMBER),
        (
            "components/all-gpu-pods/admission.yaml",
            f"{OLD}/all-gpu-pods/webhook.yaml",
            f"{OLD}/all-gpu-pods/webhook.yaml",
            Admission.GPU_POD,
        ),
        (
            "components/whole-node-pods/admission.yaml",
            f"{OLD}/whole-node-pods/webhook.yaml",
            f"{OLD}/whole-node-pods/webhook.yaml",
            Admission.WHOLE_NODE_POD,
        ),
    ],
    ids=["member", "GPU pod", "whole node"],
)
def test_rules_are_those_of_the_policy(policy_file: str, refusal_file: str, webhook_file: str, why: Admission) -> None:
    """The API server asks about the pods that the policy is for, but for those that have what they get.  What is not
    asked while the extender is away, a policy that changes nothing refuses, or says aloud.
    """
    policy, configuration = read(policy_file)[0]["spec"], read(webhook_file)[0]
    (refusal,) = (thing["spec"] for thing in read(refusal_file) if thing["kind"] == "ValidatingAdmissionPolicy")
    (webhook,) = configuration["webhooks"]
    ours = policy["matchConditions"]
    assert webhook["matchConditions"][: len(ours)] == refusal["matchConditions"][: len(ours)] == ours
    for constraints in (policy["matchConstraints"], refusal["matchConstraints"]):
        assert webhook.get("objectSelector") == constraints.get("objectSelector")
        assert webhook["rules"] == constraints["resourceRules"]
    assert webhook["reinvocationPolicy"] == policy["reinvocationPolicy"]
    assert webhook["failurePolicy"] == "Ignore"
    assert webhook["clientConfig"]["service"]["path"] == why
    # The name by which the Job of the certificates finds it.
    assert webhook["name"] == f"{configuration['metadata']['name'].removeprefix('arnold-')}.arnold.dev"


def test_members_that_have_both_are_not_asked_about() -> None:
    """The condition that only the webhook has is the contrary of what is required."""
    lacking = read(f"{OLD}/webhook.yaml")[0]["webhooks"][0]["matchConditions"][-1]
    required = read(f"{OLD}/admission.yaml")[0]["spec"]["validations"][0]["expression"]
    assert lacking["expression"] == " ".join(required.split()).replace("==", "!=", 1).replace("&& ", "|| !")
