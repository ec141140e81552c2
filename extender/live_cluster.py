"""A live cluster as the command line reads it: nodes, pods and plans of gangs, listed once, nothing written.

Nodes, pods and plans become the text that ``kubectl get nodes,pods,gangplans -A -o json`` prints, for the reader of
such files: without the fields that are not read, and without pods that can hold no GPUs, which are nine tenths of it,
but for one of each namespace, which shows that its pods were listed.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import msgspec

from extender.cluster_api.client import ALLOCATION, GANGPLANS, NODES, PODS, ClusterApi, Refused, Resource
from extender.cluster_api.connect import WhichCluster, ask_cluster
from extender.cluster_api.reflector import objects_of
from extender.gangs.recognise import recognise
from extender.gangs.types import GangKey
from extender.objects import decode_allocation, decode_node, decode_pod
from extender.plans.gang_plan import GangPlan, decode_plan, encode_plan
from ground.errors import InvalidInput, UnknownName, did_you_mean
from ground.files import Source
from topology.kubernetes.claim_table import ClaimTable
from topology.kubernetes.objects import NamedObject
from topology.kubernetes.pods import Pod
from topology.node_gpus import GPU_CLASSES, GPUS


@dataclass(frozen=True, slots=True)
class ListedCluster:
    """What a live cluster said."""

    nodes: Source  # nodes, pods with GPUs and plans, as kubectl prints them; named after the context
    plans: tuple[GangPlan, ...] | None  # of gangs; None = they may not be listed
    unread: tuple[str, ...] = ()  # GangPlans that are none, or of a later version
    released: tuple[tuple[str, GangKey], ...] = ()  # node and gang of each pod that was released, there or not

    @property
    def promised(self) -> dict[str, GangKey]:
        """Node -> the gang that it is promised to by a plan, whether its pods are there yet or not.

        Where no plan speaks for the pods of a gang, by the release of a pod, as the extender counts it.
        """
        plans = {plan.key: plan for plan in self.plans or ()}
        silent = ((node, key) for node, key in self.released if key not in plans or not plans[key].speaks_for_pods)
        return dict(silent) | {node: plan.key for plan in plans.values() for node in plan.promised}


def list_cluster(which: WhichCluster, *, gpus: Sequence[str] = GPUS) -> ListedCluster:
    """Return the nodes of a cluster, the pods that hold GPUs of them, and the plans of gangs.

    :param gpus: names of the resources that are GPUs.
    :raises InvalidKubeconfig: there is no such cluster; Unreachable: it does not answer; Refused: nodes or pods may not
        be listed.
    """

    async def ask(api: ClusterApi) -> ListedCluster:
        items = [b'{"kind":"Node",' + msgspec.json.encode(decode_node(raw))[1:] async for raw in _all(api, NODES)]
        on_nodes, seen = list[tuple[str, Pod]](), set[str]()
        async for raw in _all(api, PODS):
            pod, holds_gpus = decode_pod(raw), False
            if pod.node is not None and not pod.terminal:
                try:
                    holds_gpus = pod.spec.gpus_of(gpus) > 0 or pod.spec.parts > 0 or bool(pod.spec.resource_claims)
                except ValueError:  # it says so in a way that its reader refuses
                    holds_gpus = True
            if holds_gpus or pod.namespace not in seen:
                seen.add(pod.namespace)
                items.append(b'{"kind":"Pod",' + msgspec.json.encode(pod)[1:])
            if pod.released and (node := pod.node or pod.released_to) is not None:
                on_nodes.append((node, pod))
        claims = ClaimTable(GPU_CLASSES, complete=False)
        for kind in ALLOCATION:
            decode, head = decode_allocation[kind.kind], b'{"kind":"%s",' % kind.kind.encode()
            try:
                async for raw in _all(api, kind):
                    claims.put(item := decode(raw))
                    items.append(head + msgspec.json.encode(item)[1:])
            except Refused as error:
                if error.status not in (403, 404):
                    raise
        # of which gang they are is known with the GPUs of their claims
        members = ((node, recognise(claims.with_claims(pod), {})) for node, pod in on_nodes)
        released = ((node, member.key) for node, member in members if member is not None and member.needed)
        plans: tuple[GangPlan, ...] | None = ()  # none where Arnold is not installed
        unread = list[str]()
        try:
            plans = await _plans(api, unread)
        except Refused as error:
            if error.status not in (403, 404):
                raise
            plans = None if error.status == 403 else ()
        items += [msgspec.json.encode(encode_plan(plan)) for plan in plans or ()]
        text = b'{"kind":"List","items":[' + b",\n".join(items) + b"]}"
        name = f"kube:{api.context or 'in-cluster'}"
        return ListedCluster(Source(name, text.decode(), numbered=False), plans, tuple(unread), tuple(released))

    return ask_cluster(which, ask)


def list_plans(which: WhichCluster) -> tuple[GangPlan, ...]:
    """Return the plans of all gangs, by namespace and name; raise as :func:`list_cluster`, also where the cluster knows
    no such kind.
    """
    return ask_cluster(which, lambda api: _plans(api, []))


async def _plans(api: ClusterApi, unread: list[str]) -> tuple[GangPlan, ...]:
    """Return the plans, and add the names of those that cannot be read to a list."""
    plans = []
    async for raw in _all(api, GANGPLANS):
        try:
            plans.append(decode_plan(raw))
        except InvalidInput:  # somebody else's; the extender says so to whom it concerns
            about = msgspec.json.decode(raw, type=NamedObject).metadata
            unread.append(f"{about.namespace}/{about.name}")
    return tuple(sorted(plans, key=lambda plan: plan.key))


async def _all(api: ClusterApi, resource: Resource) -> AsyncIterator[bytes]:
    """Yield the objects of a kind, unread; an error says what may not be done, and how to be allowed to."""
    try:
        async for raw in objects_of(api, resource):
            yield raw
    except Refused as error:
        if error.status == 403:
            group = f" of the API group {resource.group}" if resource.group else ""
            error.fix = (
                f"give this user the verb list on {resource.plural}{group}, in all namespaces (a ClusterRole with a "
                "ClusterRoleBinding), or use a context whose user has it"
            )
        raise


def named_plan(plans: Sequence[GangPlan], name: str, namespace: str | None = None) -> GangPlan:
    """Return the plan of a gang, or raise UnknownName: no gang is called that, InvalidInput: several are."""
    space, slash, bare = name.rpartition("/")
    wanted = space if slash else namespace
    if slash and namespace is not None and namespace != space:
        raise InvalidInput(f"{name!r} is not in {namespace}", where="--namespace", fix="give the namespace once")
    matches = [plan for plan in plans if plan.key.name == bare and wanted in (None, plan.key.namespace)]
    if not matches:
        names = [plan.key.name for plan in plans if wanted in (None, plan.key.namespace)]
        inside = f" in the namespace {wanted}" if wanted else ""
        hint = did_you_mean(bare, names)
        fix = f"{hint}`arnold kube gangs` lists them" if names else "`arnold kube gangs` lists gangs of all namespaces"
        raise UnknownName(f"no gang is called {bare!r}{inside}", where="GANG", fix=fix)
    if len(matches) > 1:
        spaces = ", ".join(plan.key.namespace for plan in matches)
        fix = f"give NAMESPACE/{bare}"
        raise InvalidInput(f"several namespaces have a gang {bare!r}: {spaces}", where="GANG", fix=fix)
    return matches[0]
