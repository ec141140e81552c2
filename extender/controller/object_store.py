"""From the API server into the cache: objects by name there, by UID or key here.

Answers to our own writes are taken up too, so that the next decision knows of them.  The watch may be behind such an
answer: older versions are passed over.  It may also be ahead, up to the object's end: an answer brings nothing back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from extender.cluster_cache import ClusterCache
from extender.kubernetes_names import HISTORY_NAME
from extender.objects import NamespaceObject, Owner
from extender.plans.custom_resource import StoredObject
from extender.plans.gang_history import GangHistory
from extender.plans.gang_plan import GangPlan, decode_plan, object_name
from extender.plans.reservation import Reservation
from ground.errors import InvalidInput
from topology.kubernetes.claim_table import reference_to
from topology.kubernetes.objects import AllocationObject, Metadata, NodeObject
from topology.kubernetes.pods import Pod

T = TypeVar("T")


class Identity(NamedTuple):
    """What tells an object from others: its place (namespace and name) in the API server, its key in the cache."""

    place: tuple[str, str]
    key: Any
    uid: str
    version: int  # resourceVersions are comparable decimal numbers (KEP-5504); 0 for anything else


class ObjectStore(Generic[T]):
    """The objects of one kind in the cache: a reflector fills it, and the writer tells it of its answers."""

    def __init__(
        self, put: Callable[[T], None], drop: Callable[[Any], None], identify: Callable[[T], Identity]
    ) -> None:
        self._put, self._drop, self._identify = put, drop, identify
        self._known: dict[tuple[str, str], Identity] = {}

    def replace(self, objects: Iterable[T]) -> None:
        """Take up a new list of all objects, whatever their versions: those that are not in it are gone."""
        found = {identity.place: (identity, one) for one in objects for identity in (self._identify(one),)}
        for place in self._known.keys() - found.keys():
            self.remove(*place)
        for identity, one in found.values():
            self._set(identity, one)

    def put(self, found: T) -> None:
        """Take up an object that appeared or changed, unless a newer version of it is known."""
        new = self._identify(found)
        if (old := self._known.get(new.place)) is None or new.version >= old.version:
            self._set(new, found)

    def wrote(self, answer: T, *, new: bool = False) -> None:
        """Take up the answer to a write of ours; an object that is gone stays gone, unless it was made just now."""
        written = self._identify(answer)
        known = self._known.get(written.place)
        if new or (known is not None and known.uid == written.uid):
            self.put(answer)

    def knows(self, namespace: str, name: str, version: str) -> bool:
        """Return whether this very version of an object is known: the watch repeats what an answer has said."""
        known = self._known.get((namespace, name))
        return known is not None and known.version == _version(version) > 0

    def remove(self, namespace: str, name: str) -> None:
        """Forget an object."""
        if (old := self._known.pop((namespace, name), None)) is not None:
            self._drop(old.key)

    def _set(self, new: Identity, found: T) -> None:
        old = self._known.get(new.place)
        if old is not None and old.key != new.key:
            self._drop(old.key)
        self._known[new.place] = new
        self._put(found)


class Stores:
    """The stores of all kinds, which fill one cache."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self.nodes = ObjectStore[NodeObject](
            cache.put_node, cache.drop_node, lambda node: _identity(node.metadata, node.name)
        )
        self.pods = ObjectStore[Pod](cache.put_pod, cache.drop_pod, lambda pod: _identity(pod.metadata, pod.uid))
        self.plans = ObjectStore[GangPlan](
            cache.put_plan, cache.drop_plan, lambda plan: _our_identity(plan, object_name(plan.key))
        )
        self.namespaces = ObjectStore[NamespaceObject](
            cache.weights.put, cache.weights.drop, lambda one: _identity(one.metadata, one.metadata.name)
        )
        self.reservations = ObjectStore[Reservation](
            cache.put_reservation, cache.drop_reservation, lambda one: _our_identity(one, one.key.name)
        )

        self.histories = ObjectStore[GangHistory](
            cache.put_history,
            cache.drop_history,
            lambda one: Identity((one.namespace, HISTORY_NAME), one.namespace, one.uid, _version(one.resource_version)),
        )

    def allocation(self) -> ObjectStore[AllocationObject]:
        """Return a store of one kind of dynamic resource allocation."""
        claimed = self._cache.claimed
        return ObjectStore(claimed.put, claimed.drop, lambda one: _identity(one.metadata, reference_to(one)))

    def owners(self) -> ObjectStore[Owner]:
        """Return a store of one kind of makers of pods."""
        cache = self._cache
        return ObjectStore(cache.put_owner, cache.drop_owner, lambda one: _identity(one.metadata, one.metadata.uid))


def _our_identity(found: GangPlan | Reservation, name: str) -> Identity:
    return Identity((found.key.namespace, name), found.key, found.uid, _version(found.resource_version))


def _identity(meta: Metadata, key: Any) -> Identity:
    return Identity((meta.namespace or "", meta.name), key, meta.uid, _version(meta.resource_version))


def _version(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def decode_own_plan(raw: bytes) -> GangPlan:
    """Return the plan of a GangPlan that bears the name of its gang, or raise ``InvalidInput``: it is none of ours."""
    plan = decode_plan(raw)
    if msgspec.json.decode(raw, type=StoredObject).metadata.name != object_name(plan.key):
        raise InvalidInput(f"it is not the GangPlan of gang {plan.key}", fix="delete it; Arnold makes GangPlans itself")
    return plan
