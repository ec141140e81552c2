"""``arnold flags``: slow and faulty nodes, in a store that remembers and on the nodes of a Kubernetes cluster.

First comes what changes a store and what it says (``record``, ``lift``, ``compact``, ``show``, ``why``), then what goes
in and out of it (``import``, ``export``), then the annotations of nodes (``sync``, ``apply``, ``list``, ``clear``).
"""

from __future__ import annotations

from datetime import UTC, datetime
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arnold.console.output import answer, emit_json, prints_json
from arnold.options.cluster_options import ClusterFiles
from arnold.options.command import Group, JsonCommand
from arnold.options.field_options import FILE, file_option
from arnold.options.shared_options import (
    AT_HELP,
    CLUSTER_HELP,
    STORE_HELP,
    at_option,
    kubeconfig_options,
    parse_time,
    present,
    yes_option,
)
from extender.kubernetes_names import HISTORY_KIND
from ground.errors import InvalidInput
from ground.files import Source, decode_source, open_stream, read_source, write_file
from ground.quantities import number, utc_minute
from ground.records import record_of
from topology.flags import merge_by_node

if TYPE_CHECKING:
    from rich.console import Console

    from extender.cluster_api.connect import WhichCluster
    from health.flags.flag_store import Compaction, Ledger, Recorded
    from health.flags.lemons import JobRun

ANSWERS, ANSWERS_OF_NODES = "arnold.documents.store_answers", "arnold.documents.kubernetes_answers"


@click.group("flags", cls=Group)
def command() -> None:
    """Flag slow and faulty nodes, where gangs and `arnold place` see them.

    A flag store is a file that remembers what detectors found, merges their findings, lets flags end in good time, and
    knows why a node was avoided. It is itself a flag file (--flags). sync, apply, list and clear are about a Kubernetes
    cluster: annotations of its nodes.
    """


store_option = file_option("--store", required=True, help=STORE_HELP)  # Give a command ``--store``


def stamp_of(file: str) -> str:
    """Return what tells this version of a file from another; empty for standard input, which is always new."""
    return "" if file == "-" else str(Path(file).stat().st_mtime_ns)


@command.command("record", cls=JsonCommand, document=f"{ANSWERS}:RecordDocument")
@click.argument("files", nargs=-1, type=FILE, metavar="[FLAGFILE]...")
@store_option
@file_option("--rules", help="When flags begin and end, YAML; kept in the store.  [default: those of the store]")
@file_option("--cluster", help=CLUSTER_HELP)
@yes_option
@at_option
def record(
    *, files: tuple[str, ...], store: str, rules: str | None, cluster: str | None, yes: bool, at: str | None
) -> None:
    """Take findings of detectors into a flag store.  It is made if it is not there.

    FLAGFILE is a list of flags, as --flags of `arnold place`; - is stdin. A slowdown of 1 says that the node is healthy
    again. A file that has not changed since it was recorded counts once. Without FLAGFILE only the ends of flags
    that are over are recorded. A run that leaves more than a quarter of --cluster, half of one of its domains, or
    without --cluster more than four nodes out of use, is refused unless --yes is given.

    $ arnold flags record --store flags.db slow.json
    $ arnold stragglers job.parquet --meta job.yaml --node-map nodes.txt --json | arnold flags record --store flags.db -
    $ arnold flags record --store flags.db --rules rules.yaml slow.json
    """
    from arnold.documents.store_answers import changed, print_recorded
    from health.flags.flag_store import Recorded
    from health.flags.imports import without_ours
    from health.flags.rules import read_rules
    from topology.flag_sources import Breaker, read_flags

    now = present(at)
    breaker = None if yes else Breaker(cluster=None if cluster is None else ClusterFiles(cluster).read().cluster)
    governing = None if rules is None else read_rules(read_source(rules))
    findings = [(without_ours(read_flags(file, now=now)), stamp_of(file)) for file in files]

    def change(ledger: Ledger) -> Recorded:
        over = [] if governing is None else ledger.govern(governing, now)
        batches = (ledger.record(flags, now=now, stamp=stamp) for flags, stamp in findings)
        return sum(batches, Recorded((*over, *ledger.settle(now))))

    answer(changed(store, change, now=now, breaker=breaker), print_recorded)


