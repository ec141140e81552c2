"""``arnold kube``, which is ``kubectl arnold`` too: the gangs and nodes of a live Kubernetes cluster, only read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from arnold.console.output import answer, plain, print_rows, print_sentences
from arnold.options.cluster_options import ClusterFiles
from arnold.options.command import Group, JsonCommand
from arnold.options.field_options import options_of, takes
from arnold.options.shared_options import kubeconfig_options
from ground.errors import ArnoldError, InvalidInput, UnknownName, did_you_mean
from ground.quantities import decimal, percent
from scheduler.job import FAMILIES
from topology.flags import in_words

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.documents.kubernetes_answers import GangDocument, GangsDocument, GangSummary, KubernetesNodesDocument
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

    The gap says how far from the best the objective may be; 0 is proved.
    """
    from arnold.documents.kubernetes_answers import GangsDocument, gang_summary
    from extender.live_cluster import list_plans

    plans = [plan for plan in list_plans(which) if namespace in (None, plan.key.namespace)]
    answer(GangsDocument(tuple(map(gang_summary, plans))), _print_gangs, as_json=as_json)


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
    from arnold.documents.kubernetes_answers import gang_document
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
        loaded, notes = None, list[str]()
        try:
            loaded = _read(listed, labels, plan.spec.level)
        except ArnoldError as error:
            if labels.levels or labels.domains:
                raise
            notes.append(f"domains are not known: {error.message}")
        document = gang_document(plan, None if loaded is None else loaded.cluster, tuple(notes))
    answer(document, _print_gang, as_json=as_json)


def _read(listed: ListedCluster, labels: ClusterFiles, level: str | None) -> LoadedTopology:
    """Return the cluster with the levels that are asked for, or known; where the level of a gang is none of these, it
    is the only one.
    """
    from arnold.live_clusters import open_kubernetes

    opened = open_kubernetes(listed)
    try:
        loaded = labels.over(opened)
        if level is None or labels.levels or level in (known.name for known in loaded.cluster.levels):
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
    found = [plan for plan in plans if plan.key.name == bare and wanted in (None, plan.key.namespace)]
    if not found:
        known = [plan.key.name for plan in plans if wanted in (None, plan.key.namespace)]
        inside = f" in the namespace {wanted}" if wanted else ""
        hint = did_you_mean(bare, known)
        fix = f"{hint}`arnold kube gangs` lists them" if known else "`arnold kube gangs` lists gangs of all namespaces"
        raise UnknownName(f"no gang is called {bare!r}{inside}", where="GANG", fix=fix)
    if len(found) > 1:
        spaces = ", ".join(plan.key.namespace for plan in found)
        fix = f"give NAMESPACE/{bare}"
        raise InvalidInput(f"several namespaces have a gang {bare!r}: {spaces}", where="GANG", fix=fix)
    return found[0]


@command.command("nodes", cls=JsonCommand, document=f"{ANSWERS}:KubernetesNodesDocument", epilog=NODES_EXAMPLES)
@_labels
@kubeconfig_options
@takes(labels=NODE_LABELS)
def nodes(*, as_json: bool, which: WhichCluster, labels: ClusterFiles) -> None:
    """List nodes: place, use, flags, gang.

    Each node with GPUs is listed with its domains, free GPUs and flags, and the gang that it is promised to.
    """
    from arnold.documents.kubernetes_answers import nodes_document
    from arnold.live_clusters import open_kubernetes
    from extender.live_cluster import list_cluster

    listed = list_cluster(which)
    loaded = labels.over(open_kubernetes(listed))
    answer(nodes_document(loaded, listed.promised), _print_nodes, as_json=as_json)


def _worth(gang: GangSummary) -> tuple[str, str, str]:
    """Return spread, objective and gap in words."""
    spread = "-" if gang.spread is None else f"{gang.spread.dp}/{gang.spread.pp}"
    return spread, "-" if gang.objective is None else decimal(gang.objective), percent(gang.gap)


