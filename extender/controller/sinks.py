"""From the API server into the cache: objects by name there, by UID or key here.

Answers to our own writes are taken up too, so that the next decision knows of them.  The watch may be behind such an
answer: older versions are passed over.  It may also be ahead, up to the object's end: an answer brings nothing back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from extender.controller.touched import Touched
from extender.gangs import GangKey
from extender.objects import Node, Owner, Pod
from extender.plans import Plan, decode_plan, object_name
from extender.reservations import Reservation, ReservationKey
from extender.state import State
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

    def __init__(self, state: State, touched: Touched) -> None:
        self._state = state
        self._touched = touched
        self._seen: dict[tuple[str, str], _Seen] = {}

    def replace(self, objects: Iterable[Pod]) -> None:
        """A new list of all pods."""
        pods = list(objects)
        self._seen = {_name(pod): _seen(pod) for pod in pods}
        self._state.replace_pods(pods)
        self._touched.everything()

    def wrote(self, answer: Pod) -> None:
        """A pod was patched by us; one that is gone meanwhile stays gone."""
        known = self._seen.get(_name(answer))
        if known is not None and known.uid == answer.uid:
            self.put(answer)

    def put(self, found: Pod) -> None:
        """A pod appeared or changed."""
        name, new = _name(found), _seen(found)
        old = self._seen.get(name)
        if old is not None and new.version < old.version:
            return
        if old is not None and old.uid != new.uid:
            self._drop(old.uid)
        self._seen[name] = new
        self._touched.pod(new.uid)
        self._state.put_pod(found)
        self._touched.pod(new.uid)

    def remove(self, namespace: str, name: str) -> None:
        """A pod is gone."""
        if (old := self._seen.pop((namespace, name), None)) is not None:
            self._drop(old.uid)

    def _drop(self, uid: str) -> None:
        self._touched.pod(uid)
        self._state.drop_pod(uid)


class NodeSink:
    """Nodes, by name.  A heartbeat changes nothing that a gang could depend on, and touches none."""

    def __init__(self, state: State, touched: Touched) -> None:
        self._state = state
        self._touched = touched

    def replace(self, objects: Iterable[Node]) -> None:
        """A new list of all nodes."""
        self._state.replace_nodes(objects)
        self._touched.everything()

    def put(self, found: Node) -> None:
        """A node appeared or changed."""
        before = self._state.fleet.version
        self._state.put_node(found)
        if self._state.fleet.version != before:
            self._touched.node(found.name)

    def remove(self, namespace: str, name: str) -> None:  # noqa: ARG002
        """A node is gone."""
        self._state.drop_node(name)
        self._touched.node(name)


class OwnerSink:
    """Makers of pods of one kind, by UID in the cache."""

    def __init__(self, state: State, touched: Touched) -> None:
        self._state = state
        self._touched = touched
        self._kept: dict[tuple[str, str], Owner] = {}

    def replace(self, objects: Iterable[Owner]) -> None:
        """A new list of all objects of the kind."""
        owners = {(one.metadata.namespace or "", one.metadata.name): one for one in objects}
        for namespace, name in self._kept.keys() - owners.keys():
            self.remove(namespace, name)
        for one in owners.values():
            self.put(one)

    def put(self, found: Owner) -> None:
        """An object appeared or changed; how its pods fare, which it says often, touches nobody."""
        name = (found.metadata.namespace or "", found.metadata.name)
        old = self._kept.get(name)
        if old is not None and old.metadata.uid == found.metadata.uid and old.spec == found.spec:
            return
        self.remove(*name)
        self._kept[name] = found
        self._state.put_owner(found)
        self._touched.everything()

    def remove(self, namespace: str, name: str) -> None:
        """An object is gone."""
        if (old := self._kept.pop((namespace, name), None)) is not None:
            self._state.drop_owner(old.metadata.uid)
            self._touched.everything()


class PlanSink:
    """GangPlans, by gang in the cache."""

    def __init__(self, state: State, touched: Touched) -> None:
        self._state = state
        self._touched = touched
        self._keys: dict[tuple[str, str], GangKey] = {}

    def replace(self, objects: Iterable[Plan]) -> None:
        """A new list of all plans."""
        plans = list(objects)
        self._keys = {_place(plan): plan.key for plan in plans}
        self._state.replace_plans(plans)
        self._touched.everything()

    def wrote(self, answer: Plan, *, new: bool) -> None:
        """A plan was written by us; one that is gone meanwhile stays gone.

        :param new: it was made just now, so that the watch may not know it yet.
        """
        known = self._state.plans.get(answer.key)
        if new or (known is not None and known.uid == answer.uid):
            self.put(answer)

    def put(self, found: Plan) -> None:
        """A plan appeared or changed."""
        old = self._state.plans.get(found.key)
        if old is not None and version_of(found.resource_version) < version_of(old.resource_version):
            return
        self._keys[_place(found)] = found.key
        self._state.put_plan(found)
        self._touched.gang(found.key)

    def remove(self, namespace: str, name: str) -> None:
        """A plan is gone."""
        if (key := self._keys.pop((namespace, name), None)) is not None:
            self._state.drop_plan(key)
            self._touched.gang(key)


class ReservationSink:
    """CapacityReservations, by key in the cache."""

    def __init__(self, state: State) -> None:
        self._state = state

    def replace(self, objects: Iterable[Reservation]) -> None:
        """A new list of all reservations."""
        self._state.replace_reservations(objects)

    def wrote(self, answer: Reservation) -> None:
        """A status was written by us; a reservation that is gone meanwhile stays gone."""
        known = self._state.reservations.get(answer.key)
        if known is not None and known.uid == answer.uid:
            self.put(answer)

    def put(self, found: Reservation) -> None:
        """A reservation appeared or changed."""
        old = self._state.reservations.get(found.key)
        if old is None or version_of(found.resource_version) >= version_of(old.resource_version):
            self._state.put_reservation(found)

    def remove(self, namespace: str, name: str) -> None:
        """A reservation is gone."""
        self._state.drop_reservation(ReservationKey(namespace, name))


def _name(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace or "", pod.metadata.name


def _seen(pod: Pod) -> _Seen:
    return _Seen(pod.uid, version_of(pod.metadata.resource_version))


def _place(plan: Plan) -> tuple[str, str]:
    return plan.key.namespace, object_name(plan.key)
