"""``arnold health look``: whom the files of a dead or slow job suspect."""

from __future__ import annotations

import click

from arnold.console.output import answer, progress, save_flags
from arnold.options.cluster_options import ClusterFiles
from arnold.options.command import JsonCommand
from arnold.options.field_options import file_option
from arnold.options.shared_options import CLUSTER_HELP, PLACEMENT_HELP, flags_out_option, html_option, yes_option
from ground.files import read_source


@click.command("look", cls=JsonCommand, document="arnold.documents.look_answers:LookDocument")
@click.argument("folder", type=click.Path(), metavar="DIR")
@file_option("--cluster", help=CLUSTER_HELP)
@file_option("--placement", help=PLACEMENT_HELP)
@file_option("--node-map", help="Node of each rank: a CSV of rank,node or host,node.")
@file_option(
    "--meta", help="Degrees of parallelism, YAML: dp_size, pp_size, tp_size.  [default: those that the files say]"
)
@flags_out_option
@yes_option
@html_option
def command(
    *,
    as_json: bool,
    html: str | None,
    flags_out: str | None,
    yes: bool,
    folder: str,
    cluster: str | None,
    placement: str | None,
    node_map: str | None,
    meta: str | None,
) -> int:
    """Say what each file of a dead or slow job is, and whom all of them together suspect.

    DIR holds whatever is there: job logs, dumps, profiles, stacks, kernel logs, diagnostics, bandwidth tests; a
    placement, map or degrees too. The cluster tells names of its nodes, and links from nodes where pairs were tested.
    Exits 1 where somebody is suspected, 0 where nobody is.

    $ arnold health look crash/
    $ arnold health look crash/ --json | jq '.suspects[0]'
    $ arnold health look crash/ --cluster cluster.csv --placement placement.json
    """
    from datetime import UTC, datetime

    from arnold.documents.look_answers import look_document, print_look
    from health.look.folder import look_at_folder
    from health.look.in_hand import DEGREES, NODE_MAP, PLACEMENT

    known = None if cluster is None else ClusterFiles(cluster).read_aloud().cluster
    named = {PLACEMENT: placement, NODE_MAP: node_map, DEGREES: meta}
    given = {kind: read_source(file) for kind, file in named.items() if file is not None}
    with progress("Reading", total=None):
        look = look_at_folder(folder, given=given, cluster=known)
    document = look_document(look, folder, now=datetime.now(UTC))
    save_flags(document.flags, flags_out, of=None if yes else look.nodes, cluster=known)
    answer(document, print_look, as_json=as_json, html=html)
    return 1 if document.suspects else 0
