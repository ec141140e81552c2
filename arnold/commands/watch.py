"""``arnold watch``: the nodes of each running gang compared with one another, again and again, and slow ones annotated."""

from __future__ import annotations

import signal
from datetime import UTC, datetime
from threading import Event
from typing import TYPE_CHECKING

import click

from arnold.commands.health_peers import METRICS_SERVER, MetricsServer, record_findings
from arnold.console.output import print_line
from arnold.options.cluster_options import KUBERNETES
from arnold.options.command import JsonCommand
from arnold.options.field_options import file_option, options_of, takes
from arnold.options.shared_options import STORE_HELP, yes_option
from ground.errors import ArnoldError, InvalidInput

if TYPE_CHECKING:
    from arnold.documents.store_answers import GangsWatchedDocument
    from extender.cluster_api.connect import WhichCluster

EXAMPLES = """\b
Examples:
  arnold watch --cluster kube: --prometheus http://prometheus:9090 --store flags.db
  arnold watch --cluster kube:prod --prometheus $URL --store flags.db --once --json
"""


@click.command(
    "watch", cls=JsonCommand, document="arnold.documents.store_answers:GangsWatchedDocument", epilog=EXAMPLES
)
@click.option(
    "--cluster",
    default=KUBERNETES,
    metavar="kube:[CONTEXT]",
    show_default="kube: the current context, or that of the pod",
    help="The live cluster whose gangs are watched, and whose nodes are annotated.",
)
@options_of(MetricsServer)
@file_option("--store", required=True, help=STORE_HELP)
@click.option("--once", is_flag=True, help="Make one round and end; exit 2 where nothing could be judged.")
@yes_option
@takes(server=MetricsServer)
def command(*, as_json: bool, cluster: str, server: MetricsServer, store: str, once: bool, yes: bool) -> None:
    """Compare the nodes of each running gang by what a Prometheus server has of them, and annotate slow ones.

    Until SIGTERM, one comparison a bound gang and round, its nodes from its GangPlan. A node that is slower than its
    peers is priced by that factor, one with broken hardware is faulty. The rules of the store say when a flag begins
    and ends; annotations follow the store, so that new gangs heed it. No run takes more than a quarter of the nodes
    out of use, unless --yes.
    """
    from extender.cluster_api.connect import WhichCluster

    if not cluster.startswith(KUBERNETES):
        raise InvalidInput(f"{cluster!r} is no live Kubernetes", where="--cluster", fix="write kube: or kube:CONTEXT")
    which, stop = WhichCluster(context=cluster.removeprefix(KUBERNETES) or None), Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        while not stop.is_set():
            document = look(which, server, store, yes=yes, now=datetime.now(UTC))
            print_line(document, document.line, as_json=as_json)
            if once:
                if document.error is not None:
                    raise click.exceptions.Exit(2)
                return
            stop.wait(server.every if document.error is None else min(server.every, 15.0))
    finally:
        signal.signal(signal.SIGTERM, before)
