"""``arnold kube``, which is ``kubectl arnold`` too: gangs, nodes and domains of a live Kubernetes cluster, only read;
and the commands ``place``, ``score`` and ``explain`` asked of it.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from arnold.commands import explain, place, score
from arnold.console.output import answer
from arnold.options.cluster_options import KUBERNETES, ClusterFiles, open_kubernetes
from arnold.options.command import Command, Group, JsonCommand
from arnold.options.field_options import options_of
from arnold.options.shared_options import kubeconfig_options, page_options, show_live
from ground.errors import ArnoldError, InvalidInput

if TYPE_CHECKING:
    from extender.cluster_api.connect import WhichCluster
    from extender.live_cluster import ListedCluster
    from topology.load import LoadedTopology

ANSWERS = "arnold.documents.kubernetes_answers"


PLACE_EXAMPLES = """\b
Examples:
  kubectl arnold place -f job.yaml
  kubectl arnold place -f job.yaml --levels example.com/minipod,example.com/rack --json
"""

SCORE_EXAMPLES = """\b
Examples:
  kubectl arnold score train/llm
  kubectl arnold score --all --levels example.com/minipod,example.com/rack
"""

EXPLAIN_EXAMPLES = """\b
Examples:
  kubectl arnold explain train/llm --when
  kubectl arnold explain train/llm --stop --priority 10
  kubectl arnold explain job.yaml --cluster kube:prod --levels example.com/minipod,example.com/rack
