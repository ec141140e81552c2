"""Objects of dynamic resource allocation as the API server writes them: slices, classes, claims, templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

DRIVER = "gpu.nvidia.com"

Json = dict[str, Any]


def gpu(name: str, *, type: str | None = "gpu", product: str = "NVIDIA H100 80GB HBM3", **more: Any) -> Json:
    """A device; ``type`` None = it does not say what it is."""
    attributes: Json = {"productName": {"string": product}, "architecture": {"string": "Hopper"}}
    if type is not None:
        attributes["type"] = {"string": type}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}, **more}


def slice_json(
    node: str | None,
    gpus: int = 8,
    *,
    devices: Sequence[Json] | None = None,
    driver: str = DRIVER,
    name: str | None = None,
    generation: int = 1,
    slices: int = 1,
    pool: str | None = None,
    **spec: Any,
) -> Json:
    """A ResourceSlice of a node, all devices of its pool."""
    listed = [gpu(f"gpu-{i}") for i in range(gpus)] if devices is None else list(devices)
    where = {} if node is None else {"nodeName": node}
    about = {"name": pool or node or "all", "generation": generation, "resourceSliceCount": slices}
    return _object(
        "ResourceSlice",
        name or f"{node}-{driver}",
        None,
        {"driver": driver, "pool": about, "devices": listed, **where, **spec},
    )


def class_json(name: str = DRIVER, *, driver: str = DRIVER) -> Json:
    """A DeviceClass as the driver of NVIDIA installs it."""
    expression = f"device.driver == '{driver}' && device.attributes['{driver}'].type == 'gpu'"
    return _object("DeviceClass", name, None, {"selectors": [{"cel": {"expression": expression}}]})


def request(count: int | None = 8, *, name: str = "gpus", of: str = DRIVER, **more: Any) -> Json:
    """A request for an exact number of devices of a class; ``count`` None = for all of a node."""
    mode = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": {"deviceClassName": of, **mode, **more}}


def template_json(name: str, namespace: str, *requests: Json, **devices: Any) -> Json:
    """A ResourceClaimTemplate; without requests, for eight GPUs."""
    asked = {"requests": list(requests or (request(),)), **devices}
    return _object("ResourceClaimTemplate", name, namespace, {"spec": {"devices": asked}})


def claim_json(
    name: str,
    namespace: str,
    *requests: Json,
    given: Mapping[str, int] | None = None,
    users: Sequence[str] = (),
    driver: str = DRIVER,
) -> Json:
    """A ResourceClaim.

    :param given: how many devices were allocated for each request; ``None`` = it is not allocated.
    :param users: UIDs of the pods that it is reserved for.
    """
    document = _object("ResourceClaim", name, namespace, {"devices": {"requests": list(requests or (request(),))}})
    if given is not None:
        results = [
            {"request": of, "driver": driver, "pool": "n", "device": f"gpu-{i}"}
            for of in given
            for i in range(given[of])
        ]
        reserved = [{"resource": "pods", "name": "p", "uid": uid} for uid in users]
        document["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    return document


def claiming(pod: Json, *, template: str | None = None, claim: str | None = None, made: str | None = None) -> Json:
    """A pod with one claim more, which all its containers may use.

    :param made: name of the claim that was made after the template.
    """
    entry = {"name": f"c{len(pod['spec'].setdefault('resourceClaims', []))}"}
    how = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    pod["spec"]["resourceClaims"].append(entry | how)
    for box in pod["spec"]["containers"]:
        box["resources"].setdefault("claims", []).append(dict(entry))
    if made is not None:
        pod["status"].setdefault("resourceClaimStatuses", []).append(entry | {"resourceClaimName": made})
    return pod


def _object(kind: str, name: str, namespace: str | None, spec: Json) -> Json:
    about = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": about, "spec": spec}
