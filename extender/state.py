"""The cache: nodes, pods, gangs, plans and reservations as last seen, updated object by object.

It knows no client and no time, and belongs to one thread, the event loop's.  What is derived (a gang from its pods) is
derived when it is asked for and kept until one of its pods changes.
"""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Mapping, Sequence
from types import MappingProxyType

from extender.fleet import Fleet
from extender.gangs import Gang, GangKey, Member, assemble, recognise
from extender.names import SCHEDULER
from extender.objects import Node, Owner, Pod
from extender.plans import Plan, canonical_uid
from extender.reservations import Reservation, ReservationKey


class State:
    """All that is known of the cluster.

    :param levels: node labels from broad to close; ``None`` = those of the preset that most nodes carry.
    :param scheduler: ``schedulerName`` of the pods that are ours to plan.
    """

    def __init__(self, levels: Sequence[str] | None = None, *, scheduler: str = SCHEDULER) -> None:
        self.fleet = Fleet(levels)
        self._scheduler = scheduler
        self._nodes: set[str] = set()
        self._pods: dict[str, Pod] = {}
        self._owners: dict[str, Owner] = {}
        self._owner_names: dict[str, tuple[str, ...]] = {}
        self._member: dict[str, Member] = {}
        self._members: dict[GangKey, dict[str, Member]] = {}
        self._gangs: dict[GangKey, Gang] = {}
        self._plans: dict[GangKey, Plan] = {}
        self._ranks: dict[str, tuple[GangKey, int]] = {}
        self._reservations: dict[ReservationKey, Reservation] = {}

    @property
    def plans(self) -> Mapping[GangKey, Plan]:
        """All plans."""
        return MappingProxyType(self._plans)

    @property
    def reservations(self) -> Mapping[ReservationKey, Reservation]:
        """All reservations."""
        return MappingProxyType(self._reservations)

    @property
    def pods(self) -> Mapping[str, Pod]:
        """All pods, by UID."""
        return MappingProxyType(self._pods)

    def pod(self, uid: str) -> Pod | None:
        """A pod by its UID."""
        return self._pods.get(uid)

    def member(self, uid: str) -> Member | None:
        """A pod's part in its gang, by the pod's UID."""
        return self._member.get(uid)

    def gang(self, key: GangKey) -> Gang | None:
        """A gang with at least one pod, be it one that has ended."""
        members = self._members.get(key)
        if not members:
            return None
        gang = self._gangs.get(key)
        if gang is None:
            gang = self._gangs[key] = assemble(key, members.values())
        return gang

    @property
    def gang_keys(self) -> KeysView[GangKey]:
        """Gangs with at least one pod; asking for the keys alone puts no gang together."""
        return self._members.keys()

    def gangs(self) -> Iterable[Gang]:
        """All gangs with at least one pod."""
        for key in tuple(self._members):
            if (gang := self.gang(key)) is not None:
                yield gang

    def plan_of_pod(self, uid: str) -> tuple[Plan, int] | None:
        """The plan that names a pod, and the pod's rank in it.

        :param uid: in any form.
        """
        found = self._ranks.get(canonical_uid(uid))
        return None if found is None else (self._plans[found[0]], found[1])

    def recognise(self, pod: Pod) -> Member | None:
        """The gang that a pod belongs to, known to us or not."""
        return recognise(pod, self._owners)

    def put_node(self, node: Node) -> None:
        """A node appeared or changed."""
        self._nodes.add(node.name)
        self.fleet.put_node(node)

    def drop_node(self, name: str) -> None:
        """A node is gone."""
        self._nodes.discard(name)
        self.fleet.drop_node(name)

    def put_pod(self, pod: Pod) -> None:
        """A pod appeared or changed."""
        self._pods[pod.uid] = pod
        self.fleet.put_pod(pod)
        ours = pod.spec.scheduler_name == self._scheduler
        self._put_member(pod.uid, recognise(pod, self._owners) if ours else None)

    def drop_pod(self, uid: str) -> None:
        """A pod is gone."""
        self._pods.pop(uid, None)
        self.fleet.drop_pod(uid)
        self._put_member(uid, None)

    def put_owner(self, owner: Owner) -> None:
        """A Job, JobSet, StatefulSet or PodGroup appeared or changed."""
        uid, namespace = owner.metadata.uid, owner.metadata.namespace or "default"
        old = self._owners.get(uid)
        self._owner_names[uid] = (uid, f"{owner.kind}/{namespace}/{owner.metadata.name}")
        for name in self._owner_names[uid]:
            self._owners[name] = owner
        if old is None or (old.spec, old.metadata.annotations) != (owner.spec, owner.metadata.annotations):
            self._recognise_again(namespace)

    def drop_owner(self, uid: str) -> None:
        """It is gone."""
        owner = self._owners.get(uid)
        for name in self._owner_names.pop(uid, ()):
            if self._owners.get(name) is owner:
                del self._owners[name]
        if owner is not None:
            self._recognise_again(owner.metadata.namespace or "default")

    def put_plan(self, plan: Plan) -> None:
        """A plan was read or written."""
        old = self._plans.get(plan.key)
        self._plans[plan.key] = plan
        if old is None or old.pods != plan.pods:
            self._forget_ranks(old)
            for uid, rank in plan.rank_of_pod.items():
                self._ranks[uid] = (plan.key, rank)
        if old is None or old.nodes != plan.nodes or old.holding != plan.holding:
            nodes = frozenset(plan.nodes) if plan.holding else frozenset()
            self.fleet.promise(plan.key, nodes)

    def drop_plan(self, key: GangKey) -> None:
        """A plan is gone, and its promises with it."""
        self._forget_ranks(self._plans.pop(key, None))
        self.fleet.promise(key, frozenset())

    def put_reservation(self, reservation: Reservation) -> None:
        """A reservation was read or written."""
        old = self._reservations.get(reservation.key)
        self._reservations[reservation.key] = reservation
        if old is None or (old.ask, old.zone, old.phase) != (reservation.ask, reservation.zone, reservation.phase):
            self.fleet.outdate()

    def drop_reservation(self, key: ReservationKey) -> None:
        """A reservation is gone."""
        if self._reservations.pop(key, None) is not None:
            self.fleet.outdate()

    def replace_nodes(self, nodes: Iterable[Node]) -> None:
        """A new list of all nodes: those that are not in it are gone."""
        gone = set(self._nodes)
        for node in nodes:
            self.put_node(node)
            gone.discard(node.name)
        for name in gone:
            self.drop_node(name)

    def replace_pods(self, pods: Iterable[Pod]) -> None:
        """A new list of all pods: those that are not in it are gone."""
        gone = set(self._pods)
        for pod in pods:
            self.put_pod(pod)
            gone.discard(pod.uid)
        for uid in gone:
            self.drop_pod(uid)

    def replace_plans(self, plans: Iterable[Plan]) -> None:
        """A new list of all plans: those that are not in it are gone."""
        gone = set(self._plans)
        for plan in plans:
            self.put_plan(plan)
            gone.discard(plan.key)
        for key in gone:
            self.drop_plan(key)

    def replace_reservations(self, reservations: Iterable[Reservation]) -> None:
        """A new list of all reservations: those that are not in it are gone."""
        gone = set(self._reservations)
        for reservation in reservations:
            self.put_reservation(reservation)
            gone.discard(reservation.key)
        for key in gone:
            self.drop_reservation(key)

    def _put_member(self, uid: str, member: Member | None) -> None:
        old = self._member.pop(uid, None)
        if old is not None and (member is None or member.key != old.key):
            members = self._members[old.key]
            del members[uid]
            self._gangs.pop(old.key, None)
            if not members:
                del self._members[old.key]
        if member is not None:
            self._member[uid] = member
            self._members.setdefault(member.key, {})[uid] = member
            self._gangs.pop(member.key, None)

    def _recognise_again(self, namespace: str) -> None:
        for uid, member in list(self._member.items()):
            if member.key.namespace == namespace:
                self._put_member(uid, recognise(member.pod, self._owners))

    def _forget_ranks(self, plan: Plan | None) -> None:
        if plan is None:
            return
        for uid in plan.rank_of_pod:
            if uid in self._ranks and self._ranks[uid][0] == plan.key:
                del self._ranks[uid]
