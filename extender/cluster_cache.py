"""The cache: nodes, pods, gangs, plans, reservations and ended gangs as last seen, updated object by object.

It belongs to one thread, the event loop's.  A gang is put together when it is asked for and kept until one of its pods
changes.  As a cluster has thousands of changes a second when gangs start, the cache notes which gangs changed.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, KeysView, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from types import MappingProxyType

from extender.fleet.claimed_devices import ClaimedDevices
from extender.fleet.fleet import Fleet
from extender.gangs.assembly import assemble
from extender.gangs.recognise import recognise
from extender.gangs.types import Gang, GangKey, GangMember
from extender.kubernetes_names import SCHEDULER
from extender.objects import DisruptionBudget, NamespaceObject, Owner
from extender.plans.definitions import Definitions
from extender.plans.gang_history import GangHistory, GangPredictor
from extender.plans.gang_plan import GangPlan, canonical_uid
from extender.plans.reservation import Reservation, ReservationKey
from ground.errors import InvalidInput
from scheduler.queue.run_times import Prediction
from topology.kubernetes.objects import NodeObject
from topology.kubernetes.pods import Pod
from topology.node_gpus import GPU_CLASSES


def key_of_pod(pod: Pod) -> GangKey:
    """Return the key of a single pod; no gang has a slash in its name."""
    return GangKey(pod.namespace, f"pod/{pod.name}")


class ClusterCache:
    """All that is known of the cluster.

    :param levels: node labels from broad to close; ``None`` = those of the preset that most nodes carry.
    :param domains: second hierarchies: name, with its ``@`` -> the label of the nodes' domains.
    :param scheduler: ``schedulerName`` of the pods that are ours to plan.
    :param gpu_classes: names of DeviceClasses whose devices are GPUs.
    :param power_caps: second hierarchy, with its ``@`` -> watts that each of its domains may draw.
    """

    def __init__(
        self,
        levels: Sequence[str] | None = None,
        *,
        domains: Mapping[str, str] = MappingProxyType({}),
        scheduler: str = SCHEDULER,
        gpu_classes: Collection[str] = GPU_CLASSES,
        power_caps: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.fleet = Fleet(levels, domains=domains)
        self.claimed = ClaimedDevices(
            gpu_classes, put_node=self.put_node, put_pod=self.put_pod, put_owner=self.put_owner
        )
        self.power_caps = power_caps
        self.definitions = Definitions()  # of our kinds in the cluster; until they were read, they lack nothing
        self._scheduler = scheduler
        self.weights = NamespaceWeights(self.fleet.outdate)
        self._changed: set[GangKey] = set()
        self._all_changed = True
        self.pods: dict[str, Pod] = {}  # by UID
        self._owners: dict[str, Owner] = {}
        self._owner_names: dict[str, tuple[str, ...]] = {}
        self._member: dict[str, GangMember] = {}
        self._members: dict[GangKey, dict[str, GangMember]] = {}
        self._gangs: dict[GangKey, Gang] = {}
        self._sizes: dict[GangKey, int] = {}
        self.plans: dict[GangKey, GangPlan] = {}
        self._ranks: dict[str, tuple[GangKey, int]] = {}
        self.under_way: dict[GangKey, asyncio.Event] = {}  # plans that are being written; each set when that is done
        self._preemptors: dict[GangKey, GangKey] = {}  # of each gang that is stopped for another
        self.last_pod: dict[GangKey, Pod] = {}  # of gangs with a plan and no pod left, where that was seen
        self.reservations: dict[ReservationKey, Reservation] = {}
        self.budgets: dict[str, DisruptionBudget] = {}  # by UID; followed where gangs preempt, and forbid nothing else
        self.histories: dict[str, GangHistory] = {}  # by namespace
        self._predictor = GangPredictor()

    def member(self, uid: str) -> GangMember | None:
        """Return a pod's part in its gang, by the pod's UID."""
        return self._member.get(uid)

    def key_of(self, pod: Pod) -> GangKey:
        """Return the key of a pod's gang, or of a pod by itself."""
        member = self._member.get(pod.uid)
        return key_of_pod(pod) if member is None else member.key

    def gang(self, key: GangKey) -> Gang | None:
        """Return a gang with at least one pod, be it one that has ended."""
        members = self._members.get(key)
        if not members:
            return None
        if key not in self._gangs:
            plan = self.plans.get(key)
            if plan is None or not plan.nodes:
                gang = assemble(key, members.values())
            else:
                ranks = plan.rank_of_pod
                forms = ((uid, uid if uid in ranks else canonical_uid(uid)) for uid in members)
                seats = {uid: ranks[form] for uid, form in forms if form in ranks}
                gang = assemble(key, members.values(), seats=seats, size=len(plan.nodes), ended=plan.ended)
            self._gangs[key] = gang
            self._sizes[key] = gang.size or 0
        return self._gangs[key]

    def gathering(self, key: GangKey) -> bool:
        """Return whether a gang has fewer pods than it had to have when it was last put together."""
        return len(self._members.get(key, ())) < self._sizes.get(key, 0)

    def holding_plan(self, key: GangKey) -> GangPlan | None:
        """Return the plan of a gang that has nodes."""
        plan = self.plans.get(key)
        return plan if plan is not None and plan.holding else None

    def preemptor(self, key: GangKey) -> GangPlan | None:
        """Return the plan of the gang for which another is being stopped."""
        plan = self.plans.get(self._preemptors[key]) if key in self._preemptors else None
        return plan if plan is not None and plan.preempting else None

    def pods_on_nodes(self, keys: Collection[GangKey]) -> Mapping[str, Pod]:
        """Return the pods on nodes, by UID, of gangs and single pods."""
        gangs = [pod for key in keys if (gang := self.gang(key)) is not None for pod in gang.pods]
        alone = any(key not in self._members for key in keys)
        wanted = frozenset(keys)
        single = (pod for pod in self.pods.values() if self.key_of(pod) in wanted) if alone else ()
        return {pod.uid: pod for pod in (*gangs, *single) if pod.node is not None and not pod.terminal}

    def prediction(self, gang: Gang) -> Prediction | None:
        """Return how long a gang will run that does not say it; see :meth:`GangPredictor.prediction`."""
        return self._predictor.prediction(gang, self.plans.get(gang.key))

    @property
    def gang_keys(self) -> KeysView[GangKey]:
        """Gangs with at least one pod; asking for the keys alone puts no gang together."""
        return self._members.keys()

    def gangs(self) -> Iterator[Gang]:
        """Return all gangs with at least one pod."""
        return filter(None, map(self.gang, tuple(self._members)))

    def plan_of_pod(self, uid: str) -> tuple[GangPlan, int] | None:
        """Return the plan that names a pod, by any form of its UID, and the pod's rank in it."""
        if (place := self._ranks.get(canonical_uid(uid))) is None:
            return None
        key, rank = place
        return self.plans[key], rank

    def recognise(self, pod: Pod) -> GangMember | None:
        """Return the gang that a pod belongs to, known to us or not."""
        return recognise(self.with_claims(pod), self._owners)

    def write_under_way(self, pod: Pod) -> asyncio.Event | None:
        """Return what is set once the plan of a pod's gang, which is being written, has come back; or None."""
        member = self.recognise(pod) if self.under_way else None
        return None if member is None else self.under_way.get(member.key)

    def with_claims(self, pod: Pod) -> Pod:
        """Return a pod, known to us or not, with the GPUs of its claims."""
        return self.claimed.table.with_claims(pod)

    def put_node(self, node: NodeObject) -> None:
        """Take up a node; a heartbeat changes nothing that a gang could depend on, and concerns none."""
        self.fleet.images.take(node)
        before = self.fleet.version
        self.fleet.put_node(self.claimed.node(node))
        if self.fleet.version != before:
            self._node_changed(node.name)

    def drop_node(self, name: str) -> None:
        """Forget a node."""
        self.claimed.drop_node(name)
        self.fleet.drop_node(name)
        self._node_changed(name)

    def put_pod(self, pod: Pod) -> None:
        """Take up a pod."""
        pod = self.claimed.pod(pod)
        self._node_changed(self._node_of(pod.uid))
        before, self.pods[pod.uid] = self.pods.get(pod.uid), pod
        # most news of a pod are of its status: nothing is added up anew for them
        if before is None or before.terminal != pod.terminal or before.spec != pod.spec:
            self.fleet.put_pod(pod)
        ours = pod.spec.scheduler_name == self._scheduler
        self._put_member(pod.uid, recognise(pod, self._owners, self._member.get(pod.uid)) if ours else None)
        self._node_changed(pod.node)

    def drop_pod(self, uid: str) -> None:
        """Forget a pod."""
        self.claimed.drop_pod(uid)
        self._node_changed(self._node_of(uid))
        self.pods.pop(uid, None)
        self.fleet.drop_pod(uid)
        member = self._member.get(uid)
        self._put_member(uid, None)
        if member is not None and member.key in self.plans and member.key not in self._members:
            self.last_pod[member.key] = member.pod

    def put_owner(self, owner: Owner) -> None:
        """Take up a maker of pods, or a PodGroup; of how its pods fare only what has ended for good counts."""
        owner = self.claimed.owner(owner)
        uid, namespace = owner.metadata.uid, owner.metadata.namespace or "default"
        old = self._owners.get(uid)
        if old is not None and (old.spec, old.status) == (owner.spec, owner.status):
            return
        self._owner_names[uid] = (uid, f"{owner.kind}/{namespace}/{owner.metadata.name}")
        for name in self._owner_names[uid]:
            self._owners[name] = owner
        # a status, which changes as each pod ends, concerns the pods of its object alone
        self._recognise_again(namespace, maker=uid if old is not None and old.spec == owner.spec else None)

    def drop_owner(self, uid: str) -> None:
        """Forget a maker of pods."""
        self.claimed.drop_owner(uid)
        owner = self._owners.get(uid)
        for name in self._owner_names.pop(uid, ()):
            if self._owners.get(name) is owner:
                del self._owners[name]
        if owner is not None:
            self._recognise_again(owner.metadata.namespace or "default")

    def put_plan(self, plan: GangPlan) -> None:
        """Take up a plan that was read or written."""
        old = self.plans.get(plan.key)
        self.plans[plan.key] = plan
        if (old is not None and old.speaks_for_pods) != plan.speaks_for_pods:
            self._note_releases(plan.key)
        if old is None or (old.pods, old.ended) != (plan.pods, plan.ended) or len(old.nodes) != len(plan.nodes):
            self._gangs.pop(plan.key, None)
        if old is None or old.pods != plan.pods:
            self._forget_ranks(old)
            for uid, rank in plan.rank_of_pod.items():
                self._ranks[uid] = (plan.key, rank)
        if old is None or old.promised != plan.promised:
            self.fleet.promise(plan.key, plan.promised)
        self._note_victims(plan.key, () if old is None else old.victim_keys, plan.victim_keys)
        self.changed(plan.key)

    def drop_plan(self, key: GangKey) -> None:
        """Forget a plan, and its promises with it, but for the nodes of pods that were released to them."""
        self.last_pod.pop(key, None)
        if (old := self.plans.pop(key, None)) is not None:
            self._note_victims(key, old.victim_keys, ())
        self._forget_ranks(old)
        self._gangs.pop(key, None)
        self._note_releases(key)
        self.fleet.promise(key, ())
        self.changed(key)

    def put_reservation(self, reservation: Reservation) -> None:
        """Take up a reservation that was read or written."""
        old = self.reservations.get(reservation.key)
        self.reservations[reservation.key] = reservation
        if old is None or (old.ask, old.zone, old.phase) != (reservation.ask, reservation.zone, reservation.phase):
            self.fleet.outdate()

    def drop_reservation(self, key: ReservationKey) -> None:
        """Forget a reservation."""
        if self.reservations.pop(key, None) is not None:
            self.fleet.outdate()

    def unevictable(self, pods: Collection[Pod]) -> str:
        """Return which disruption budget forbids to evict all of some pods together; empty = none does."""
        for budget in self.budgets.values():
            namespace, allowed = budget.metadata.namespace or "default", budget.status.disruptions_allowed
            meant = sum(pod.namespace == namespace and budget.selects(pod) for pod in pods)
            if meant > allowed:
                return f"PodDisruptionBudget {namespace}/{budget.metadata.name} lets {allowed} of {meant} pods go"
        return ""

    def put_history(self, history: GangHistory) -> None:
        """Take up what was read or written of the gangs that ended in a namespace."""
        self.histories[history.namespace] = history
        self._predictor.put(history)

    def drop_history(self, namespace: str) -> None:
        """Forget it."""
        self.histories.pop(namespace, None)
        self._predictor.drop(namespace)

    def share(self, namespace: str) -> float:
        """Return the GPUs that a namespace has in use or is promised, divided by its weight."""
        return self.fleet.gpus_of(namespace) / self.weights.of(namespace)

    def changed(self, key: GangKey | None = None) -> None:
        """Note that a gang changed; without a key that any may have, as time alone changes some."""
        if key is None:
            self._all_changed = True
        else:
            self._changed.add(key)
            if key in self._preemptors:
                self._changed.add(self._preemptors[key])

    def take_changed(self) -> AbstractSet[GangKey]:
        """Return the gangs that changed since this was last called."""
        taken = self._changed.union(self.plans, self._members) if self._all_changed else self._changed
        self._changed, self._all_changed = set(), False
        return taken

    def _note_victims(self, key: GangKey, before: Collection[GangKey], after: Collection[GangKey]) -> None:
        """Note who is stopped for a gang, and that it changed for these."""
        for victim in before:
            if self._preemptors.get(victim) == key:
                del self._preemptors[victim]
        self._preemptors |= dict.fromkeys(after, key)
        for victim in (*before, *after):
            self.changed(victim)

    def _node_of(self, uid: str) -> str | None:
        return None if (pod := self.pods.get(uid)) is None else pod.node

    def _node_changed(self, name: str | None) -> None:
        """Note a change of the gang to which a node is promised."""
        if name is not None and (key := self.fleet.promised_to(name)) is not None:
            self.changed(key)

    def _put_member(self, uid: str, member: GangMember | None) -> None:
        old = self._member.pop(uid, None)
        for part in (old, member):
            if part is not None:
                self.changed(part.key)
        if old is not None and (member is None or member.key != old.key):
            members = self._members[old.key]
            del members[uid]
            self._gangs.pop(old.key, None)
            if not members:
                del self._members[old.key]
                self._sizes.pop(old.key, None)
        if member is not None:
            self._member[uid] = member
            self._members.setdefault(member.key, {})[uid] = member
            self.last_pod.pop(member.key, None)
            self._gangs.pop(member.key, None)
        if (changed := member or old) is not None:
            self._note_release(uid, changed.key)

    def _note_releases(self, key: GangKey) -> None:
        for uid in self._members.get(key, ()):
            self._note_release(uid, key)

    def _note_release(self, uid: str, key: GangKey) -> None:
        """Promise to its gang the node that a pod was released to, until a plan speaks for the gang's pods."""
        member, node, plan = self._member.get(uid), None, self.plans.get(key)
        if member is not None and member.needed and (plan is None or not plan.speaks_for_pods):
            pod = member.pod
            node = (pod.node or pod.released_to) if pod.released else None
        self.fleet.release(uid, node, key)

    def _recognise_again(self, namespace: str, *, maker: str | None = None) -> None:
        for uid, member in list(self._member.items()):
            made = maker is None or (member.pod.owner is not None and member.pod.owner.uid == maker)
            if made and member.key.namespace == namespace:
                self._put_member(uid, recognise(member.pod, self._owners))

    def _forget_ranks(self, plan: GangPlan | None) -> None:
        if plan is None:
            return
        for uid in plan.rank_of_pod:
            if uid in self._ranks and self._ranks[uid][0] == plan.key:
                del self._ranks[uid]


