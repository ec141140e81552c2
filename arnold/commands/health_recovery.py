"""``arnold health evict``, ``isolate`` and ``backups``: what to do after a fault."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import click

from arnold.console.output import answer, progress
from arnold.options.cluster_options import ClusterFiles, cluster_options
from arnold.options.command import JsonCommand
from arnold.options.field_options import F, file_option, options_of, takes
from arnold.options.job_options import read_machines, running_job_options
from arnold.options.shared_options import HOLD_HELP, PLACEMENT_HELP, html_option, lenient_option
from ground.errors import InvalidInput
from ground.files import read_source
from health.recovery.stacks import StackView, read_dumps

if TYPE_CHECKING:
    from health.recovery.machines import UnitFamily


@click.command("evict", cls=JsonCommand, document="arnold.documents.recover_answers:EvictDocument")
@click.argument("dumps", nargs=-1, required=True, type=click.Path(), metavar="DUMPS...")
@running_job_options
@click.option(
    "--rounds",
    is_flag=True,
    help="Take each of DUMPS as one look at a job that is slow, not stuck: 5 looks, 10 s apart.",
)
@options_of(StackView, only=("compare",))
@click.option(
    "--unit",
    type=click.Choice(["tp", "pp", "dp"]),
    help="Family of the group to evict.  [default: the smallest group that all share]",
)
@options_of(StackView, only=("threads", "lines", "addresses", "dominant"))
@click.option(
    "--hold-hours",
    type=click.FloatRange(min=0, min_open=True, max=8760),
    default=24.0,
    show_default=True,
    metavar="HOURS",
    help=HOLD_HELP,
)
@lenient_option
@html_option
@takes(view=StackView)
def evict(
    *,
    dumps: tuple[str, ...],
    job_file: str | None,
    placement: str | None,
    rounds: bool,
    unit: UnitFamily | None,
    hold_hours: float,
    lenient: bool,
    view: StackView,
) -> None:
    """Say which machines to evict, from stack dumps of a job that hangs or crawls.

    DUMPS are outputs of `py-spy dump`, text or --json, or folders of them: one file for each rank, or for each process
    of it, with the rank in its name. Ranks in the same stack are grouped, large groups taken for healthy; the parallel
    group that all others share is evicted.

    $ py-spy dump --pid $PID > dumps/rank-$RANK.txt          # for every rank, while the job hangs
    $ arnold health evict dumps/ --job job.yaml
    $ arnold health evict dumps/ --placement placement.json --json > evict.json
    $ arnold repair --placement placement.json --lost 'n[0017-0024]' --cluster cluster.csv
    $ arnold health evict --rounds look-1/ look-2/ look-3/ look-4/ look-5/ --placement placement.json
    """
    from arnold.documents.recover_answers import evict_document, print_eviction
    from health.recovery.eviction import decide, look_at

    machines = read_machines(job_file, placement)
    if rounds and len(dumps) < 2:
        fix = "give a folder for each of 5 looks, 10 seconds apart"
        raise InvalidInput("one round is no round: a slow job is looked at several times", where="--rounds", fix=fix)
    paths_of_looks = [[path] for path in dumps] if rounds else [list(dumps)]
    looks = [read_dumps(paths, ranks=machines.ranks, lenient=lenient) for paths in paths_of_looks]
    eviction = decide(machines, [look_at(look, machines, view=view) for look in looks], family=unit)
    flags = eviction.flags(datetime.now(UTC).replace(microsecond=0), hold=timedelta(hours=hold_hours))
    document = evict_document(eviction, looks, view=view, flags=flags)
    answer(document, print_eviction)


def _failed_option(run: str, help: str) -> Callable[[F], F]:
    """Return the option ``--failed-RUN``: groups of a run, by number."""
    return click.option(f"--failed-{run}", run, type=click.IntRange(min=0), multiple=True, help=help)


@click.command("isolate", cls=JsonCommand, document="arnold.documents.recover_answers:IsolateDocument")
@running_job_options
@click.option(
    "--replicas", type=click.IntRange(min=1), help="Replicas of a group.  [default: the most that leave one culprit]"
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="How many times each group of a run is run; name a group once for each time it failed.",
)
@click.option(
    "--runs-made",
    "runs",
    type=click.IntRange(0, 100),
    default=0,
    help="Runs made so far.  [default: up to the last that failed]",
)
@_failed_option("horizontal", "Group of the first run that failed.")
@_failed_option("vertical", "Group of the second run that failed.")
@_failed_option("third", "Group of the third run that failed.")
@click.option(
    "--failed",
    type=(click.IntRange(1, 100), click.IntRange(min=0)),
    metavar="RUN GROUP",
    multiple=True,
    help="Group of any run that failed.",
)
@html_option
def isolate(
    *,
    job_file: str | None,
    placement: str | None,
    replicas: int | None,
    repeats: int,
    runs: int,
    horizontal: tuple[int, ...],
    vertical: tuple[int, ...],
    third: tuple[int, ...],
    failed: tuple[tuple[int, int], ...],
) -> None:
    """Find the machine that computes wrongly without an error: short runs of the job, cut into parts another way each.

    Each part keeps TP and PP and runs a few steps on its own, all at once. A culprit's part fails in nearly every run,
    a healthy one by chance. Once a machine is at fault almost surely it is named; until then the next run has apart
    who is suspected. Machines are numbered by node rank.

    $ arnold health isolate --job job.yaml
    $ arnold health isolate --placement placement.json --failed-horizontal 3 --failed-vertical 7
    $ arnold health isolate --placement placement.json --failed 1 3 --failed 2 7 --failed 3 0 --runs-made 4
    """
    from arnold.documents.recover_answers import isolate_document, print_isolation
    from health.recovery.two_phase_replay import plan_replay, replay

    machines = read_machines(job_file, placement)
    failed_of: dict[int, Counter[int]] = defaultdict(Counter)
    for run, groups in enumerate((horizontal, vertical, third), 1):
        if groups:
            failed_of[run].update(groups)
    for run, group in failed:
        failed_of[run][group] += 1
    replays = replay(plan_replay(machines.job, k=replicas), failed_of, runs=runs, repeats=repeats)
    answer(isolate_document(replays, machines), partial(print_isolation, machines=machines))


@click.command("backups", cls=JsonCommand, document="arnold.documents.recover_answers:CheckpointPeersDocument")
@cluster_options
@file_option("--placement", required=True, help=PLACEMENT_HELP)
@click.option(
    "--failure-level", metavar="NAME", help="Level of the cluster whose domains fail at once.  [default: the closest]"
)
@html_option
def backups(*, placement: str, failure_level: str | None, files: ClusterFiles) -> None:
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
    answer(peers_document(peers, cluster, source=files.cluster, level=rack, notes=loaded.notes), print_peers)
