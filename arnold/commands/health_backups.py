"""``arnold health backups``: which machine keeps which checkpoint backup."""

from __future__ import annotations

import click

from arnold.console.output import answer, progress
from arnold.options.cluster_options import ClusterFiles, cluster_options
from arnold.options.command import JsonCommand
from arnold.options.field_options import file_option, takes
from arnold.options.shared_options import PLACEMENT_HELP, html_option
from ground.files import read_source


@click.command("backups", cls=JsonCommand, document="arnold.documents.recover_answers:CheckpointPeersDocument")
@cluster_options
@file_option("--placement", required=True, help=PLACEMENT_HELP)
@click.option(
    "--failure-level", metavar="NAME", help="Level of the cluster whose domains fail at once.  [default: the closest]"
)
@html_option
@takes(files=ClusterFiles)
def command(*, as_json: bool, html: str | None, placement: str, failure_level: str | None, files: ClusterFiles) -> None:
    """Say which machine keeps the backup of each machine, so that both are not lost at once.

    A peer shares no PP, DP or TP group and no rack with the machine; each machine keeps the backup of exactly one, as
    near as that allows. Where the rules cannot all be kept, the DP group gives way first, then the rack, then the PP
    group, in as few pairs as possible.

    $ arnold place --cluster cluster.csv --job job.yaml --output placement.json
    $ arnold health backups --cluster cluster.csv --placement placement.json --failure-level rack
    """
    from arnold.documents.recover_answers import peers_document, print_peers
    from health.recovery.checkpoint_peers import checkpoint_peers
    from health.recovery.machines import Machines
    from scheduler.job_files.placement_file import load_placement

    loaded = files.read_aloud()
    cluster = loaded.cluster
    depth = -1 if failure_level is None else cluster.level_index(failure_level, where="--failure-level")
    rack = cluster.levels[depth].name if cluster.levels else None
    saved = load_placement(read_source(placement), cluster)
    nodes = saved.by_node_rank()
    machines = Machines(saved.job, tuple(cluster.names[node] for node in nodes))
    with progress(f"Assigning peers of {saved.job.name}"):
        peers = checkpoint_peers(cluster, machines, nodes, level=rack)
    document = peers_document(peers, cluster, source=files.cluster, level=rack, notes=loaded.notes)
    answer(document, print_peers, as_json=as_json, html=html)