class NamespaceWeights:
    """The weights of namespaces, under a queue policy by which they share; none where it does not ask for weights.

    :param changed: called when a namespace has another weight than before.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._namespaces: dict[str, NamespaceObject] = {}

    def put(self, namespace: NamespaceObject) -> None:
        """Take up a namespace."""
        self._set(namespace.metadata.name, namespace)

    def drop(self, name: str) -> None:
        """Forget a namespace."""
        self._set(name, None)

    def _set(self, name: str, namespace: NamespaceObject | None) -> None:
        before = self.of(name)
        self._namespaces.pop(name, None)
        if namespace is not None:
            self._namespaces[name] = namespace
        if self.of(name) != before:
            self._changed()

    def of(self, name: str) -> float:
        """Return the weight of a namespace; 1 of one that is not known, or whose weight cannot be read."""
        with suppress(InvalidInput):
            if (namespace := self._namespaces.get(name)) is not None:
                return namespace.weight
        return 1.0

    @property
    def unreadable(self) -> Iterator[tuple[NamespaceObject, InvalidInput]]:
        """The namespaces whose annotation is no weight, and why, in at most some hundred bytes."""
        for namespace in self._namespaces.values():
            try:
                namespace.weight  # noqa: B018
            except InvalidInput as error:
                yield namespace, error