@command.command("lift", cls=JsonCommand, document=f"{ANSWERS}:RecordDocument")
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@store_option
@click.option("--because", required=True, metavar="TEXT", help="Reason, which `arnold flags why` shows later.")
@click.option("--by", metavar="NAME", help="Name of the person who lifts the flags.  [default: the user's name]")
@click.option("--after-test", is_flag=True, help="A test was passed: probation for a day, small jobs first.")
@at_option
def lift(*, nodes: tuple[str, ...], store: str, because: str, by: str | None, after_test: bool, at: str | None) -> None:
    """End the flags of nodes at once.  The sources are not asked; NODE is a name or a Slurm hostlist.

    What detectors find afterwards flags them again.

    $ arnold flags lift n0123 --store flags.db --because 'GPU 3 replaced, burn-in passed'
    $ arnold flags lift 'n[0017-0020]' --store flags.db --because 'false alarm: maintenance of the switch'
    $ arnold flags lift n0123 --store flags.db --after-test --because 'dcgmi diag -r 3 passed'
    """
    from arnold.documents.store_answers import changed, print_recorded
    from health.flags.flag_store import Recorded
    from topology.node_names import NodeNames, expand_hostlist

    now = present(at)
    named = [name for text in nodes for name in expand_hostlist(text, where="NODE")]
    try:
        person = getuser() if by is None else by
    except (KeyError, OSError):
        person = "somebody"

    def change(ledger: Ledger) -> Recorded:
        names = [*map(NodeNames(ledger.nodes()).any, named)]
        events = ledger.lift(names, now=now, because=because, by=person, after_test=after_test)
        if strangers := sorted({*names} - {event.node for event in events if event.by}):
            fix = "see `arnold flags show` for the nodes that are flagged"
            raise InvalidInput(f"the store holds nothing against {', '.join(strangers[:5])}", where="NODE", fix=fix)
        return Recorded(tuple(events))

    answer(changed(store, change, now=now, create=False), print_recorded)


@command.command("compact", cls=JsonCommand, document="health.flags.flag_store:Compaction")
@store_option
@click.option(
    "--keep",
    default="90d",
    show_default=True,
    metavar="DURATION",
    help="Age up to which history stays whole: 12h, 90d, 26w.",
)
@file_option("--archive", written=True, help="File to write the whole store to first, as it was.")
def compact(*, store: str, keep: str, archive: str | None) -> None:
    """Forget old history, so that a store stays small.

    Flags that hold, rules, relapses and all history since then stay; of the time before only what they depend on. Run
    it from a timer, beside the detectors: it waits for other writers.

    $ arnold flags compact --store flags.db
    $ arnold flags compact --store flags.db --keep 26w --archive flags-2026-11.db
    $ arnold flags why n0123 --store flags-2026-11.db --at 2026-03-02
    """
    from health.flags.flag_store import compact_store
    from health.flags.rules import parse_duration

    try:
        before = datetime.now(UTC) - parse_duration(keep)
    except ValueError as error:
        raise InvalidInput(str(error), where="--keep", fix="write a time such as 12h, 90d or 26w") from error
    done = compact_store(store, before, archive=archive)

    def show_compacted(out: Console, done: Compaction) -> None:
        if not done.dropped:
            out.print(f"nothing to forget: no event of before {utc_minute(before)} can go")
            return
        out.print(f"forgotten: {done.dropped:,} events of before {utc_minute(before)}; {done.kept:,} are left")
        out.print(f"{number(done.size_before / 1e6)} MB before, {number(done.size / 1e6)} MB now")
        if archive is not None:
            out.print(f"{archive} has the store as it was")

    answer(done, show_compacted)