def _print_gangs(out: Console, document: GangsDocument) -> None:
    if not document.gangs:
        out.print("no gangs")
        return
    headers = ("gang", "phase", "pods", "GPUs", "DP/PP spread", "objective", "gap", "message")
    rows = []
    for gang in document.gangs:
        pods = f"{gang.bound_pods}/{gang.pods}" if gang.pods else "-"
        said = plain(gang.message.partition("\n")[0])
        gpus = f"{gang.gpus:,}" if gang.gpus else "-"
        rows.append((f"{gang.namespace}/{gang.gang}", gang.phase, pods, gpus, *_worth(gang), said))
    left, spare = ("phase", "message"), ("GPUs", "objective")
    print_rows(out, headers, rows, title="Gangs", left=left, spare=spare, gap=False)


def _print_gang(out: Console, gang: GangDocument) -> None:
    spread, objective, gap = _worth(gang)
    out.print(f"{gang.namespace}/{gang.gang}: {gang.phase}", style="bold")
    if gang.parallelism is not None:
        alpha = "" if gang.alpha is None else f", alpha {decimal(gang.alpha)}"
        out.print(f"{gang.parallelism}, order {gang.order}{alpha}")
        out.print(f"{gang.bound_pods} of {gang.pods} pods on their nodes")
    if gang.spread is not None:
        out.print(f"DP/PP spread {spread} at {gang.level}, objective {objective}, gap {gap}")
    if gang.message:
        out.print(_in_line(gang.message), soft_wrap=True)
    types = [f"GPUs of the type {' or '.join(gang.gpu_types)}"] if gang.gpu_types else []
    print_sentences(out, "Asked", [*gang.constraints, *types])
    found = [
        (condition.type, condition.status, condition.reason, _in_line(condition.message))
        for condition in gang.conditions
    ]
    headers = ("condition", "status", "reason", "message")
    print_rows(out, headers, found, title="Conditions", left=headers)
    if gang.spread_by_level is not None:
        levels = [(level, *(of[family] for family in FAMILIES)) for level, of in gang.spread_by_level.items()]
        print_rows(out, ("largest spread at", *FAMILIES), levels, title="Every level and family")
    names = list(gang.assignment[0].domains if gang.assignment else ())
    places = [
        (one.rank, one.dp, one.pp, one.node, *(one.domains.get(name) or "-" for name in names))
        for one in gang.assignment
    ]
    print_rows(out, ("rank", "dp", "pp", "node", *names), places, title="Ranks", left=["node", *names])
    print_sentences(out, "Notes", gang.notes)


def _in_line(message: str) -> str:
    """Return a message of several lines on one."""
    return plain(message.replace("\n", "; "))


def _print_nodes(out: Console, document: KubernetesNodesDocument) -> None:
    free = sum(node.free_gpus == node.gpus and node.flag is None and not node.sharing for node in document.nodes)
    out.print(f"{document.cluster}: {len(document.nodes):,} nodes with GPUs, {free:,} free and without a flag")
    names = list(document.nodes[0].domains)
    typed, shared = (any(getattr(node, name) for node in document.nodes) for name in ("gpu_type", "sharing"))
    rows = [
        (
            node.node,
            *(node.domains[name] or "-" for name in names),
            f"{node.free_gpus}/{node.gpus}",
            *([node.gpu_type or "-"] if typed else []),
            *([node.sharing or "-"] if shared else []),
            "-" if node.flag is None else plain(": ".join(filter(None, (in_words(node.flag), node.flag.evidence)))),
            node.gang or "-",
        )
        for node in document.nodes
    ]
    headers = (
        "node",
        *names,
        "free GPUs",
        *(["type"] if typed else []),
        *(["sharing"] if shared else []),
        "flag",
        "gang",
    )
    print_rows(out, headers, rows, title="Nodes", left=[*names, "type", "sharing", "flag", "gang"])
    print_sentences(out, "Notes", document.notes)
