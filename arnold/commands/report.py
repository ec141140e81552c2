"""``arnold report``: what became of the GPU-hours of a cluster, whose they were, and what they could have become."""

from datetime import timedelta

import click

from arnold.console.output import answer, searching
from arnold.options.cluster_options import ClusterFiles
from arnold.options.command import JsonCommand
from arnold.options.field_options import file_option, options_of
from arnold.options.shared_options import GRIDS_HELP, html_option, parse_time, policy_option
from ground.errors import InvalidInput
from ground.files import read_source
from scheduler.job import Job, Overrides
from scheduler.job_files.own_records import OwnRecords
from scheduler.placement.types import ALGORITHMS, Limits

WEEK = timedelta(days=7)


@click.command("report", cls=JsonCommand, document="arnold.documents.report_answer:ReportDocument")
@file_option(
    "--cluster",
    "clusters",
    multiple=True,
    required=True,
    help="Snapshots of the cluster, each true until the next; or a cluster file.",
)
@file_option(
    "--trace",
    help="The accounting of Slurm in UTC, with waiting jobs and all runs: TZ=UTC sacct --allusers --allocations "
    "--duplicates --parsable2 --format=JobID,User,Account,Submit,Eligible,Start,End,Timelimit,State,NNodes,ReqTRES,"
    "AllocTRES,NodeList,Comment,JobName.  [default: the jobs that the snapshots have, such as those of kube:]",
)
@click.option(
    "--since",
    metavar="TIME",
    help="Begin at this time or day.  [default: a week before it ends; without --trace the first snapshot]",
)
@click.option("--until", metavar="TIME", help="End at this time or day.  [default: the time of the last snapshot]")
@file_option("--grids", help=GRIDS_HELP)
@policy_option()
@options_of(OwnRecords, to="own")
@options_of(Overrides, to="overrides")
@options_of(Limits, to="limits")
@html_option
def command(
    *,
    clusters: tuple[str, ...],
    trace: str | None,
    since: str | None,
    until: str | None,
    grids: str | None,
    policy: str,
    own: OwnRecords,
    overrides: Overrides,
    limits: Limits,
) -> None:
    """Say what became of the GPU-hours of a cluster: used, idle and why, lost, by team; and what could have been.

    Idle GPUs are fragmented where a job waits that they would hold if they were on whole nodes. What is lost to spread
    is beside the best placement on the empty cluster, by the spread_cost of each job. What could have been is a replay
    of the same jobs by the queue policy, placed by Arnold; --policy none leaves it out. What cannot be told is said so.

    $ arnold report --cluster monday.json --cluster friday.json --trace sacct.txt --html week.html
    $ arnold report --cluster monday.json --cluster tuesday.json --cluster wednesday.json
    $ arnold report --cluster monday.json --trace sacct.txt --since 2026-11-23 --grids grids.yaml --json
    """
    from arnold.documents.report_answer import Became, print_report, report_charts, report_document
    from scheduler.algorithm_run import run
    from scheduler.job_files.grids_file import Grids, running_grid
    from scheduler.job_files.job_file import JobFile
    from simulator.period_replay import PeriodReplay, replayed
    from simulator.usage_report import SpreadModel, Unknown, Usage, check_clocks, read_runs, seen_runs, usage
    from topology.running_jobs import LiveJob

    snapshots = sorted((ClusterFiles(file).read(jobs=True) for file in clusters), key=lambda loaded: loaded.now)
    first, last = snapshots[0], snapshots[-1]
    for loaded in snapshots[1:]:
        if loaded.cluster.names != first.cluster.names:
            other = f"it has other nodes than {first.source}, with which periods are compared"
            raise InvalidInput(other, where=loaded.source, fix="give snapshots of one cluster, with the same nodes")
    end = last.now if until is None else parse_time(until, option="--until")[1]
    begin = end - WEEK if trace is not None else first.now
    begin = begin if since is None else parse_time(since, option="--since")[0]
    if begin >= end:
        late = f"the period begins at {begin:%Y-%m-%d %H:%M}, and ends at {end:%Y-%m-%d %H:%M}"
        fix = "give an earlier time, or a later --until"
        raise InvalidInput(late, where="--since", fix=fix if trace else f"{fix}, --trace, or several snapshots")
    if trace is not None:
        runs, notes = read_runs(trace, first.cluster)
        check_clocks(snapshots, runs)
    elif begin < first.now:
        early = f"jobs are known from {first.now:%Y-%m-%d %H:%M} on, the first snapshot"
        raise InvalidInput(early, where="--since", fix="give a later time, or --trace")
    else:
        runs, notes = seen_runs(snapshots)
    by_pattern = None if grids is None else Grids.load(read_source(grids))
    empty, solver, best = first.cluster.emptied(), ALGORITHMS.load("exact"), dict[Job, float | None]()

    def grid(live: LiveJob) -> JobFile:
        return running_grid(live, first.cluster, by_pattern, overrides=overrides, records=own.measured)

    with searching("Weighing runs", limits) as within:

        def best_of(job: Job) -> float | None:
            if job not in best:
                best[job] = run(solver, empty, job, within).objective
            return best[job]

        spread, (start, stop) = SpreadModel(grid, best_of), (begin.timestamp(), end.timestamp())
        became = usage(snapshots, runs, since=start, until=stop, spread=spread)
        replay: tuple[PeriodReplay, Usage] | Unknown = "it was not asked for (--policy none)"
        if policy != "none":
            again = replayed(
                snapshots, runs, since=start, until=stop, policy=policy, solver=solver,
                limits=within, grids=spread,
            )  # fmt: skip
            replay = (
                (again, usage(snapshots, again.runs, since=start, until=stop, spread=spread))
                if isinstance(again, PeriodReplay)
                else again
            )
    document = report_document(snapshots, Became(runs, became), replay, policy=policy, notes=notes)
    answer(document, print_report, charts=report_charts)
