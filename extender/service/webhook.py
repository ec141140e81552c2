"""The mutating webhook, for API servers that know no mutating policies: it does what the policy ``arnold-gang`` does.

Of which pods it is asked the API server decides, by the rules of that policy (``manifests/components/before-1.36``).
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec

from extender.kubernetes_names import GATE, SCHEDULER
from ground.errors import InvalidInput

MOST_BYTES = 4 * 2**20  # of a question: the API server takes requests of 3 MiB, and says who makes them


class _Gate(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    scheduling_gates: list[_Gate] | None = None


class _Pod(msgspec.Struct):
    spec: _Spec


class _Request(msgspec.Struct):
    uid: str
    object: _Pod


class _Review(msgspec.Struct):
    request: _Request


_decoder = msgspec.json.Decoder(_Review)


def admit_pod(question: bytes) -> bytes:
    """Answer an AdmissionReview (v1) of a new pod: it gets our gate, beside those of others, and our scheduler.

    :raises InvalidInput: it is no such review.
    """
    try:
        request = _decoder.decode(question).request
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        fix = "ask by a MutatingWebhookConfiguration, of pods that are created"
        raise InvalidInput(f"no AdmissionReview of a pod: {error}", where="/mutate", fix=fix) from None
    gates = request.object.spec.scheduling_gates
    patch: list[dict[str, Any]] = [{"op": "add", "path": "/spec/schedulerName", "value": SCHEDULER}]
    if gates is None:
        patch.append({"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]})
    elif all(gate.name != GATE for gate in gates):
        patch.append({"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": GATE}})
    written = b64encode(msgspec.json.encode(patch)).decode()
    response = {"uid": request.uid, "allowed": True, "patchType": "JSONPatch", "patch": written}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
