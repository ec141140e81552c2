"""GPUs of dynamic resource allocation on a live cluster, counted anew where claims, templates, classes, slices change.

A claim may come after its pod, and a slice after its node: both are kept as they were read, and put again.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator

from msgspec.structs import replace

from extender.fleet.table import Problem
from extender.objects import Owner, with_claims
from ground.quantities import plural
from topology.kubernetes.claim_table import ClaimTable, Reference, claims_made, reference_to, references
from topology.kubernetes.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate, gpus_of
from topology.kubernetes.objects import AllocationObject, NodeObject
from topology.kubernetes.pods import Pod


class ClaimedDevices:
    """Counts GPUs into pods, nodes and makers of pods, and remembers those that a change may concern.

    :param classes: names of DeviceClasses whose devices are GPUs.
    :param put_node: called with a node whose devices have changed.
    :param put_pod: called with a pod whose claims have changed.
    :param put_owner: called with a maker of pods whose templates' claims have changed.
    """

    def __init__(
        self,
        classes: Collection[str],
        *,
        put_node: Callable[[NodeObject], None],
        put_pod: Callable[[Pod], None],
        put_owner: Callable[[Owner], None],
    ) -> None:
        self.table = ClaimTable(classes, complete=True)
        self._put_node, self._put_pod, self._put_owner = put_node, put_pod, put_owner
        self._nodes: dict[str, NodeObject] = {}
        self._doubts: dict[str, list[str]] = {}
        self._pods: dict[str, Pod] = {}  # with claims, by UID
        self._references: dict[str, frozenset[Reference]] = {}
        self._users: defaultdict[Reference, set[str]] = defaultdict(set)
        self._owners: dict[str, Owner] = {}

    def node(self, node: NodeObject) -> NodeObject:
        """Return a node with the GPUs in its slices, and remember it."""
        self.drop_node(node.name)
        if gpus_of(node):
            return node
        self._nodes[node.name] = node
        if doubts := self.table.devices(node.name).doubts:
            self._doubts[node.name] = doubts
        return self.table.equipped(node)

    def drop_node(self, name: str) -> None:
        """Forget a node."""
        self._nodes.pop(name, None)
        self._doubts.pop(name, None)

    def pod(self, pod: Pod) -> Pod:
        """Return a pod with the GPUs of its claims, and remember it.

        What a pod on a node has counts on when the claim that said so is gone.
        """
        if not pod.spec.resource_claims:
            return pod
        before, claims = self._pods.get(pod.uid), pod.spec.resource_claims
        self._pods[pod.uid], made = pod, claims_made(pod)
        # what says what its claims ask for
        about = () if pod.terminal else (item for claim in claims for item in references(claim, pod.namespace, made))
        self._use(pod.uid, frozenset(about))
        counted_pod = self.table.with_claims(pod)
        claimed = counted_pod.spec.claimed
        last = None if before is None else before.spec.claimed
        if claimed is not None and claimed.wrong and pod.node and last is not None:
            claimed = last
        elif claimed is not None and not claimed.wrong:
            names = (name for claim in claims if (name := claim.resource_claim_name))
            named: Iterator[Reference] = ((ResourceClaim, pod.namespace, name) for name in names)
            shared = (item for item in named if len(self._users.get(item, ())) > 1 and self.table.of_gpus(item))
            if (item := next(shared, None)) is not None:
                why = f"several pods name ResourceClaim {item[2]}, and would share its GPUs on one node"
                fix = "name a ResourceClaimTemplate instead, for a claim to each pod"
                claimed = replace(claimed, wrong=why, fix=fix)
        if claimed != counted_pod.spec.claimed:
            counted_pod = replace(counted_pod, spec=replace(counted_pod.spec, claimed=claimed))
        self._pods[pod.uid] = counted_pod
        return counted_pod

    def drop_pod(self, uid: str) -> None:
        """Forget a pod."""
        if self._pods.pop(uid, None) is not None:
            self._use(uid, frozenset())

    def owner(self, owner: Owner) -> Owner:
        """Return a maker of pods with the GPUs of claims in its templates, and remember it."""
        namespace = owner.metadata.namespace or "default"
        counted_owner = with_claims(owner, lambda spec: self.table.spec_with_claims(spec, namespace))
        if counted_owner is not owner:
            self._owners[owner.metadata.uid] = owner
        return counted_owner

    def drop_owner(self, uid: str) -> None:
        """Forget a maker of pods."""
        self._owners.pop(uid, None)

    def put(self, item: AllocationObject) -> None:
        """Take in a claim, template, class or slice that appeared or changed; its metadata alone is no change."""
        about = reference_to(item)
        old = self.table.found.get(about)
        if old is None or replace(item, metadata=old.metadata) != old:
            self._changed(about, self.table.put(item))

    def drop(self, about: Reference) -> None:
        """Drop one that is gone."""
        self._changed(about, self.table.drop(about))

    @property
    def problems(self) -> Iterator[Problem]:
        """What an operator should know of the devices."""
        fix = "see what the driver's pod on the node says; whole GPUs in complete pools of one node each are counted"
        if self._doubts:
            name = min(self._doubts)
            first = f"node {name}: {self._doubts[name][0]}"
            number = plural(len(self._doubts), "node")
            yield Problem("UncertainDevices", f"devices are not certain of {number}, first {first}", fix)
        if homeless := self.table.homeless:
            message = f"ResourceSlices of several nodes are not counted: {len(homeless)}, the first {homeless[0]}"
            yield Problem("HomelessDevices", message, fix)

    def _changed(self, about: Reference, nodes: Collection[str]) -> None:
        kind, namespace, _ = about
        for name in nodes & self._nodes.keys():
            self._put_node(self._nodes[name])
        users = tuple(self._pods if kind is DeviceClass else self._users.get(about, ()))
        for uid in users:
            self._put_pod(self._pods[uid])
        if kind in (DeviceClass, ResourceClaimTemplate):
            for owner in tuple(self._owners.values()):
                if kind is DeviceClass or (owner.metadata.namespace or "default") == namespace:
                    self._put_owner(owner)

    def _use(self, uid: str, now: frozenset[Reference]) -> None:
        before = self._references.pop(uid, frozenset())
        if now:
            self._references[uid] = now
        for about in before ^ now:
            users = self._users[about]
            alone = len(users) == 1
            users ^= {uid}
            if about[0] is ResourceClaim and (alone or len(users) == 1):
                for other in users - {uid}:  # it was alone, or is now
                    self._put_pod(self._pods[other])
            if not users:
                del self._users[about]
