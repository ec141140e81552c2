"""``arnold watch``: the nodes of each running gang compared again and again, and slow ones annotated."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from arnold.commands.health_peers import record_findings, stopped_by_sigterm, tell_round
from arnold.options.cluster_options import KUBERNETES
from arnold.options.command import JsonCommand
from arnold.options.field_options import file_option
from arnold.options.peers_options import asks_prometheus
from arnold.options.shared_options import STORE_HELP, yes_option
from ground.errors import ArnoldError, InvalidInput

if TYPE_CHECKING:
    from arnold.documents.kubernetes_answers import GangsWatchedDocument
    from extender.cluster_api.connect import WhichCluster
    from extender.gangs.types import GangKey
    from health.peers.comparison import ComparisonSettings
    from health.peers.sample_sources import WatchPlan
    from health.peers.watch import Endpoint
    from topology.flags import NodeFlag

EXAMPLES = """\b
Examples:
  arnold watch --cluster kube: --prometheus http://prometheus:9090 --store flags.db
  arnold watch --cluster kube:prod --prometheus $URL --store flags.db --once --json
"""


@click.command(
    "watch", cls=JsonCommand, document="arnold.documents.kubernetes_answers:GangsWatchedDocument", epilog=EXAMPLES
)
@click.option(
    "--cluster",
    default=KUBERNETES,
    metavar="kube:[CONTEXT]",
    show_default="kube: the current context, or the pod's cluster",
    help="Live cluster whose gangs are watched, and whose nodes are annotated.",
)
@asks_prometheus
@file_option("--store", required=True, help=STORE_HELP)
@click.option("--once", is_flag=True, help="Make one round and end; exit 2 where nothing could be judged.")
@yes_option
def command(
    *,
    as_json: bool,
    cluster: str,
    endpoint: Endpoint,
    plan: WatchPlan,
    settings: ComparisonSettings,
    store: str,
    once: bool,
    yes: bool,
) -> None:
    """Compare the nodes of each running gang by what a Prometheus server has of them, and annotate the slow ones.

    Each round makes one comparison a bound gang, the nodes from its GangPlan, until SIGTERM. A node that is slower than
    its peers is priced by that factor; one whose hardware fails is faulty. The rules of the store say when a flag
    begins and ends, annotations follow the store, and new gangs heed them. A round that would take too many nodes out
    of use changes nothing (--yes). With --json, each round is one document on one line.
    """
    from extender.cluster_api.connect import WhichCluster

    if not cluster.startswith(KUBERNETES):
        raise InvalidInput(f"{cluster!r} is no live Kubernetes", where="--cluster", fix="write kube: or kube:CONTEXT")
    which = WhichCluster(context=cluster.removeprefix(KUBERNETES) or None)
    record_findings(store, (), now=datetime.now(UTC))  # one that cannot be written to is told of before anything
    with stopped_by_sigterm() as stop:
        while not stop.is_set():
            begun = time.monotonic()
            document = watch_gangs(which, endpoint, plan, settings, store=store, yes=yes, now=datetime.now(UTC))
            tell_round(document, as_json=as_json)
            if once:
                raise click.exceptions.Exit(2 if document.error else 0)
            # what is away is asked again sooner
            stop.wait(max(0.0, (plan.every if document.error is None else plan.every / 8) + begun - time.monotonic()))


def watch_gangs(
    which: WhichCluster,
    endpoint: Endpoint,
    plan: WatchPlan,
    settings: ComparisonSettings,
    *,
    store: str,
    yes: bool,
    now: datetime,
) -> GangsWatchedDocument:
    """Make one round: compare, record, annotate; what keeps it from being whole is told, and changes nothing.

    :param yes: it may take more nodes out of use than the breaker lets pass.
    """
    from arnold.console.output import error_document
    from arnold.documents.kubernetes_answers import GangsWatchedDocument, WatchedGang
    from extender.live_cluster import list_plans
    from extender.node_flags import FlagChange, on_cluster
    from extender.plans.gang_plan import PlanPhase
    from health.peers.comparison import detect
    from health.peers.verdict import judge, priced
    from health.peers.watch import asked
    from topology.flag_sources import Breaker, open_log

    watched, changes, strangers = list[WatchedGang](), list[FlagChange](), list[str]()
    recorded, failed = None, None
    try:
        gangs: dict[GangKey, list[str]] = {}
        flags: list[NodeFlag] = []
        for gang in list_plans(which):
            nodes = [name for name in gang.promised if plan.machines is None or name in plan.machines]
            if gang.phase is PlanPhase.BOUND and nodes:
                gangs[gang.key] = nodes
        compared = {name for nodes in gangs.values() for name in nodes}
        if compared:
            recording = asked(endpoint, replace(plan, machines=compared), until=now.timestamp())
        for key, nodes in gangs.items():
            try:
                of_gang = recording.only(nodes)
                verdict = judge(of_gang, list(detect(of_gang, settings)))
                flags += [priced(flag, verdict) for flag in verdict.flags]
                watched.append(WatchedGang(*key, len(nodes), verdict.verdict, judged=True))
            except ArnoldError as error:
                watched.append(WatchedGang(*key, len(nodes), error.message, judged=False))
        if not yes:
            Breaker(len(compared)).check(flags, where="arnold watch")
        recorded = record_findings(store, flags, now=now)
        with open_log(store) as log:
            held, slowdowns = log.holding(now), log.slowdowns()
        changes, strangers = on_cluster(which, lambda nodes: nodes.sync(held, known=slowdowns, now=now), yes=yes)
    except ArnoldError as error:
        failed = error_document(error).error
    done = tuple(change for change in changes if change.done != "unchanged")
    return GangsWatchedDocument(now, tuple(watched), recorded, done, tuple(strangers), failed)
