"""The few fields of Kubernetes nodes and pods that say where GPUs are and who holds them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from topology.readers.kubernetes_gpus import GPU, pod_gpus, quantity


class _Object(BaseModel):
    """Anything of Kubernetes, which writes nodeName; unknown fields are none of ours, absent ones may be null."""

    model_config = ConfigDict(alias_generator=to_camel)


class Metadata(_Object):
    """Who an object is."""

    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Taint(_Object):
    """Why pods should stay away."""

    key: str
    value: str | None = None
    effect: str


class Condition(_Object):
    """A finding of the kubelet or of others about a node."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class Resources(_Object):
    """What a container asks for."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None

    def gpus(self) -> int:
        """GPUs; for extended resources the limit is the request."""
        return quantity((self.requests or {}).get(GPU, (self.limits or {}).get(GPU, 0)))


class Container(_Object):
    """A container of a pod."""

    resources: Resources | None = None
    restart_policy: str | None = None

    def gpus(self) -> int:
        """GPUs it asks for."""
        return self.resources.gpus() if self.resources else 0


class Spec(_Object):
    """What is wanted: of a node or of a pod."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None
    node_name: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None


class Status(_Object):
    """What is: of a node or of a pod."""

    capacity: dict[str, Any] | None = None
    allocatable: dict[str, Any] | None = None
    conditions: list[Condition] | None = None
    phase: str | None = None


class Item(_Object):
    """A node or a pod."""

    kind: str = "Node"
    metadata: Metadata
    spec: Spec = Field(default_factory=Spec)
    status: Status = Field(default_factory=Status)

    def pod_gpus(self) -> int:
        """GPUs a pod holds.

        :raises ValueError: not a number of GPUs.
        """
        init = ((box.gpus(), box.restart_policy == "Always") for box in self.spec.init_containers or [])
        return pod_gpus((box.gpus() for box in self.spec.containers or []), init)


class ItemList(_Object):
    """The answer of ``kubectl get nodes -o json``."""

    items: list[Item]


class Involved(_Object):
    """What an event is about."""

    kind: str | None = None
    name: str | None = None


class Reported(Item):
    """A node, or an event about one."""

    involved_object: Involved | None = None
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    event_time: str | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None


class ReportedList(_Object):
    """The answer of ``kubectl get nodes,events -A -o json``."""

    items: list[Reported]
