"""The patch that releases a pod: its scheduling gate goes, and it is pinned to its node.

A gated pod may have its node affinity narrowed, never widened (KEP-3838): ``matchFields metadata.name In [node]`` is
added to every term that the user wrote, or stands alone where there is none.  ``test`` operations make the patch fail
when the pod is another of the same name, or its gate is off already, or its terms are not those that were read.

A released pod is marked with a label.  Any client may write a pin; by the mark, which an admission policy keeps for the
extender, a pin is known as that of a plan when the plan itself is lost.  What was pinned cannot be pinned otherwise.
The labels that make a pod a gang's member are its owner's to change: so the mark names the gang, and how large it was.
"""

from __future__ import annotations

from hashlib import blake2b

from extender import kubernetes_names as names
from extender.cluster_api.client import Document
from extender.gangs.types import GangKey
from topology.kubernetes.pods import RELEASED, NodeSelector, Pod

_LABELS = "/metadata/labels"
_AFFINITY = "/spec/affinity"
_NODES = f"{_AFFINITY}/nodeAffinity"
_REQUIRED_NAME = "requiredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = f"{_NODES}/{_REQUIRED_NAME}"


def release_mark(key: GangKey, size: int) -> str:
    """Return the value of the label on pods that were released as members of a gang of so many pods.

    Names are their users' choice: 16 bytes, so that no two can be found that have the same.
    """
    return blake2b(f"{key}/{size}".encode(), digest_size=16).hexdigest()


def release_patch(pod: Pod, node: str, mark: str) -> list[Document]:
    """Return the JSON patch (RFC 6902) that ungates, pins and marks a pod, or raise ``ValueError``: no gate of ours."""
    gates = [gate.name for gate in pod.spec.scheduling_gates or ()]
    place = f"/spec/schedulingGates/{gates.index(names.GATE)}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": f"{place}/name", "value": names.GATE},
        *_pin(pod, node),
        *_mark(pod, mark),
        {"op": "remove", "path": place},
    ]


def _mark(pod: Pod, mark: str) -> list[Document]:
    if pod.labels:
        return [{"op": "add", "path": f"{_LABELS}/{RELEASED.replace('/', '~1')}", "value": mark}]
    return [_unchanged(pod), {"op": "add", "path": _LABELS, "value": {RELEASED: mark}}]


def _unchanged(pod: Pod) -> Document:
    """Return the test that the pod was not written since it was read."""
    return {"op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version}


def _pin(pod: Pod, node: str) -> list[Document]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = pod.spec.affinity
    required: Document = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    if affinity is None:
        return [{"op": "add", "path": _AFFINITY, "value": {"nodeAffinity": {_REQUIRED_NAME: required}}}]
    if affinity.node_affinity is None:
        return [{"op": "add", "path": _NODES, "value": {_REQUIRED_NAME: required}}]
    if not affinity.node_affinity.required:
        return [{"op": "add", "path": _REQUIRED, "value": required}]
    return [_unchanged(pod), *_narrowed(affinity.node_affinity.required, field)]


def _narrowed(required: NodeSelector, field: Document) -> list[Document]:
    """Return the operations that add a field to every term but empty ones, which match no node and would match then."""
    operations: list[Document] = []
    for i, term in enumerate(required.node_selector_terms or ()):
        path = f"{_REQUIRED}/nodeSelectorTerms/{i}/matchFields"
        if term.match_fields:
            operations.append({"op": "add", "path": f"{path}/-", "value": field})
        elif term.match_expressions:
            operations.append({"op": "add", "path": path, "value": [field]})
    return operations
