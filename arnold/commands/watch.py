"""``arnold watch``: the nodes of each running gang compared, slow ones annotated, gangs that stand still looked at."""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from arnold.commands.health_peers import tell_round
from arnold.console.interrupts import stopped_by
from arnold.options.cluster_options import KUBERNETES
from arnold.options.command import JsonCommand
from arnold.options.field_options import file_option, options_of
from arnold.options.peers_options import asks_prometheus
from arnold.options.shared_options import STORE_HELP, yes_option
from ground.errors import InvalidInput
from health.peers.sample_sources import StallPlan, WatchPlan

if TYPE_CHECKING:
    from health.peers.comparison import ComparisonSettings
    from health.peers.watch import Endpoint


@click.command("watch", cls=JsonCommand, document="arnold.documents.kubernetes_answers:GangsWatchedDocument")
@click.option(
    "--cluster",
    default=KUBERNETES,
    metavar="kube:[CONTEXT]",
    show_default="kube: the current context, or the pod's cluster",
    help="Live cluster whose gangs are watched, and whose nodes are annotated.",
)
@asks_prometheus
@file_option("--store", required=True, help=STORE_HELP)
@options_of(StallPlan, to="stalls")
@click.option("--once", is_flag=True, help="Make one round and end; exit 2 where nothing could be judged.")
@yes_option
def command(
    *,
    cluster: str,
    endpoint: Endpoint,
    plan: WatchPlan,
    settings: ComparisonSettings,
    store: str,
    stalls: StallPlan,
    once: bool,
    yes: bool,
) -> None:
    """Compare the nodes of each running gang by what a Prometheus server has of them, and annotate the slow ones.

    Each round makes one comparison a bound gang, the nodes from its GangPlan, until SIGTERM. A node that is slower than
    its peers is priced by that factor; one whose hardware fails is faulty. The rules of the store say when a flag
    begins and ends, annotations follow the store, and new gangs heed them. A round that would take too many nodes out
    of use changes nothing (--yes). With --progress, gangs that stand still are looked at more often: the nodes that
    hold them up are flagged, and every step is kept in the GangHistory of the namespace. With --json, each round is one
    document on one line.

    $ arnold watch --cluster kube: --prometheus http://prometheus:9090 --store flags.db
    $ arnold watch --cluster kube:prod --prometheus $URL --store flags.db --once --json
    $ arnold watch --prometheus $URL --store flags.db --progress 'max by (node, gpu) (training_steps)' --policy act
    """
    from arnold.documents.store_answers import record_findings
    from arnold.gang_watch import GangWatch
    from extender.cluster_api.connect import WhichCluster

    if not cluster.startswith(KUBERNETES):
        raise InvalidInput(f"{cluster!r} is no live Kubernetes", where="--cluster", fix="write kube: or kube:CONTEXT")
    if stalls.policy == "act" and not stalls.progress:
        fix = "write a query that counts steps or collectives by node"
        raise InvalidInput(
            "it is empty, so no gang is seen to stand still, and --policy act does nothing", where="--progress", fix=fix
        )
    watch = GangWatch(
        WhichCluster(context=cluster.removeprefix(KUBERNETES) or None), endpoint, plan, settings, stalls, store, yes=yes
    )
    record_findings(store, (), now=datetime.now(UTC))  # one that cannot be written to is told of before anything
    told = set[str]()
    with stopped_by(signal.SIGTERM) as stop:
        due = 0.0  # when the nodes are compared next, by the steady clock
        while not stop.is_set():
            begun = time.monotonic()
            compares = begun >= due
            document = watch.round(datetime.now(UTC), compares=compares)
            if compares:
                # what is away is asked again sooner
                due = begun + (plan.every if document.error is None else plan.every / 8)
            if compares or document.stalls or document.error is not None:
                tell_round(document, told)
            if once:
                judged = not document.gangs or any(gang.judged for gang in document.gangs)
                raise click.exceptions.Exit(2 if document.error or not judged else 0)
            look = begun + stalls.every if stalls.progress else due
            stop.wait(max(0.0, min(due, look) - time.monotonic()))
