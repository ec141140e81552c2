"""``arnold repair``: lost nodes replaced, moving as little as possible."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from arnold.console.output import answer, searching
from arnold.options.cluster_options import ClusterFiles, cluster_options
from arnold.options.command import JsonCommand, said_again
from arnold.options.field_options import EARLIER, check_stdin, options_of
from arnold.options.placement_outputs import PlacementOutputs
from arnold.options.shared_options import PLACEMENT_HELP, own_page_option
from ground.errors import UnknownName, did_you_mean
from ground.files import read_source, write_files
from ground.quantities import plural
from scheduler.job import Job
from scheduler.placement.types import Limits, Prefer, Proposal
from topology.flags import FAULTY, NodeFlag

if TYPE_CHECKING:
    from arnold.documents.repair_answer import RepairDocument
    from scheduler.repair import Repair
    from topology.cluster import Cluster


@click.command("repair", cls=JsonCommand, document="arnold.documents.repair_answer:RepairDocument")
@cluster_options
@click.option("--placement", required=True, type=EARLIER, metavar="FILE", help=PLACEMENT_HELP)
@click.option(
    "--lost",
    required=True,
    multiple=True,
    metavar="NODE,..",
    help="Nodes that are gone: names or Slurm hostlists, or @FILE with one or some a line.",
)
@click.option(
    "--prefer",
    type=click.Choice(["moves", "objective"]),
    default="moves",
    show_default=True,
    help="What comes first: the fewest moved cells, or the best objective.",
)
@options_of(Limits, to="limits")
@options_of(PlacementOutputs, to="outputs")
@own_page_option
def command(
    *,
    html: str | None,
    placement: str,
    lost: tuple[str, ...],
    prefer: Prefer,
    files: ClusterFiles,
    limits: Limits,
    outputs: PlacementOutputs,
) -> None:
    """Replace lost nodes of a placement, moving as little as possible.

    Cells that do not move keep their node and every cell keeps its rank. Whether the cluster file shows the job's own
    nodes as in use makes no difference. Exits 3 if too few nodes are left.

    $ arnold place  --cluster cluster.csv --job job.yaml --output placement.json
    $ arnold repair --cluster cluster.csv --placement placement.json --lost n0017,n0042
    $ arnold repair --cluster cluster.csv --placement placement.json --lost 'n[0017-0020]' --prefer objective --json
    $ arnold repair --cluster cluster.csv --placement placement.json --lost n0017 --output new.json --output new.slurm
    """
    from arnold.documents.repair_answer import print_repair, repair_document
    from scheduler.job_files.placement_file import load_placement, placed_by
    from scheduler.outcome import Instance
    from scheduler.repair import repair

    outputs.formats()
    lists = [text.removeprefix("@") for text in lost if text.startswith("@")]
    check_stdin(click.get_current_context(), {"--lost": lists})
    loaded = files.read_aloud()
    cluster = loaded.cluster
    saved = load_placement(read_source(placement), cluster)
    gone = _lost_nodes(lost, cluster)
    with searching(f"Repairing {saved.job.name}", limits) as within, placed_by(placement):
        repaired = repair(cluster, saved.job, saved.nodes, gone, prefer=prefer, limits=within)
    document = repair_document(Instance(cluster, saved.job, files.cluster, loaded.notes), repaired, lost=gone)
    texts = outputs.texts(document, saved.job, asked=files.sbatch_options(cluster))
    if html is not None:
        texts[html] = _page(cluster, saved.job, repaired, document)
    write_files(texts)
    # the repaired placement is what the next repair starts from
    kinds = outputs.formats()
    slurm = next((file for file, kind in kinds.items() if kind == "slurm"), None)
    then = "" if kinds else said_again("repair", "--output", "new.json", "--output", "new.slurm")
    then = f"sbatch {shlex.quote(slurm)} COMMAND" if slurm is not None else then
    answer(document, lambda out, shown: print_repair(out, shown, then=then))


def _page(cluster: Cluster, job: Job, repaired: Repair, document: RepairDocument) -> str:
    """Return the page of the placement now, with the lost nodes as faulty ones and the moves."""
    from arnold.pages.placement_page import placement_page
    from scheduler.algorithm_run import judge

    # the job's own nodes may be in use by itself
    free = cluster.free_gpus.copy()
    free[repaired.nodes] = cluster.gpus[repaired.nodes]
    now = cluster.replace(free_gpus=free).with_flags([NodeFlag(name, "faulty", FAULTY) for name in document.lost])
    # where moves come first the bound is of placements with as few
    bound = repaired.bound if repaired.prefer == "objective" else None
    seconds, notes = repaired.solve_seconds, repaired.notes
    proposal = Proposal(repaired.nodes, bound, in_order=True, solve_seconds=seconds, notes=notes)
    # a repair takes as few slow nodes as it can, and weighs no step times
    priceless = job.replace(avoid="ignore") if job.avoid == "price" else job
    fewer, better = document.sure
    sure = [f"{plural(len(document.moves), 'cell')} moved: {fewer}."]
    if repaired.prefer == "moves":
        sure.append("What more moves would give, --prefer objective finds.")
    moves = [
        f"Rank {move.node_rank} (row {move.dp}, stage {move.pp}): {move.source} to {move.target}."
        for move in document.moves
    ]
    title = f"{job.name} repaired: {plural(len(document.lost), 'node')} lost, {plural(len(moves), 'cell')} moved"
    return placement_page(
        now,
        job,
        [judge("repair", now, priceless, proposal)],
        title=title,
        sure=better,
        more=[("Moves", [*sure, *moves])],
    )


def _lost_nodes(hostlists: Sequence[str], cluster: Cluster) -> list[str]:
    """Return names of the lost nodes; one that several lists name is lost once.

    :raises UnknownName: one is not in the cluster.
    :raises InvalidTopology: one may be any of several nodes.
    """
    from topology.node_names import NodeNames, expand_hostlist

    written: list[tuple[str, str]] = []  # hostlists, each with where it stands
    for text in hostlists:
        if not text.startswith("@"):
            written.append((text, "--lost"))
            continue
        source = read_source(text.removeprefix("@"), may_be_empty=True)
        for number, line in enumerate(source.lines(), 1):
            if hostlist := line.partition("#")[0].strip():
                written.append((hostlist, source.at(number)))
    names: dict[str, None] = {}
    spellings = NodeNames(cluster.index_of)
    for text, where in written:
        # a node whose own name has brackets or commas is that node
        listed = [text] if text in cluster.index_of else expand_hostlist(text, where=where)
        for name in listed:
            if (own := spellings.find(name, where=where)) is None:
                fix = f"{did_you_mean(name, cluster.index_of)}name nodes of the cluster file"
                raise UnknownName(f"the cluster has no node {name!r}", where=where, fix=fix)
            names[own] = None
    return list(names)
