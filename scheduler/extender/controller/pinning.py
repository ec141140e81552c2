"""The patch that releases a pod: the gate comes off and the node is pinned, in one step or not at all.

A gated pod may have its node affinity narrowed, never widened (KEP-3838): ``matchFields metadata.name In [node]`` is
added to every term that the user wrote, or stands alone where there is none.  ``test`` operations make the patch fail
when the pod is another of the same name, or its gate is off already, or its terms are not those that were read.
"""

from __future__ import annotations

from scheduler.extender.cluster_api import Document
from scheduler.extender.names import GATE
from scheduler.extender.objects import NodeSelector, Pod

NAME_FIELD = "metadata.name"

_AFFINITY = "/spec/affinity"
_NODES = f"{_AFFINITY}/nodeAffinity"
_REQUIRED = f"{_NODES}/requiredDuringSchedulingIgnoredDuringExecution"
_TERMS = f"{_REQUIRED}/nodeSelectorTerms"


def release_patch(pod: Pod, node: str) -> list[Document]:
    """JSON patch (RFC 6902) that takes our gate off a pod and pins it to a node.

    :raises ValueError: the pod has no gate of ours.
    """
    gates = [gate.name for gate in pod.spec.scheduling_gates or ()]
    place = f"/spec/schedulingGates/{gates.index(GATE)}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": f"{place}/name", "value": GATE},
        *_pin(pod, node),
        {"op": "remove", "path": place},
    ]


def _pin(pod: Pod, node: str) -> list[Document]:
    field = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    affinity = pod.spec.affinity
    required: Document = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    if affinity is None:
        required_name = _REQUIRED.rpartition("/")[2]
        return [{"op": "add", "path": _AFFINITY, "value": {"nodeAffinity": {required_name: required}}}]
    if affinity.node_affinity is None:
        required_name = _REQUIRED.rpartition("/")[2]
        return [{"op": "add", "path": _NODES, "value": {required_name: required}}]
    if not affinity.node_affinity.required:
        return [{"op": "add", "path": _REQUIRED, "value": required}]
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version},
        *_narrowed(affinity.node_affinity.required, field),
    ]


def _narrowed(required: NodeSelector, field: Document) -> list[Document]:
    """The field added to every term; an empty one matches no node, and would match ours with a field in it."""
    operations: list[Document] = []
    for i, term in enumerate(required.node_selector_terms or ()):
        if term.match_fields:
            operations.append({"op": "add", "path": f"{_TERMS}/{i}/matchFields/-", "value": field})
        elif term.match_expressions:
            operations.append({"op": "add", "path": f"{_TERMS}/{i}/matchFields", "value": [field]})
    return operations
