"""The mutating webhooks, for API servers that know no mutating policies: they do what the policies of the manifests do.

Of which pods it is asked the API server decides, by the rules of these policies (``manifests/components/before-1.36``).
"""

from base64 import b64encode
from enum import StrEnum
from typing import Any

import msgspec

from extender.kubernetes_names import GANG_SIZE, GATE, SCHEDULER
from ground.errors import InvalidInput

MOST_BYTES = 4 * 2**20  # of a question: the API server takes requests of 3 MiB, and says who makes them


class Admission(StrEnum):
    """Why a pod becomes ours: the path of the question."""

    MEMBER = "/mutate"  # it is in a gang: gate and scheduler
    GPU_POD = "/mutate/gpu-pods"  # it asks for GPUs: the scheduler alone, as it waits for nobody
    WHOLE_NODE_POD = "/mutate/whole-node-pods"  # it asks for a whole node: a gang of one pod


class _Gate(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    scheduling_gates: list[_Gate] | None = None


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Request(msgspec.Struct):
    uid: str
    object: _Pod


class _Review(msgspec.Struct):
    request: _Request


_decoder = msgspec.json.Decoder(_Review)


def admit_pod(question: bytes, why: Admission) -> bytes:
    """Answer an AdmissionReview (v1) of a new pod: it gets our scheduler, in a gang also our gate.

    :raises InvalidInput: it is no such review.
    """
    try:
        request = _decoder.decode(question).request
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        fix = "ask by a MutatingWebhookConfiguration, of pods that are created"
        raise InvalidInput(f"no AdmissionReview of a pod: {error}", where=why, fix=fix) from None
    added: dict[str, Any] = {"/spec/schedulerName": SCHEDULER}
    gates, annotations = request.object.spec.scheduling_gates, request.object.metadata.annotations
    if why is not Admission.GPU_POD:
        if gates is None:
            added["/spec/schedulingGates"] = [{"name": GATE}]
        elif all(gate.name != GATE for gate in gates):
            added["/spec/schedulingGates/-"] = {"name": GATE}
    if why is Admission.WHOLE_NODE_POD:
        added["/metadata/annotations"] = (annotations or {}) | {GANG_SIZE: "1"}
    patch = [{"op": "add", "path": path, "value": value} for path, value in added.items()]
    written = b64encode(msgspec.json.encode(patch)).decode()
    response = {"uid": request.uid, "allowed": True, "patchType": "JSONPatch", "patch": written}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
