"""What pods may ask for beside GPUs: CPU, a disk of their own, to be apart from one another."""

from __future__ import annotations

from collections.abc import Sequence

from tests.e2e.harness.client import Object
from tests.e2e.harness.pods import GANG


def asking(pods: list[Object], **amounts: str) -> list[Object]:
    """The pods, asking for more than GPUs."""
    for one in pods:
        for said in one["spec"]["containers"][0]["resources"].values():
            said.update(amounts)
    return pods


def apart(pods: list[Object], key: str) -> list[Object]:
    """The pods of a gang, with the rule that no two are in the same domain.

    :param key: label of nodes that says their domain.
    """
    for one in pods:
        selector = {"matchLabels": {GANG: one["metadata"]["labels"][GANG]}}
        required = [{"topologyKey": key, "labelSelector": selector}]
        one["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pods


def storage_class(name: str) -> Object:
    """A storage class whose volumes are bound when their pods come."""
    about = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return {**about, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}


def claims_for(pods: Sequence[Object], storage: str) -> list[Object]:
    """A claim for each of the pods, which mount them from now on."""
    asked = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    claims = []
    for one in pods:
        about = {key: one["metadata"][key] for key in ("name", "namespace")}
        one["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": about["name"]}}]
        claims.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": about, "spec": asked})
    return claims


def volume(storage: str, node: str) -> Object:
    """A volume on the disk of a node."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage,
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{storage}-{node}"}, "spec": spec}
