"""``arnold health evict``: from stack dumps to the machines to evict."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from arnold.console.output import answer
from arnold.options.command import JsonCommand
from arnold.options.field_options import options_of, takes
from arnold.options.job_options import read_machines, running_job_options
from arnold.options.shared_options import HOLD_HELP, html_option, lenient_option
from ground.errors import InvalidInput
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
def command(
    *,
    as_json: bool,
    html: str | None,
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
    answer(document, print_eviction, as_json=as_json, html=html)
