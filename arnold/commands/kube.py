"""``arnold kube``, which is ``kubectl arnold`` too: the gangs and nodes of a live Kubernetes cluster, only read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from arnold.console.output import answer
from arnold.options.cluster_options import ClusterFiles, open_kubernetes
from arnold.options.command import Group, JsonCommand
from arnold.options.field_options import options_of, takes
from arnold.options.shared_options import kubeconfig_options
from ground.errors import ArnoldError, InvalidInput, UnknownName, did_you_mean

if TYPE_CHECKING:
    from extender.cluster_api.connect import WhichCluster
    from extender.live_cluster import ListedCluster
    from extender.plans.gang_plan import GangPlan
    from topology.load import LoadedTopology

ANSWERS = "arnold.documents.kubernetes_answers"

GANGS_EXAMPLES = """\b
Examples:
  arnold kube gangs
  kubectl arnold gangs --namespace train
  kubectl arnold gangs --context prod --json
"""

DESCRIBE_EXAMPLES = """\b
Examples:
  arnold kube describe llm
  kubectl arnold describe train/llm --levels example.com/minipod,example.com/rack
"""

NODES_EXAMPLES = """\b
Examples:
  arnold kube nodes
  kubectl arnold nodes --levels example.com/minipod,example.com/rack --domains power=example.com/feed
"""

_namespace = click.option("--namespace", "-n", metavar="NAME", help="Namespace to look at.  [default: all]")
_labels = options_of(ClusterFiles, only=("levels", "domains"))
NODE_LABELS = partial(ClusterFiles, cluster="")  # Of a cluster that is listed already


@click.group("kube", cls=Group)
def command() -> None:
    """Look at the gangs and nodes of a Kubernetes cluster; nothing is written.

    `kubectl arnold` is the same: a plug-in of kubectl that is installed beside `arnold`.
    """


@command.command("gangs", cls=JsonCommand, document=f"{ANSWERS}:GangsDocument", epilog=GANGS_EXAMPLES)
@_namespace
@kubeconfig_options
def gangs(*, as_json: bool, namespace: str | None, which: WhichCluster) -> None:
    """List gangs, their plans and spreads.

    The gap says how far from the best the objective may be; 0 is proved, and the column beside it says down to where.
    """
    from arnold.documents.kubernetes_answers import GangsDocument, gang_summary, print_gangs
    from extender.live_cluster import list_plans

    plans = [plan for plan in list_plans(which) if namespace in (None, plan.key.namespace)]
    answer(GangsDocument(tuple(map(gang_summary, plans))), print_gangs, as_json=as_json)


@command.command("describe", cls=JsonCommand, document=f"{ANSWERS}:GangDocument", epilog=DESCRIBE_EXAMPLES)
@click.argument("gang")
@_namespace
@_labels
@kubeconfig_options
@takes(labels=NODE_LABELS)
def describe(*, as_json: bool, gang: str, namespace: str | None, which: WhichCluster, labels: ClusterFiles) -> None:
    """Show a gang: its plan, spread, ranks.

    GANG is its name, or NAMESPACE/NAME. The answer has what it asks, its plan, its largest spread at every level as
    the labels of the nodes are now, and the node of each rank. Levels are those of --levels, or those that the nodes
    are known by, or that of the gang alone.
    """
    from arnold.documents.kubernetes_answers import gang_document, print_gang
    from extender.cluster_api.client import Refused
    from extender.live_cluster import list_cluster, list_plans

    try:
        listed = list_cluster(which)
    except Refused as error:
        # whoever may see plans need not be allowed to see nodes
        plan = _named(list_plans(which), gang, namespace)
        document = gang_document(plan, None, (f"domains are not known: {error.message}",))
    else:
        plan = _named(list_plans(which) if listed.plans is None else listed.plans, gang, namespace)
        cluster, notes = None, list[str]()
        try:
            cluster = _read(listed, labels, plan.spec.level).cluster
        except ArnoldError as error:
            if labels.levels or labels.domains:
                raise
            notes.append(f"domains are not known: {error.message}")
        document = gang_document(plan, cluster, tuple(notes))
    answer(document, print_gang, as_json=as_json)


def _read(listed: ListedCluster, labels: ClusterFiles, level: str | None) -> LoadedTopology:
    """Return the cluster with the levels that are asked for, or known; where the level of a gang is none of these, it
    is the only one.
    """
    opened = open_kubernetes(listed)
    try:
        loaded = labels.over(opened)
        if level is None or labels.levels or level in [broader.name for broader in loaded.cluster.levels]:
            return loaded
    except InvalidInput:
        if level is None or labels.levels:
            raise
    return replace(labels, levels=level).over(opened)


def _named(plans: Sequence[GangPlan], name: str, namespace: str | None) -> GangPlan:
    """Return the plan of a gang.

    :raises UnknownName: there is no gang of that name; InvalidInput: there are several.
    """
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


@command.command("nodes", cls=JsonCommand, document=f"{ANSWERS}:KubernetesNodesDocument", epilog=NODES_EXAMPLES)
@_labels
@kubeconfig_options
@takes(labels=NODE_LABELS)
def nodes(*, as_json: bool, which: WhichCluster, labels: ClusterFiles) -> None:
    """List nodes: place, use, flags, gang.

    Each node with GPUs is listed with its domains, free GPUs and flags, and the gang that it is promised to.
    """
    from arnold.documents.kubernetes_answers import nodes_document, print_nodes
    from extender.live_cluster import list_cluster

    listed = list_cluster(which)
    loaded = labels.over(open_kubernetes(listed))
    answer(nodes_document(loaded, listed.promised), print_nodes, as_json=as_json)