"""

_namespace = click.option("--namespace", "-n", metavar="NAME", help="Namespace to look at.  [default: all]")
_labels = options_of(
    partial(ClusterFiles, cluster=""), to="labels", only=("levels", "domains")
)  # Of a cluster that is listed already


@click.group("kube", cls=Group)
def command() -> None:
    """Look at the gangs and nodes of a Kubernetes cluster; nothing is written.

    `kubectl arnold` is the same: a plug-in of kubectl that is installed beside `arnold`.
    """


@command.command("gangs", cls=JsonCommand, document=f"{ANSWERS}:GangsDocument")
@_namespace
@kubeconfig_options
def gangs(*, namespace: str | None, which: WhichCluster) -> None:
    """List gangs, their plans and spreads.

    The gap says how far from the best the objective may be; 0 is proved, and the column beside it says down to where.

    $ arnold kube gangs
    $ kubectl arnold gangs --namespace train
    $ kubectl arnold gangs --context prod --json
    """
    from arnold.documents.kubernetes_answers import GangsDocument, gang_summary, print_gangs
    from extender.live_cluster import list_plans

    plans = [plan for plan in list_plans(which) if namespace in (None, plan.key.namespace)]
    answer(GangsDocument(tuple(map(gang_summary, plans))), print_gangs)


@command.command("describe", cls=JsonCommand, document=f"{ANSWERS}:GangDocument")
@click.argument("gang")
@_namespace
@_labels
@kubeconfig_options
def describe(*, gang: str, namespace: str | None, which: WhichCluster, labels: ClusterFiles) -> None:
    """Show a gang: its plan, spread, ranks.

    GANG is its name, or NAMESPACE/NAME. The answer has what it asks, its plan, its largest spread at every level as
    the labels of the nodes are now, the node of each rank, and what `arnold watch` saw and did when it stood still.
    Levels are those of --levels, or those that the nodes are known by, or that of the gang alone.

    $ arnold kube describe llm
    $ kubectl arnold describe train/llm --levels example.com/minipod,example.com/rack
    """
    from arnold.documents.kubernetes_answers import gang_document, print_gang
    from extender.cluster_api.client import Refused
    from extender.cluster_api.connect import ask_cluster
    from extender.incidents import history_of
    from extender.live_cluster import list_cluster, list_plans, named_plan

    cluster, history, notes = None, None, list[str]()
    try:
        listed = list_cluster(which)
    except Refused as error:
        # whoever may see plans need not be allowed to see nodes
        plan = named_plan(list_plans(which), gang, namespace)
        notes.append(f"domains are not known: {error.message}")
    else:
        plan = named_plan(list_plans(which) if listed.plans is None else listed.plans, gang, namespace)
        try:
            cluster = _read(listed, labels, plan.spec.level).cluster
        except ArnoldError as error:
            if labels.levels or labels.domains:
                raise
            notes.append(f"domains are not known: {error.message}")
    try:
        history = ask_cluster(which, lambda api: history_of(api, plan.key.namespace))
    except (Refused, InvalidInput) as error:
        notes.append(f"whether it stood still is not known: {error.message}")
    answer(gang_document(plan, cluster, history, tuple(notes)), print_gang)


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


@command.command("nodes", cls=JsonCommand, document=f"{ANSWERS}:KubernetesNodesDocument")
@_labels
@kubeconfig_options
def nodes(*, which: WhichCluster, labels: ClusterFiles) -> None:
    """List nodes: place, use, flags, gang.

    Each node with GPUs is listed with its domains, free GPUs and flags, and the gang that it is promised to.

    $ arnold kube nodes
    $ kubectl arnold nodes --levels example.com/minipod,example.com/rack --domains power=example.com/feed
    """
    from arnold.documents.kubernetes_answers import nodes_document, print_nodes
    from extender.live_cluster import list_cluster

    listed = list_cluster(which)
    answer(nodes_document(labels.over(open_kubernetes(listed)), listed.promised), print_nodes)


@command.command("top", cls=JsonCommand, document=f"{ANSWERS}:TopDocument")
@_labels
@kubeconfig_options
def top(*, which: WhichCluster, labels: ClusterFiles) -> None:
    """List domains: free, promised, in use, gangs.

    Of each domain of each level: its GPUs that are free, those on nodes that are promised to a gang whose pods are yet
    to come, those in use, those that no job may have, and those that are free on nodes of which others are in use; and
    the gangs that are there.

    $ arnold kube top
    $ kubectl arnold top --levels example.com/minipod,example.com/rack --json
    """
    from arnold.documents.kubernetes_answers import print_top, top_document
    from extender.live_cluster import list_cluster

    listed = list_cluster(which)
    answer(top_document(labels.over(replace(open_kubernetes(listed), in_use=())), listed.promised), print_top)


@command.command("page", cls=Command)
@_labels
@page_options
@kubeconfig_options
def page(*, bind: str, host_name: tuple[str, ...], which: WhichCluster, labels: ClusterFiles) -> None:
    """Show the cluster in a browser as it is now, until SIGTERM or Ctrl-C.

    One page: nodes by gang, the queue with its reasons, spreads, flags and reservations, kept up to date as the cluster
    changes. It is read only. What was last seen of a cluster that does not answer is shown as that, with its time.

    $ arnold kube page
    $ kubectl arnold page --levels example.com/minipod,example.com/rack --bind 127.0.0.1:9000
    $ arnold kube page --bind 0.0.0.0:8890 --host-name arnold.example.com
    """
    from arnold.pages.live_kubernetes import KubernetesSource

    read_with = labels.read_with
    source = KubernetesSource(which, read_with["levels"], read_with["domains"] or {})
    show_live(source, bind=bind, host_names=host_name)


class LiveCommand(JsonCommand):
    """A command of the plain command line, asked of the live cluster that is the current one unless it names another.

    :param plain: that command.
    """

    def __init__(self, plain: JsonCommand, *, epilog: str) -> None:
        super().__init__(plain.name, callback=plain.callback, help=plain.help, document=plain.document, epilog=epilog)
        self.params = [copy(parameter) for parameter in plain.params]
        for parameter in self.params:
            if isinstance(parameter, click.Option) and parameter.name == "cluster":
                parameter.required, parameter.show_default = False, f"{KUBERNETES} the current context"
            if "--job" in parameter.opts:
                parameter.opts = ["-f", *parameter.opts]  # as kubectl calls a file

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words after the name of the command; raise as :meth:`JsonCommand.parse_args`."""
        named = any(word == "--cluster" or word.startswith("--cluster=") for word in args)
        return super().parse_args(ctx, args if named else ["--cluster", KUBERNETES, *args])


command.add_command(LiveCommand(place.command, epilog=PLACE_EXAMPLES))
command.add_command(LiveCommand(score.command, epilog=SCORE_EXAMPLES))
command.add_command(LiveCommand(explain.command, epilog=EXPLAIN_EXAMPLES))