@command.command("show", cls=JsonCommand, document=f"{ANSWERS}:HeldFlagsDocument")
@store_option
@at_option
@file_option("--output", written=True, help="File to write the flags to as well, for --flags of other commands.")
@click.option("--capacity", is_flag=True, help="Show what the flags cost: nodes and GPUs, by source and age.")
@file_option("--cluster", help=CLUSTER_HELP, needs=("--capacity",))
def show(*, store: str, at: str | None, output: str | None, capacity: bool, cluster: str | None) -> None:
    """Show the flags that hold now, or held at a time.  Each node has its source, end and reason.

    $ arnold flags show --store flags.db
    $ arnold flags show --store flags.db --at 2026-11-17T14:00:00Z
    $ arnold flags show --store flags.db --output flags.json
    $ arnold flags show --store flags.db --capacity --cluster cluster.csv
    """
    from arnold.documents.store_answers import held_flags_document, print_held_flags

    instant = datetime.now(UTC) if at is None else parse_time(at, option="--at")[1]
    known = None if cluster is None else ClusterFiles(cluster).read().cluster
    gpus = None if known is None else dict(zip(known.names, known.gpus.tolist(), strict=True))
    answer(held_flags_document(store, instant, capacity=capacity, gpus=gpus), print_held_flags, file=output)


@command.command("why", cls=JsonCommand, document=f"{ANSWERS}:WhyFlaggedDocument")
@click.argument("node")
@store_option
@click.option("--at", metavar="TIME", help=f"{AT_HELP}  [default: --since to --until]")
@click.option("--since", metavar="TIME", help="Begin at this time or day.  [default: the beginning]")
@click.option("--until", metavar="TIME", help="End at this time or day.  [default: now]")
def why(*, node: str, store: str, at: str | None, since: str | None, until: str | None) -> None:
    """Say why a node was avoided, and when.  Each of its flags has its source, evidence, begin and end.

    $ arnold flags why n0123 --store flags.db
    $ arnold flags why n0123 --store flags.db --at 2026-11-17
    $ arnold flags why n0123 --store flags.db --since 2026-11-10 --until 2026-11-17T14:00:00Z --json
    """
    from arnold.documents.store_answers import print_why_flagged, why_flagged_document

    if at is not None and (since is not None or until is not None):
        raise InvalidInput("--at is a span of its own", where="--at", fix="leave out --since and --until, or --at")
    # nothing is known of the future
    now = datetime.now(UTC)
    begin: datetime | None
    if at is not None:
        begin, end = parse_time(at, option="--at")
        end = min(end, now)
    else:
        begin = None if since is None else parse_time(since, option="--since")[0]
        end = now if until is None else min(now, parse_time(until, option="--until")[1])
        if begin is not None and begin > end:
            fix = "--since lies before --until and now"
            raise InvalidInput("the span ends before it begins", where="--since", fix=fix)
    answer(why_flagged_document(store, node, since=begin, until=end), print_why_flagged)


# Ends of jobs that say something of their nodes, and whether they failed
LEMON_STATES = {"COMPLETED": False, "FAILED": True, "NODE_FAIL": True, "BOOT_FAIL": True}


