"""``arnold health pairs``: which pairs of nodes to test, and which node or link their bandwidths convict."""

from __future__ import annotations

from collections.abc import Mapping

import click

from arnold.commands.command_table import CommandRow, LazyGroup, command_row
from arnold.console.output import answer
from arnold.options.cluster_options import ClusterFiles, cluster_options
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE, file_option, takes
from arnold.options.shared_options import html_option
from ground.errors import InvalidInput
from ground.files import read_source, write_file

COMMANDS: Mapping[str, CommandRow] = {
    "plan": command_row("health_pairs:plan", "Say which pairs of nodes to test, round by round."),
    "read": command_row("health_pairs:read", "Name the slow node or link by what was measured."),
}


@click.group("pairs", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Search for a slow node or link by bandwidth tests of pairs of nodes, few rounds, all pairs of a round at once."""


@click.command("plan", cls=JsonCommand, document="arnold.documents.look_answers:PairsPlanDocument")
@cluster_options
@click.option("--suspects", metavar="NODE,..", help="Nodes to test, names or Slurm hostlists.  [default: all]")
@file_option("--results", help="What was measured so far, a CSV of node_a,node_b,busbw_gbs: the next round is planned.")
@file_option(
    "--output", written=True, help="Write what runs the rounds: a batch script of Slurm, or, with .yaml, Jobs."
)
@takes(files=ClusterFiles)
def plan(*, as_json: bool, suspects: str | None, results: str | None, output: str | None, files: ClusterFiles) -> None:
    """Say which pairs of nodes to test, in rounds; the pairs of a round run at once, each node in one at most.

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
    from health.pairs.kubernetes_jobs import pair_jobs
    from health.pairs.measured import batch_script, read_pairs
    from health.pairs.rounds import next_round, plan_rounds
    from topology.node_names import NodeNames, expand_hostlist

    loaded = files.read_aloud()
    cluster = loaded.cluster
    spelled = NodeNames(cluster.index_of)
    named = dict.fromkeys(map(spelled.any, expand_hostlist(suspects, where="--suspects"))) if suspects else ()
    wanted = [cluster.index(name) for name in named]
    free = cluster.free_gpus == cluster.gpus
    free[wanted] = True
    nodes = np.flatnonzero(free).tolist()
    if len(nodes) < 2:
        raise InvalidInput("fewer than two nodes are free to be tested", where=files.cluster, fix="wait for free nodes")
    measured = [] if results is None else read_pairs(read_source(results, may_be_empty=True), cluster)
    rounds = next_round(cluster, nodes, measured, wanted) if measured else plan_rounds(cluster, nodes, wanted)
    document = plan_document(rounds, cluster, nodes=len(nodes), measured=len(measured), notes=loaded.notes)
    if output is not None:
        script = pair_jobs if output.endswith((".yaml", ".yml")) else batch_script
        write_file(output, script(rounds, cluster.node_size))
    answer(document, print_plan, as_json=as_json)


@click.command("read", cls=JsonCommand, document="arnold.documents.look_answers:PairsDocument")
@click.argument("measured", type=FILE, metavar="RESULTS")
@cluster_options
@html_option
@takes(files=ClusterFiles)
def read(*, as_json: bool, html: str | None, measured: str, files: ClusterFiles) -> int:
    """Name the node, link or part of the network that makes pairs slow, by group testing with noise.

    RESULTS is a CSV with the columns node_a, node_b and busbw_gbs, the bus bandwidth that all_reduce_perf prints for
    the pair, 0 where it failed. Exits 1 where somebody is suspected, 0 where nobody is.

    $ arnold health pairs read pairs.csv --cluster cluster.csv
    $ arnold health pairs read pairs.csv --cluster cluster.csv --json
    """
    from arnold.documents.look_answers import pairs_document, print_pairs
    from health.pairs.group_testing import findings_of
    from health.pairs.measured import read_pairs

    cluster = files.read_aloud().cluster
    pairs = read_pairs(read_source(measured), cluster)
    document = pairs_document(findings_of(pairs, cluster), pairs)
    answer(document, print_pairs, as_json=as_json, html=html)
    return 1 if document.suspects else 0
