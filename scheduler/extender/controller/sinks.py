"""From the API server into the cache: objects by name there, by UID or key here.

Answers to our own writes go the same way as what is watched, so that the next decision knows of them.  A watch that is
behind them brings older versions: those are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from scheduler.extender.gangs import GangKey
from scheduler.extender.objects import Node, Owner, Pod
from scheduler.extender.plan import Plan, object_name
from scheduler.extender.plan_document import decode_plan
from scheduler.extender.state import State
from topology.errors import InvalidInput


class _Seen(NamedTuple):
    uid: str
    version: int


class _Named(msgspec.Struct):
    name: str


class _Headed(msgspec.Struct):
    metadata: _Named


def decode_own_plan(raw: bytes) -> Plan:
    """A GangPlan that bears the name of its gang.

    :raises InvalidInput: it bears another: it is none of ours, and there may be a second one of the same gang.
    """
    plan = decode_plan(raw)
    if msgspec.json.decode(raw, type=_Headed).metadata.name != object_name(plan.key):
        raise InvalidInput(f"it is not the GangPlan of gang {plan.key}", fix="delete it; Arnold makes GangPlans itself")
    return plan


def version_of(text: str) -> int:
    """A resourceVersion as a number: they are comparable decimal numbers (KEP-5504); 0 for anything else."""
    return int(text) if text.isdecimal() else 0


class PodSink:
    """Pods, by UID in the cache."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._seen: dict[tuple[str, str], _Seen] = {}

    def replace(self, objects: Iterable[Pod]) -> None:
        """A new list of all pods."""
        pods = list(objects)
        self._seen = {_name(pod): _seen(pod) for pod in pods}
        self._state.replace_pods(pods)

    def put(self, found: Pod) -> None:
        """A pod appeared or changed, or was patched by us."""
        name, new = _name(found), _seen(found)
        old = self._seen.get(name)
        if old is not None and new.version < old.version:
            return
        if old is not None and old.uid != new.uid:
            self._state.drop_pod(old.uid)
        self._seen[name] = new
        self._state.put_pod(found)

    def remove(self, namespace: str, name: str) -> None:
        """A pod is gone."""
        if (old := self._seen.pop((namespace, name), None)) is not None:
            self._state.drop_pod(old.uid)


class NodeSink:
    """Nodes, by name."""

    def __init__(self, state: State) -> None:
        self._state = state

    def replace(self, objects: Iterable[Node]) -> None:
        """A new list of all nodes."""
        self._state.replace_nodes(objects)

    def put(self, found: Node) -> None:
        """A node appeared or changed."""
        self._state.put_node(found)

    def remove(self, namespace: str, name: str) -> None:  # noqa: ARG002
        """A node is gone."""
        self._state.drop_node(name)


class OwnerSink:
    """Makers of pods of one kind, by UID in the cache."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._uids: dict[tuple[str, str], str] = {}

    def replace(self, objects: Iterable[Owner]) -> None:
        """A new list of all objects of the kind."""
        owners = list(objects)
        now = {(one.metadata.namespace or "", one.metadata.name): one.metadata.uid for one in owners}
        for uid in {*self._uids.values()} - {*now.values()}:
            self._state.drop_owner(uid)
        self._uids = now
        for one in owners:
            self._state.put_owner(one)

    def put(self, found: Owner) -> None:
        """An object appeared or changed."""
        name = (found.metadata.namespace or "", found.metadata.name)
        old = self._uids.get(name)
        if old is not None and old != found.metadata.uid:
            self._state.drop_owner(old)
        self._uids[name] = found.metadata.uid
        self._state.put_owner(found)

    def remove(self, namespace: str, name: str) -> None:
        """An object is gone."""
        if (uid := self._uids.pop((namespace, name), None)) is not None:
            self._state.drop_owner(uid)


class PlanSink:
    """GangPlans, by gang in the cache."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._keys: dict[tuple[str, str], GangKey] = {}

    def replace(self, objects: Iterable[Plan]) -> None:
        """A new list of all plans."""
        plans = list(objects)
        self._keys = {_place(plan): plan.key for plan in plans}
        self._state.replace_plans(plans)

    def put(self, found: Plan) -> None:
        """A plan appeared or changed, or was written by us."""
        old = self._state.plans.get(found.key)
        if old is not None and version_of(found.resource_version) < version_of(old.resource_version):
            return
        self._keys[_place(found)] = found.key
        self._state.put_plan(found)

    def remove(self, namespace: str, name: str) -> None:
        """A plan is gone."""
        if (key := self._keys.pop((namespace, name), None)) is not None:
            self._state.drop_plan(key)


def _name(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace or "", pod.metadata.name


def _seen(pod: Pod) -> _Seen:
    return _Seen(pod.uid, version_of(pod.metadata.resource_version))


def _place(plan: Plan) -> tuple[str, str]:
    return plan.key.namespace, object_name(plan.key)
