"""``arnold health look`` and ``pairs``: what files of a dead job, and bandwidths of pairs, hold against nodes."""

from datetime import UTC, datetime

import click

from arnold.console.output import answer, progress, save_flags
from arnold.options.cluster_options import ClusterFiles, cluster_options
from arnold.options.command import Group, JsonCommand
from arnold.options.field_options import FILE, file_option
from arnold.options.shared_options import CLUSTER_HELP, PLACEMENT_HELP, flags_out_option, html_option, yes_option
from ground.errors import InvalidInput
from ground.files import read_source, write_file


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
def look(
    *,
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
    from arnold.documents.look_answers import look_document, print_look
    from health.look.folder import look_at_folder
    from health.look.in_hand import DEGREES, NODE_MAP, PLACEMENT

    known = None if cluster is None else ClusterFiles(cluster).read_aloud().cluster
    named = {PLACEMENT: placement, NODE_MAP: node_map, DEGREES: meta}
    given = {kind: read_source(file) for kind, file in named.items() if file is not None}
    with progress("Reading", total=None):
        seen = look_at_folder(folder, given=given, cluster=known)
    document = look_document(seen, folder, now=datetime.now(UTC))
    save_flags(document.flags, flags_out, of=None if yes else seen.nodes, cluster=known)
    answer(document, print_look)
    return 1 if document.suspects else 0


@click.group("pairs", cls=Group)
def pairs() -> None:
    """Search for a slow node or link by bandwidth tests of pairs of nodes, few rounds, all pairs of a round at once."""


@pairs.command("plan", cls=JsonCommand, document="arnold.documents.look_answers:PairsPlanDocument")
@cluster_options
@click.option("--suspects", metavar="NODE,..", help="Nodes to test, names or Slurm hostlists.  [default: all]")
@file_option("--results", help="What was measured so far, a CSV of node_a,node_b,busbw_gbs: the next round is planned.")
@file_option(
    "--output", written=True, help="Write what runs the rounds: a batch script of Slurm, or, with .yaml, Jobs."
)
def plan(*, suspects: str | None, results: str | None, output: str | None, files: ClusterFiles) -> None:
    """Say which pairs of nodes to test, round by round.  Pairs of a round run at once, each node in one at most.

    Three rounds tell a slow node from a slow uplink or switch by the topology. With what was measured (--results) the
    next round tests what is in doubt first; where no other would say more, there is none. Nodes in use are left out.

    $ arnold health pairs plan --cluster cluster.csv --output pairs.slurm
    $ sbatch pairs.slurm
    $ arnold health pairs plan --cluster nodes.json --output pairs.yaml
    $ arnold health pairs read pairs.csv --cluster cluster.csv
    $ arnold health pairs plan --cluster cluster.csv --results pairs.csv
    $ arnold health pairs plan --cluster cluster.csv --suspects n0017,n0018
    """
    import numpy as np

    from arnold.documents.look_answers import plan_document, print_plan
    from health.pairs.measured import batch_script, pair_jobs, read_pairs
    from health.pairs.rounds import next_round, plan_rounds
    from topology.node_names import NodeNames, expand_hostlist

    loaded = files.read_aloud()
    cluster = loaded.cluster
    spelled = NodeNames(cluster.index_of)
    named = dict.fromkeys(map(spelled.any, expand_hostlist(suspects, where="--suspects"))) if suspects else ()
    wanted = [cluster.index(name, where="--suspects") for name in named]
    free = cluster.free_gpus == cluster.gpus
    free[wanted] = True
    nodes = np.flatnonzero(free).tolist()
    if len(nodes) < 2:
        raise InvalidInput("fewer than two nodes are free to be tested", where=files.cluster, fix="wait for free nodes")
    measured = [] if results is None else read_pairs(read_source(results, may_be_empty=True), cluster)
    rounds = next_round(cluster, nodes, measured, wanted) if measured else plan_rounds(cluster, nodes, wanted)
    notes = loaded.notes
    if output is not None and not rounds:
        notes = (*notes, f"{output} is not written: there is no round to run")
    document = plan_document(rounds, cluster, nodes=len(nodes), measured=len(measured), notes=notes)
    if output is not None and rounds:
        script = pair_jobs if output.endswith((".yaml", ".yml")) else batch_script
        write_file(output, script(rounds, cluster.node_size))
    answer(document, print_plan)


@pairs.command("read", cls=JsonCommand, document="arnold.documents.look_answers:PairsDocument")
@click.argument("measured", type=FILE, metavar="RESULTS")
@cluster_options
@html_option
def read(*, measured: str, files: ClusterFiles) -> int:
    """Name the slow node or link by what was measured.  Group testing with noise names parts of the network, too.

    RESULTS is a CSV with the columns node_a, node_b and busbw_gbs, the bus bandwidth that all_reduce_perf prints for
    the pair, 0 where it failed. Exits 1 where somebody is suspected, 0 where nobody is.

    $ arnold health pairs read pairs.csv --cluster cluster.csv
    $ arnold health pairs read pairs.csv --cluster cluster.csv --json
    """
    from arnold.documents.look_answers import pairs_document, print_pairs
    from health.pairs.group_testing import FAILED, findings_of
    from health.pairs.measured import read_pairs

    cluster = files.read_aloud().cluster
    tested = read_pairs(read_source(measured), cluster)
    if not any(pair.bandwidth > FAILED for pair in tested):
        fix = "see that all_reduce_perf runs on two nodes, and test again"
        raise InvalidInput("no test of a pair succeeded, which tells nothing of any", where=measured, fix=fix)
    document = pairs_document(findings_of(tested, cluster), tested)
    answer(document, print_pairs)
    return 1 if document.suspects else 0
