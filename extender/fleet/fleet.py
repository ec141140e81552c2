"""Nodes and pods as a cluster: what is free, promised, flagged, faulty; updated object by object.

An update touches what it changes: a pod that comes or goes changes one number of one node, a heartbeat nothing.  The
tree of domains is made anew when a node comes, goes or changes its place, and then only when it is asked for.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType

import numpy as np

from extender.fleet.hosts import GONE, Demand, Host, host_of, widest_of
from extender.fleet.images import NodeImages
from extender.fleet.resources import NodeResources, Tenant, tenant_of
from extender.fleet.table import NOWHERE, FleetTable, GangView, Own, Problem, make_table, make_view
from extender.gangs.types import GangKey
from scheduler.occupancy import Occupancy
from topology.cluster import BoolArray, Cluster
from topology.kubernetes.labels import HOSTNAME, NVLINK, PRESETS, label_of
from topology.kubernetes.objects import NodeObject
from topology.kubernetes.pods import Pod

_NEVER = datetime.max.replace(tzinfo=UTC)
_VIEWS = 32  # views kept, one for each kind of pods


class Fleet:
    """The nodes as last seen; without levels, those of the preset that most nodes carry are taken.

    :param domains: second hierarchies: name, with its ``@`` -> the label of the nodes' domains.
    """

    def __init__(
        self, levels: Sequence[str] | None = None, *, domains: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._configured, self._domains = None if levels is None else tuple(levels), dict(domains)
        placing = self._configured or (*NVLINK, *(label for preset in PRESETS for label in preset.labels))
        self._placing = tuple(dict.fromkeys((*placing, *self._domains.values())))
        self._hosts: dict[str, Host] = {}
        self.held = NodeResources()
        self.images = NodeImages()  # no plan has to be made anew for them
        # node -> the gangs whose plans have it, and UIDs of pods released to it for which no plan speaks -> their gang
        self._claims: defaultdict[str, dict[GangKey | str, GangKey]] = defaultdict(dict)
        self._claimed: dict[GangKey | str, dict[str, GangKey]] = {}  # the same by gang or pod
        self._table: FleetTable | None = None
        self._occupancy = _uncounted((), None)
        self._annotated = np.zeros(0, dtype=np.bool_)
        self._dirty: set[str] = set()
        self._views: dict[tuple[frozenset[Demand], frozenset[str], int], tuple[int, datetime, GangView]] = {}
        self.version = 0  # counts changes that a plan could depend on

    def put_node(self, node: NodeObject) -> None:
        """Take in a node that appeared or changed."""
        old, new = self._hosts.get(node.name), host_of(node)
        if old == new:
            return
        self._hosts[node.name] = new
        self._changed(node.name, rebuild=old is None or self._place(old) != self._place(new))

    def drop_node(self, name: str) -> None:
        """Drop a node that is gone."""
        self.images.drop(name)
        if self._hosts.pop(name, None) is not None:
            self._changed(name, rebuild=True)

    def put_pod(self, pod: Pod) -> None:
        """Take in a pod that appeared or changed: what it holds of a node, until it has ended or is gone."""
        if pod.node is None or pod.terminal:
            self.drop_pod(pod.uid)
        elif (new := tenant_of(pod, pod.node)) != self.held.tenant(pod.uid):
            self.drop_pod(pod.uid)
            self.held.put(pod.uid, new)
            self._taken(new)

    def drop_pod(self, uid: str) -> None:
        """Drop a pod that is gone."""
        if (old := self.held.drop(uid)) is not None:
            self._taken(old)

    def promise(self, key: GangKey, nodes: Collection[str]) -> None:
        """Promise nodes to a gang: all of these, and no others."""
        self._claim(key, dict.fromkeys(nodes, key))

    def release(self, uid: str, node: str | None, key: GangKey) -> None:
        """Promise the node that a pod was released to, and no other, to the pod's gang, as no plan speaks for it.

        :param node: ``None`` = the pod keeps no node any more.
        """
        self._claim(uid, {} if node is None else {node: key})

    def _claim(self, by: GangKey | str, after: dict[str, GangKey]) -> None:
        before = self._claimed.pop(by, {})
        if after:
            self._claimed[by] = after
        for name in {name for name, _ in before.items() ^ after.items()}:
            if name in after:
                self._claims[name][by] = after[name]
            else:
                del self._claims[name][by]
            self._changed(name)

    def released_to(self, uid: str) -> str | None:
        """Return the node that is promised to a pod's gang by the pod itself, as no plan speaks for it."""
        return next(iter(self._claimed.get(uid, ())), None)

    def promised_to(self, name: str) -> GangKey | None:
        """Return the gang that a node is promised to: by a plan, or else by the release of a pod for which none speaks.

        Of several, which forged plans can bring about, the first.
        """
        if not (claims := self._claims.get(name)):
            return None
        return min([key for by, key in claims.items() if by == key] or claims.values())

    def host(self, name: str) -> Host | None:
        """Return a node as it was last seen; ``None`` = there is no such node."""
        return self._hosts.get(name)

    def ailing(self, name: str, now: datetime) -> str:
        """Return why what runs on a node is in danger: gone, not Ready, broken, flagged faulty; empty = fine."""
        host = self._hosts.get(name)
        return GONE if host is None else host.ailing(now)

    def gpus_of(self, namespace: str) -> int:
        """Return GPUs that pods of a namespace hold, and all those of nodes that are promised to its gangs."""
        self._count()
        return self.held.gpus_of(namespace)

    @property
    def levels(self) -> tuple[str, ...]:
        """Labels that are the levels, from broad to close."""
        tree = self.table.tree
        return () if tree is None else tuple(level.name for level in tree.levels)

    @property
    def second_levels(self) -> tuple[str, ...]:
        """Names of the second hierarchies, which constraints may name, with their ``@``."""
        tree = self.table.tree
        return () if tree is None else tuple(level.name for level in tree.second_levels)

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """Types of GPU of the nodes; empty text = not said of some."""
        tree = self.table.tree
        return () if tree is None else tree.gpu_types

    @property
    def sharing(self) -> BoolArray:
        """Shape [nodes], by row of the table: whether the node offers GPUs in parts, of which no gang gets any."""
        tree = self.table.tree
        return np.zeros(0, dtype=np.bool_) if tree is None else ~tree.whole

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What an operator should mend."""
        own = (
            Problem("UnreadableNode", host.problem.message, host.problem.fix, node=host.name)
            for host in self._hosts.values()
            if host.problem is not None
        )
        return (*self.table.problems, *own)

    @property
    def table(self) -> FleetTable:
        """The tree, made anew if it must be."""
        if self._table is None:
            hosts = [host for host in self._hosts.values() if host.gpus]
            self._table = make_table(hosts, self._configured, self._domains)
            self._occupancy = _uncounted(self._table.hosts, self._table.tree)
            self._annotated = np.zeros(len(self._table.hosts), dtype=np.bool_)
            self._dirty.update(self._table.index_of)
            rows = self._table.hosts
            self.held.place([host.name for host in rows], [self._hosts[host.name].offers for host in rows])
        return self._table

    @property
    def occupancy(self) -> Occupancy:
        """What is in use now, by row of the table."""
        self._count()
        return self._occupancy

    def whole_free_nodes(self, now: datetime) -> int:
        """Return how many nodes have all their GPUs free and promised to nobody, and may get new pods."""
        available = self.occupancy.available  # counts first what has changed
        hosts = [self._hosts[host.name] for host in self.table.hosts]
        return sum(
            free >= host.gpus and not host.fault and not host.ailing(now)
            for host, free in zip(hosts, available.tolist(), strict=True)
        )

    @property
    def annotated(self) -> BoolArray:
        """Shape [nodes], whether an annotation may speak against a node."""
        self._count()
        return self._annotated

    @property
    def default_level(self) -> str | None:
        """The broadest level with more than one domain, nodes without a place there aside; ``None`` = no level."""
        tree = self.table.tree
        if tree is None or not tree.levels:
            return None
        return next((level.name for level in tree.levels if int((~level.implicit).sum()) > 1), tree.levels[0].name)

    def view(
        self, demands: frozenset[Demand], now: datetime, *, counted: frozenset[str], pods: int = 1, own: Own = NOWHERE
    ) -> GangView:
        """Return the cluster for the pods of one gang, so many, as :func:`make_view` does."""
        tree, request, key = self.table.tree, widest_of(demands), None
        if tree is not None:
            pods = max(1, min(pods, int(tree.gpus.max()) // (request.gpus or 1)))  # more share no node
        if own is NOWHERE:
            key = (demands, counted, pods)
            version, until, view = self._views.get(key, (-1, now, None))
            if view is not None and version == self.version and now < until:
                return view
        occupancy = self.occupancy  # counts first what has changed
        hosts = [self._hosts[host.name] for host in self.table.hosts]
        shortages = []
        if tree is not None:
            sharing = np.clip(tree.gpus // max(1, request.gpus), 1, pods).astype(np.int32)
            shortages = [lack for lack in self.held.shortages(request, sharing) if lack.rows.any()]
        view = make_view(
            self.table, hosts, occupancy, demands=demands, counted=counted, own=own, shortages=shortages, now=now
        )
        if key is not None:
            # it holds until a flag begins or ends
            flags = (host.annotated for host in self._hosts.values() if host.annotated is not None)
            times = (time for flag in flags for time in (flag.since, flag.until))
            until = min((time for time in times if time is not None and time > now), default=_NEVER)
            self._views[key] = (self.version, until, view)
            while len(self._views) > _VIEWS:
                del self._views[next(iter(self._views))]
        return view

    def node_called(self, hostname: str) -> str:
        """Return the name of the node with that label ``kubernetes.io/hostname``; where none has it, what it says."""
        host = self._hosts.get(hostname)
        if host is not None and host.labels.get(HOSTNAME, hostname) == hostname:
            return hostname
        return next((host.name for host in self._hosts.values() if host.labels.get(HOSTNAME) == hostname), hostname)

    def lacking(self, name: str, demands: frozenset[Demand], *, pods: int, own: Collection[str] = ()) -> str:
        """Return what others leave too little of on a node for so many pods; empty = nothing.

        :param own: UIDs of pods that are not others.
        """
        host, request = self._hosts.get(name), widest_of(demands)
        return "" if host is None else self.held.lacking(name, host.offers, request, pods=pods, own=own)

    def _place(self, host: Host) -> tuple[object, ...]:
        """Return what the tree depends on."""
        return host.gpus, host.gpu_type, host.sharing, *(label_of(host.labels, label) for label in self._placing)

    def outdate(self) -> None:
        """Take note that something else has changed that plans depend on: which gangs may use which nodes."""
        self.version += 1

    def _taken(self, tenant: Tenant) -> None:
        """Take note of a pod that came or went; one without GPUs on a node without any concerns no plan."""
        if tenant.request.gpus or (host := self._hosts.get(tenant.node)) is None or host.gpus:
            self._changed(tenant.node)

    def _changed(self, name: str, *, rebuild: bool = False) -> None:
        self.version += 1
        self._dirty.add(name)
        if rebuild:
            self._table = None

    def _count(self) -> None:
        """Count anew what is in use of the nodes that changed."""
        table = self.table
        for name in self._dirty:
            i, host, gang = table.index_of.get(name), self._hosts.get(name), self.promised_to(name)
            promised = None if gang is None else gang.namespace
            size, shares = (0, 1) if host is None else (host.gpus, host.shares)
            self.held.count(name, size=size, shares=shares, promised=promised)
            if i is not None and host is not None:
                # what is free of shared GPUs are parts, no GPUs: kube-scheduler counts them
                free = 0 if host.sharing else min(host.gpus, max(0, host.allocatable - self.held.gpus_on(name)))
                self._occupancy.put(i, free=free, promised=gang is not None)
                self._annotated[i] = host.annotated is not None
                self.held.recount(i, host.offers)
        self._dirty.clear()


def _uncounted(hosts: Sequence[Host], tree: Cluster | None) -> Occupancy:
    """Return the occupancy of nodes on which nothing is free until they are counted."""
    size = np.array([host.gpus for host in hosts], dtype=np.int32)
    return Occupancy(size, np.zeros_like(size), () if tree is None else tree.levels)