@command.command("lemons", cls=JsonCommand, document=f"{ANSWERS}:LemonsDocument")
@click.argument("file", type=FILE)
@file_option("--output", written=True, help="File to write the flags to, for `arnold flags record`.")
def find_lemons(*, file: str, output: str | None) -> None:
    """Find nodes on which jobs fail more than elsewhere.  A repeat offender fails those of several programs.

    FILE is some weeks of Slurm's accounting, as `arnold formats jobs` says, with NodeList beside, or GangHistories and
    nodes of Kubernetes, whose incidents count; - is stdin. Jobs that were cancelled or ran out of time say nothing.
    Nodes are warned of that one healthy cluster in a hundred has.

    $ arnold flags lemons sacct.txt
    $ kubectl get ganghistories,nodes -A -o json | arnold flags lemons - --output lemons.json
    """
    from arnold.documents.store_answers import LemonsDocument, print_lemons
    from ground.formats import begins_as_json
    from health.flags.lemons import JobRun, lemons, lemons_of_incidents
    from simulator.traces.cells import TraceRows
    from simulator.traces.readers.slurm_accounting import sacct_runs
    from topology.node_names import expand_hostlist

    runs, names = list[JobRun](), set[str]()
    with open_stream(file) as stream:
        if of_gangs := begins_as_json(stream.head):
            runs, names = _incidents(decode_source(stream.name, stream.content().getvalue()))
        else:
            for where, run in sacct_runs(stream, TraceRows()):
                state = run.state.split(" ", 1)[0]
                if state in LEMON_STATES and run.start is not None and run.node_list:
                    nodes = tuple(expand_hostlist(run.node_list, where=where))
                    program = f"{run.user} {run.name}".strip() or run.job_id
                    runs.append(JobRun(nodes, program, run.start + (run.elapsed or 0.0), LEMON_STATES[state]))
            if not runs:
                fix = "keep the columns State, Start and NodeList, and runs that have ended"
                raise InvalidInput("has no run of a job on named nodes that ended", where=file, fix=fix)
    names |= {node for run in runs for node in run.nodes}
    found = lemons_of_incidents(runs, len(names)) if of_gangs else lemons(runs)
    document = LemonsDocument(
        source=file, runs=len(runs), nodes=len(names), lemons=tuple(found), flags=tuple(lemon.flag() for lemon in found)
    )
    answer(document, print_lemons, file=output)


def _incidents(source: Source) -> tuple[list[JobRun], set[str]]:
    """Return the incidents of GangHistories that name nodes, and the names of all nodes with GPUs."""
    from extender.plans.custom_resource import StoredObject
    from extender.plans.gang_history import GangHistory, decode_history, name_pattern
    from ground.documents import load_document
    from health.flags.lemons import JobRun
    from topology.kubernetes.nodes import node_gpus
    from topology.kubernetes.objects import NodeObject, read_items

    command = "kubectl get ganghistories,nodes -A -o json"
    document = load_document(source, several=True)
    nodes, histories = set[str](), list[GangHistory]()
    for place, item in read_items(document, {HISTORY_KIND: StoredObject, "Node": NodeObject}, command=command):
        if isinstance(item, StoredObject):
            histories.append(decode_history(item))
        if not isinstance(item, NodeObject):
            continue
        try:
            nodes |= {item.name} if node_gpus(item).physical else set()
        except ValueError as error:
            problem, where = f"node {item.name!r}: {error}", document.where(*place)
            raise InvalidInput(problem, where=where, fix="write a whole number of GPUs") from None
    if not nodes or not histories:
        missing = "nodes with GPUs" if not nodes else "GangHistories"
        raise InvalidInput(f"holds no {missing}", where=source.name, fix=f"give what `{command}` prints")
    runs = [
        JobRun(incident.nodes, f"{history.namespace}/{name_pattern(incident.gang)}", incident.since.timestamp(), True)
        for history in histories
        for incident in history.incidents
        if incident.nodes
    ]
    return runs, nodes


MONITORS = ("nvsentinel", "node-problem-detector", "nebius", "eks")
"""Names of the monitors that are known; here too, so that help needs no import."""

SLURM = "slurm"  # What scontrol show nodes prints
STORE = "flag-store"  # Another flag store: what arnold flags export wrote, or one of an earlier version


@command.command("import", cls=JsonCommand, document=f"{ANSWERS}:ImportDocument")
@click.argument("file", type=FILE)
@click.option(
    "--from", "by", required=True, type=click.Choice((*MONITORS, SLURM, STORE)), help="Tool that the input is from."
)
@file_option("--store", help=STORE_HELP)
@file_option("--output", written=True, help="File to write the flags to, for --flags of other commands.")
@yes_option
@at_option
def import_(*, file: str, by: str, store: str | None, output: str | None, yes: bool, at: str | None) -> None:
    """Take findings of monitors, or of another store.  With --from slurm, why its nodes are down or drained.

    FILE is what `kubectl get nodes -o json` prints, or better `kubectl get nodes,events -A -o json`; - is stdin. What
    is broken makes a node faulty; a warning is a small price. A node that the monitor finds healthy gets an all-clear.

    With --from slurm FILE is what `scontrol show nodes` prints; the source is who drained the node, such as slurm:root,
    and what Arnold drained is left out. (`arnold flags record` takes what `sinfo -R` prints.)

    With --from flag-store FILE is what `arnold flags export` wrote, or a store of an earlier version (JSON lines), and
    --store a new store, which takes over all of its events.

    $ kubectl get nodes,events -A -o json | arnold flags import --from nvsentinel - --store flags.db
    $ arnold flags import --from node-problem-detector nodes.json --output flags.json
    $ scontrol show nodes --oneliner | arnold flags import --from slurm - --store flags.db
    $ arnold flags import --from flag-store old.jsonl --store flags.db
    """
    from arnold.documents.store_answers import ImportDocument, changed, print_imported, taken_over
    from health.flags.imports import cleared_by_slurm, read_reports, read_slurm
    from topology.flag_sources import Breaker

    now, source = present(at), read_source(file)
    if by == STORE:
        document = taken_over(source, store, now)
    else:
        reports, recorded = read_slurm(source) if by == SLURM else read_reports(source, by=by), None
        # of the nodes that the monitor names its findings take out a share at most
        breaker = None if yes else Breaker(reports.nodes or None)
        if store is not None:

            def record(ledger: Ledger) -> Recorded:
                clear = cleared_by_slurm(reports, ledger.standing(now)) if by == SLURM else reports.all_clears(by)
                return ledger.record([*reports.flags, *clear], now=now, stamp=stamp_of(file))

            recorded = changed(store, record, now=now, breaker=breaker)
        elif breaker is not None:
            breaker.check(reports.flags, where=source.name)
        document = record_of(ImportDocument, reports, source=by, healthy=len(reports.healthy), recorded=recorded)
    answer(document, print_imported, file=output)


@command.command("export", cls=JsonCommand, document=f"{ANSWERS}:ExportDocument")
@store_option
@file_option("--output", written=True, help="File to write to.  [default: standard output]")
def export(*, store: str, output: str | None) -> None:
    """Write all events of a flag store as JSON lines.  They are in order; the first line says what the file is.

    `arnold flags import --from flag-store` makes the same store of it again.

    $ arnold flags export --store flags.db | jq 'select(.event == "raised")'
    $ arnold flags export --store flags.db --output flags.jsonl
    $ arnold flags import --from flag-store flags.jsonl --store copy.db
    """
    from arnold.documents.store_answers import ExportDocument
    from topology.flag_sources import open_log

    with open_log(store) as log:
        if output is None and not prints_json():
            for line in log.lines():
                click.echo(line)
            return
        lines = [f"{line}\n" for line in log.lines()]
    text = "".join(lines)
    if output is not None:
        write_file(output, text)
    if prints_json():
        left = text if output is None else None
        emit_json(ExportDocument(store=store, events=len(lines), output=output, text=left))


@command.command("sync", cls=JsonCommand, document=f"{ANSWERS_OF_NODES}:FlagsSyncedDocument")
@store_option
@yes_option
@kubeconfig_options
def sync(*, store: str, yes: bool, which: WhichCluster) -> None:
    """Bring the annotations of nodes in line with a flag store.  Gangs heed them.

    What the store holds is written, what it held once and no longer does is taken off. What somebody else wrote stays,
    where it is worse, or where the store holds nothing. Each annotation carries its end: if it is not renewed, the
    flags end by themselves.

    $ arnold flags sync --store flags.db
    $ arnold flags sync --store flags.db --kubeconfig admin.conf --json
    """
    from arnold.documents.kubernetes_answers import FlagsSyncedDocument, print_changed
    from extender.node_flags import on_cluster
    from topology.flag_sources import open_log

    now = datetime.now(UTC)
    with open_log(store) as log:
        held, slowdowns = log.holding(now), log.slowdowns()
    changes, strangers = on_cluster(which, lambda flags: flags.sync(held, known=slowdowns, now=now), yes=yes)
    answer(FlagsSyncedDocument(tuple(changes), tuple(strangers)), print_changed)


@command.command("apply", cls=JsonCommand, document=f"{ANSWERS_OF_NODES}:FlagsChangedDocument")
@click.argument("file", type=FILE)
@yes_option
@kubeconfig_options
def apply(*, file: str, yes: bool, which: WhichCluster) -> None:
    """Write the flags of a file to the nodes.  FILE is a list of flags, as --flags of `arnold place`, or a flag store
    (then `arnold flags sync` also takes off what has ended); - is stdin.

    A node keeps one flag: a new one replaces it, and several in the file add up. Flags that do not hold now are left
    out. Nodes that the file does not name are left alone.

    $ arnold flags apply flags.yaml
    $ arnold flags apply flags.db
    $ arnold flags apply - --kubeconfig admin.conf --json < flags.json
    """
    from arnold.documents.kubernetes_answers import FlagsChangedDocument, print_changed
    from extender.node_flags import on_cluster
    from topology.flag_sources import read_flags

    now = datetime.now(UTC)
    flags = read_flags(file, now=now)
    active = merge_by_node(flag for flag in flags if flag.active(now))
    changes = on_cluster(which, lambda flags: flags.apply(active), yes=yes)
    expired = sum(not flag.active(now) for flag in flags)
    document = FlagsChangedDocument(tuple(changes), expired=expired)
    answer(document, print_changed)


@command.command("list", cls=JsonCommand, document=f"{ANSWERS_OF_NODES}:FlagsDocument")
@kubeconfig_options
def list_(*, which: WhichCluster) -> None:
    """Show the nodes that are flagged.

    $ arnold flags list
    $ arnold flags list --json
    """
    from arnold.documents.kubernetes_answers import flags_document, print_flags
    from extender.node_flags import NodeFlags, on_cluster

    answer(flags_document(on_cluster(which, NodeFlags.all), datetime.now(UTC)), print_flags)


@command.command("clear", cls=JsonCommand, document=f"{ANSWERS_OF_NODES}:FlagsChangedDocument")
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@click.option("--all", "everything", is_flag=True, help="Clear the flags of all nodes.")
@kubeconfig_options
def clear(*, nodes: tuple[str, ...], everything: bool, which: WhichCluster) -> None:
    """Take the flags off nodes.  NODE is a name or a Slurm hostlist.

    $ arnold flags clear n0017
    $ arnold flags clear 'n[0017-0020],n0042'
    $ arnold flags clear --all
    """
    from arnold.documents.kubernetes_answers import FlagsChangedDocument, print_changed
    from extender.node_flags import on_cluster
    from topology.node_names import expand_hostlist

    if bool(nodes) == everything:
        problem = "name nodes, or all of them, and not both" if nodes else "no node is named"
        raise InvalidInput(problem, where="arnold flags clear", fix="name nodes, or say --all")
    names = None if everything else [name for text in nodes for name in expand_hostlist(text, where="NODE")]
    answer(FlagsChangedDocument(tuple(on_cluster(which, lambda flags: flags.clear(names))), expired=0), print_changed)
