"""``arnold slurm``: jobs on a live Slurm in the order of ranks that was planned for them.

``submit`` plans a job, hands it to sbatch for a time that begins later, leaves the order of its ranks where the
TaskProlog of every node finds it, and lets the job begin.  Killed anywhere, it loses no job: the time comes, and Slurm
starts it, in its own order where no other was left.

An order is a file ``orders/JOBID`` beside the TaskProlog: the nodes by rank, one a line, written whole or not at all.
The TaskProlog is ``manifests/slurm/task_prolog``.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import click

from arnold.console.interrupts import stopped_by
from arnold.console.output import answer, exit_code, progress
from arnold.options.cluster_options import SINGLE_NODES, SLURM, ClusterFiles
from arnold.options.command import Command, Group, JsonCommand
from arnold.options.field_options import file_option
from arnold.options.job_options import JobFiles, PlacementInputs
from arnold.options.shared_options import STORE_HELP, page_options, policy_option, show_live
from ground.errors import InvalidInput, UnknownName, did_you_mean
from ground.files import check_writable, read_source
from scheduler.job import Overrides
from scheduler.job_files.own_records import OwnRecords
from scheduler.placement.types import ALGORITHMS, Limits
from slurm.ask import SlurmRefused, ask, tell
from slurm.ask import submit as submit_words
from slurm.request import GridRequest, job_file_of
from topology.node_names import expand_hostlist, fold_hostlist

if TYPE_CHECKING:
    from scheduler.outcome import Instance, Outcome
    from slurm.decide import Orders, SlurmDecision
    from slurm.live import LiveSlurm

ANSWERS = "arnold.documents.slurm_answers"

POLICY = "priority-backfill"  # by which jobs are planned unless a daemon says otherwise
UNKNOWN_JOB = "Invalid job id"  # what scontrol says of a number that it does not know
LATER = "now+10minutes"  # begin of a job until its order is written; it passes where this program is killed
# Options of sbatch(1) without a value, or with one that stands behind = alone; all others take the next word.
FLAGS = frozenset(
    (
        *("contiguous", "exclusive", "external", "get-user-env", "help", "hold"),
        *("ignore-pbs", "nice", "no-kill", "no-requeue", "overcommit"),
        *("oversubscribe", "parsable", "propagate", "quiet", "reboot", "requeue"),
        *("resv-ports", "spread-job", "stepmgr", "test-only", "usage", "use-min-nodes"),
        *("verbose", "version", "wait"),
    )
)
LETTERS = {
    "C": "constraint",
    "F": "nodefile",
    "G": "gpus",
    "H": "hold",
    "M": "clusters",
    "N": "nodes",
    "Q": "quiet",
    "W": "wait",
    "a": "array",
    "b": "begin",
    "p": "partition",
    "t": "time",
    "w": "nodelist",
    "x": "exclude",
}
"""Short options that are read here, as they are called."""
SHORT_FLAGS = frozenset("hHkOsQvVW")
HERE = {"wait": "W", "quiet": "Q"}  # done here, as sbatch would say the number of the job late or never
WAIT = "SBATCH_WAIT"  # in the environment, the same
FROM_ENVIRONMENT = {
    "partition": "SBATCH_PARTITION",
    "time": "SBATCH_TIMELIMIT",
    "constraint": "SBATCH_CONSTRAINT",
    "reservation": "SBATCH_RESERVATION",
    "gres": "SBATCH_GRES",
    "gpus": "SBATCH_GPUS",
    "gpus-per-node": "SBATCH_GPUS_PER_NODE",
    "array": "SBATCH_ARRAY_INX",
    "clusters": "SBATCH_CLUSTERS",
    "wait": WAIT,
}
REFUSED = {
    "nodelist": ("the nodes are chosen here, as the grid needs them", "leave --nodelist out"),
    "nodefile": ("the nodes are chosen here, as the grid needs them", "leave --nodefile out"),
    "array": ("the tasks of an array are jobs of their own, and the order of ranks is one job's", "submit each alone"),
    "clusters": ("the nodes are planned on the cluster that SLURM_CONF names", "leave it out, and set SLURM_CONF"),
    "hetjob": ("the order of ranks is one job's, and a heterogeneous job is several", "submit one job"),
}
"""Options of sbatch with which ranks would not be where they are planned, why, and what to do."""
COUNT = ("partition", "time", "constraint", "reservation", "exclude")  # options of sbatch that say which nodes are free


_orders_option = click.option(
    "--orders", metavar="FOLDER", help="Folder of the orders of ranks.  [default: orders beside TaskProlog]"
)


@click.group("slurm", cls=Group)
def command() -> None:
    """Submit jobs to a live Slurm, with every rank on its node."""


class SbatchCommand(Command):
    """A command that reads its own options where they stand first, and leaves all else to sbatch, letters too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words after the name of the command."""
        own, rest = list[str](), list(args)
        flags = {"--help", "-h", "--quiet", "--verbose"}
        while rest and rest[0].partition("=")[0] in {"--grid", "--orders", *flags}:
            taken = 1 if "=" in rest[0] or rest[0] in flags else 2
            own += rest[:taken]
            del rest[:taken]
        return super().parse_args(ctx, [*own, "--", *rest])


@command.command("submit", cls=SbatchCommand)
@click.option("--grid", metavar="tp=8,dp=4,..", help="Degrees of parallelism; also alpha, level and order.")
@_orders_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SBATCH OPTIONS] SCRIPT [ARGS]...")
def submit(*, grid: str | None, orders: str | None, words: tuple[str, ...]) -> int:
    """Plan a job, submit it with sbatch, and leave the order of its ranks for the TaskProlog.

    What follows --grid goes to sbatch as it is; partition, time, constraint, reservation and exclude count for the plan
    too, wherever they stand. Prints what sbatch prints and one line of spread and proof (on standard error with
    --parsable). A job that does not fit now waits for its plan where `arnold slurm serve` runs; else exits 3, 4 if time
    ran out, and as sbatch where that fails.

    $ arnold slurm submit --grid tp=8,pp=8,dp=16 -p gpu -t 12:00:00 train.sh
    $ arnold slurm submit --grid tp=8,pp=4,dp=8,alpha=0.7 --parsable --ntasks-per-node=8 train.sh --lr 3e-4
    $ arnold slurm submit --grid tp=8,dp=4 --test-only train.sh
    """
    wish = Submission.read(words)
    grid, orders = grid or wish.options.get("grid"), orders or wish.options.get("orders")
    if grid is None:
        raise click.UsageError("Missing option '--grid'.")
    folder = None if wish.trial else _orders(orders)
    if folder is not None:
        check_writable(folder / "0")
    from slurm.decide import MOST_NAMES
    from slurm.serve import served, write_order

    instance, outcome = _planned(grid, wish)
    blocks = instance.cluster.blocks is not None
    single = [f"--{name}={value}" for name, value in SINGLE_NODES.items() if blocks and name not in wish.options]
    if outcome.evaluation is None or outcome.proposal.nodes is None:
        if folder is None or served(folder) is None or not wish.starts_at_once or "comment" in wish.options:
            click.echo(f"not submitted: {outcome.reason}", err=True)
            return exit_code(outcome.status)
        asks = GridRequest(re.sub(r"\s", "", grid), begin=0.0).comment()  # LATER is not a wish of the user's
        code, number = _sbatch(wish, instance.job.grid.cells, [f"--comment={asks}", f"--begin={LATER}", *single])
        if code or not number.isdecimal():
            return code
        click.echo(f"waits for its plan (arnold slurm explain {number}): {outcome.reason}", err=wish.parsable)
        return _ended(number) if "wait" in wish.options else 0
    by_rank = outcome.proposal.nodes[instance.job.grid.cell_of_rank]
    nodes = [instance.cluster.names[node] for node in by_rank]
    evaluation = outcome.evaluation
    line = f"DP spread {evaluation.dp}, PP spread {evaluation.pp}, objective {evaluation.objective:g}: {outcome.status}"
    where = f"--nodelist={fold_hostlist(nodes)}"
    if blocks:  # before 25.11 no job starts on a list of nodes of several blocks, but on those that are left
        known = ask("sinfo", "--all --noheader --Node --format=%N")[0].text.split()
        where = f"--exclude={fold_hostlist(sorted({*known} - {*nodes}))}"
    if len(where) > MOST_NAMES:
        raise InvalidInput(f"Slurm takes lists of nodes up to {MOST_NAMES:,} bytes, this has {len(where):,}")
    begin = [f"--begin={LATER}"] if wish.starts_at_once and not wish.trial else []
    code, number = _sbatch(wish, len(nodes), [where, *begin, *single])
    if folder is None:
        click.echo(line, err=wish.parsable)
        return code
    if code or not number.isdecimal():
        return code
    write_order(folder, number, nodes)
    if wish.starts_at_once:
        tell("update", f"JobId={number}", "StartTime=now")
    click.echo(line, err=wish.parsable)
    return _ended(number) if "wait" in wish.options else 0


@command.command("order", cls=Command)
@_orders_option
@click.argument("job")
def order(*, orders: str | None, job: str) -> None:
    """Print the host of each rank of a job, a line each, in the order of ranks.

    A node stands once for each of its tasks. Where no order was left it is Slurm's own, and standard error says so.

    $ arnold slurm order 4242
    $ MASTER_ADDR=$(arnold slurm order "$SLURM_JOB_ID" | head -n 1)
    """
    if not job.isdecimal():
        raise InvalidInput(
            f"{job[:60]!r} is no number of a job", where="JOB", fix="give the number that sbatch printed"
        )
    try:
        record = ask("scontrol", f"show job {job}", "--oneliner")[0].text
    except SlurmRefused as error:
        if UNKNOWN_JOB not in error.message:
            raise
        fix = "squeue lists the jobs that wait or run; one that ended is forgotten after some minutes (MinJobAge)"
        raise UnknownName(f"Slurm knows no job {job[:60]}", where="JOB", fix=fix) from None
    text = re.search(r"\bNodeList=(\S+)", re.sub(r"\b(Req|Exc)NodeList=\S+", "", record))
    hosts = expand_hostlist(text[1]) if text is not None and text[1] != "(null)" else []
    file = _orders(orders) / job
    nodes = read_source(str(file)).text.split() if file.exists() else []
    if hosts and sorted(nodes) != sorted(hosts):
        click.echo("Slurm's own order: none was left for these nodes", err=True)
        nodes = hosts
    if not nodes:
        raise InvalidInput(f"job {job} has no nodes yet, and no order was left for it", fix="wait until it is planned")
    tasks = re.search(r"\bNumTasks=(\d+)", record)
    each = int(tasks[1]) // len(nodes) if tasks and int(tasks[1]) % len(nodes) == 0 else 1
    click.echo("\n".join(node for node in nodes for _ in range(max(1, each))))


@command.command("serve", cls=Command)
@_orders_option
@policy_option(default=POLICY)
@click.option(
    "--reserve-from",
    metavar="N",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Nodes of a job from which a reservation holds its plan until it starts.",
)
def serve(*, orders: str | None, policy: str, reserve_from: int) -> None:
    """Plan the jobs of a live Slurm that ask for it in their comment, until SIGTERM.

    A job with the comment `arnold: tp=8,pp=8,dp=12` that begins later (manifests/slurm/job_submit.lua sees to that) is
    planned in the order of Slurm's priority, and begins on its nodes, every rank on its own. Without this daemon its
    begin comes, and Slurm starts it. A second daemon exits 1.

    $ arnold slurm serve
    $ arnold slurm serve --policy fifo-backfill --reserve-from 32
    """
    from scheduler.queue.policy import live_policy
    from slurm.serve import Service

    with stopped_by(signal.SIGTERM, signal.SIGINT) as stop:
        Service(_orders(orders), live_policy(policy), click.echo, reserved_from=reserve_from).run(stop)


@command.command("page", cls=Command)
@_orders_option
@policy_option(default="priority-backfill")
@page_options
def page(*, orders: str | None, policy: str, bind: str, host_name: tuple[str, ...]) -> None:
    """Show the live Slurm in a browser as it is now, until SIGTERM or Ctrl-C.

    One page: nodes by job, the queue with its reasons, spreads, drained nodes and reservations, looked at as often as a
    twentieth of a core lets it. It is read only. While Slurm gives no answer it shows when it last did.

    $ arnold slurm page
    $ arnold slurm page --bind 127.0.0.1:9000
    """
    from arnold.pages.live_slurm import SlurmSource
    from scheduler.queue.policy import live_policy

    folder = None
    try:
        folder = _orders(orders)
    except SlurmRefused:
        raise
    except InvalidInput:  # a Slurm where nothing of ours is, or was
        pass
    show_live(SlurmSource(folder, live_policy(policy)), bind=bind, host_names=host_name)


def _looked(orders: str | None) -> tuple[LiveSlurm, Orders, SlurmDecision]:
    """Return a look at the live Slurm, its orders, and what its daemon decides now, or one would."""
    from scheduler.queue.policy import live_policy
    from slurm.decide import decide
    from slurm.live import Eyes
    from slurm.serve import read_orders, served

    folder = _orders(orders)
    files, policy = read_orders(folder), live_policy(served(folder) or POLICY)
    live = Eyes().look()
    return live, files, decide(live, files, policy=policy, limits=Limits(seconds=10.0))


@command.command("queue", cls=JsonCommand, document=f"{ANSWERS}:SlurmQueueDocument")
@_orders_option
def queue(*, orders: str | None) -> None:
    """List the jobs of a live Slurm with their grids, plans and reasons.

    S and R are DP and PP spread. Of a job that waits the reason is why it has no plan; nothing is written.

    $ arnold slurm queue
    $ arnold slurm queue --json
    """
    from arnold.documents.slurm_answers import SlurmQueueDocument, print_queue, summaries

    answer(SlurmQueueDocument(tuple(summaries(*_looked(orders)))), print_queue)


@command.command("explain", cls=JsonCommand, document=f"{ANSWERS}:SlurmJobDocument")
@_orders_option
@click.argument("job")
def explain(*, orders: str | None, job: str) -> None:
    """Say of a job where it is planned, or why it waits; nothing is written.

    $ arnold slurm explain 4242
    $ arnold slurm explain 4242 --json
    """
    from arnold.documents.slurm_answers import job_document, print_job

    live, files, decision = _looked(orders)
    if job not in live.by_number:
        fix = f"{did_you_mean(job, live.by_number)}`arnold slurm queue` lists them"
        raise UnknownName(f"no job that waits or runs has the number {job[:60]!r}", where="JOB", fix=fix)
    answer(job_document(live.by_number[job], live, files, decision), print_job)


@command.command("check", cls=JsonCommand, document=f"{ANSWERS}:SlurmChecksDocument")
@_orders_option
def check(*, orders: str | None) -> int:
    """Look at what `submit` and `serve` need: each line is ok, or the line to add.

    Versions, clock, TaskProlog, folder of orders, job_submit.lua, privileges of this account, priority, sizes. Exits 2
    where something is missing.

    $ arnold slurm check
    $ arnold slurm check --orders /shared/arnold/orders
    """
    from arnold.documents.slurm_answers import SlurmChecksDocument, print_checks
    from slurm.checks import checks

    document = SlurmChecksDocument(tuple(checks(None if orders is None else Path(orders))))
    answer(document, print_checks)
    return 0 if all(check.ok for check in document.checks) else 2


@command.command("flags", cls=Command)
@file_option("--store", required=True, help=STORE_HELP)
@click.option(
    "--measures",
    metavar="KIND=MEASURE,..",
    default="",
    help="What is done about faulty, degraded and straggler nodes: price, weight, reserve, drain.  [default: price]",
)
@click.option("--through", metavar="COMMAND", help="The program that does it.  [default: it is only said]")
def flags(*, store: str, measures: str, through: str | None) -> None:
    """Say what the flags of a store lead to in Slurm, and have it done.

    price: nothing in Slurm, plans alone avoid the node. weight: Slurm gives it away later. reserve: it goes into the
    reservation arnold_suspect. drain: with the reason "arnold: WHAT since WHEN". At most 2 % of the nodes and of each
    minipod (one always may) are drained or reserved in a day; only what Arnold drained is resumed. COMMAND is
    manifests/slurm/node_keeper, run as SlurmUser: it checks each change again, and does nothing else.

    $ arnold slurm flags --store flags.db --measures faulty=drain,straggler=weight
    $ arnold slurm flags --store flags.db --measures faulty=drain --through 'sudo -u slurm /etc/slurm/node_keeper'
    """
    from slurm.ask import through as give
    from slurm.evidence import EvidencePolicy, decide_evidence
    from slurm.live import Eyes
    from topology.flag_sources import read_flags

    policy, live = EvidencePolicy.parse(measures), Eyes().look()
    decision = decide_evidence(live, read_flags(store, now=datetime.now(UTC)), policy)
    for change in decision.changes:
        click.echo(" ".join(filter(None, (change.verb, change.node or "nothing", change.value))))
    for node, why in sorted(decision.passed_over.items()):
        click.echo(f"not {node}: {why}", err=True)
    if through is None:
        click.echo(f"{len(decision.changes)} changes, none made without --through", err=True)
    elif decision.changes and (complaint := give(through, "".join(f"{c.line()}\n" for c in decision.changes))):
        raise SlurmRefused(complaint, where=through, fix="look at the node in Slurm; what was not refused is done")


@dataclass(frozen=True)
class Submission:
    """What is asked of sbatch."""

    words: tuple[str, ...]  # as they are given to sbatch
    options: Mapping[str, str]  # those that are read here too, of the words, the script or the environment
    script: int  # which of the words it is; those before are options

    @classmethod
    def read(cls, words: Sequence[str]) -> Submission:
        """Return what some words ask; raises InvalidInput where no order of ranks could be right for it."""
        given, kept, rest = dict[str, str](), list[str](), list(words)
        while rest and rest[0].startswith("-") and rest[0] != "-":
            if rest[0] == "--":
                break
            names, taken = _option(rest)
            given |= names
            word = rest[0]
            for name, letter in HERE.items():
                if name in names:
                    word = "-" if word.startswith("--") else word.replace(letter, "", 1)
            if not names.keys() & {"grid", "orders"}:
                kept += [*([word] if word != "-" else []), *rest[1:taken]]
            del rest[:taken]
        script = rest[1:] if rest[:1] == ["--"] else rest
        if script[:1] == [":"]:
            given["hetjob"] = ""
        if not script and "wrap" not in given:
            raise InvalidInput(
                "there is no script", where="SCRIPT", fix="name the batch script, or give --wrap COMMAND"
            )
        inside: dict[str, str] = {}
        if script and script[0] not in ("-", ":") and "wrap" not in given:
            for line in _directives(read_source(script[0]).text):
                while line:
                    names, taken = ({"hetjob": ""}, 1) if line[0] in ("hetjob", "packjob") else _option(line)
                    inside |= names
                    del line[:taken]
        for name in filter(inside.__contains__, HERE):
            raise InvalidInput(
                "sbatch would not say the number of the job, for which the order of ranks is written",
                where=f"{script[0]}: #SBATCH --{name}",
                fix=f"take it out of the script, and give --{name} beside it",
            )
        outside = {name: os.environ[key] for name, key in FROM_ENVIRONMENT.items() if key in os.environ}
        # sbatch: words before the environment, that before the script
        options = inside | outside | given
        for name in filter(options.__contains__, REFUSED):
            problem, fix = REFUSED[name]
            raise InvalidInput(problem, where=f"--{name}", fix=fix)
        return cls((*kept, *rest), options, len(kept))

    @property
    def trial(self) -> bool:
        """Whether nothing is submitted."""
        return "test-only" in self.options

    @property
    def parsable(self) -> bool:
        """Whether programs read what is printed."""
        return "parsable" in self.options

    @property
    def starts_at_once(self) -> bool:
        """Whether the job is not held, nor to begin later, by its user's own wish."""
        return not self.options.keys() & {"hold", "begin"}


def _option(words: list[str]) -> tuple[dict[str, str], int]:
    """Return the first option of some words with its value, by its long name, and how many words it takes."""
    word = words[0]
    if word.startswith("--"):
        name, separator, value = word[2:].partition("=")
        if separator or name in FLAGS or len(words) == 1:
            return {name: value}, 1
        return {name: words[1]}, 2
    found: dict[str, str] = {}
    for i, letter in enumerate(word[1:], start=1):
        name = LETTERS.get(letter, letter)
        if letter in SHORT_FLAGS:
            found[name] = ""
            continue
        value = word[i + 1 :].removeprefix("=")
        if value or len(words) == 1:
            return {**found, name: value}, 1
        return {**found, name: words[1]}, 2
    return found, 1


def _directives(script: str) -> Iterator[list[str]]:
    """Yield the words of each line of #SBATCH before the first command of a script."""
    for line in script.splitlines():
        if line.startswith("#SBATCH"):
            with suppress(ValueError):  # sbatch says itself what it cannot read
                yield shlex.split(line.removeprefix("#SBATCH"), comments=True)
        elif line.strip() and not line.startswith("#"):
            return


def _planned(grid: str, wish: Submission) -> tuple[Instance, Outcome]:
    """Return the job on the nodes that it could have now, and where it goes."""
    from scheduler.algorithm_run import run
    from scheduler.job_files.job_file import load_job
    from slurm.decide import on_type

    asked: dict[str, Any] = {name: value for name in COUNT if (value := wish.options.get(name))}
    files = ClusterFiles(cluster=SLURM, **asked)
    inputs = PlacementInputs(files, JobFiles(), OwnRecords(), Overrides(), Limits())
    loaded = files.read_aloud()
    job_file = load_job(job_file_of(grid), cluster=loaded.cluster)
    options = (wish.options.get(name, "") for name in ("gpus-per-node", "gpus"))
    resources = [wish.options.get("gres", ""), *(f"gpu:{gpus}" for gpus in options)]
    job_file = replace(job_file, job=on_type(job_file.job, loaded.cluster, *resources))
    instance = inputs.instance(loaded, job_file)
    with progress("Placing the job") as say:
        outcome = run(ALGORITHMS.load("exact"), instance.cluster, instance.job, replace(Limits(), progress=say))
    return instance.settled(outcome), outcome


def _sbatch(wish: Submission, nodes: int, own: Sequence[str]) -> tuple[int, str]:
    """Hand the job to sbatch for so many nodes, show what it prints, and return its exit code and the job's number."""
    if wish.options.get("nodes", str(nodes)) != str(nodes):
        fix = f"leave --nodes out, or say --nodes={nodes}"
        raise InvalidInput("the nodes are chosen here, as the grid needs them", where="--nodes", fix=fix)
    # after those of the user: of two that are alike sbatch takes the last
    options = [*wish.words[: wish.script], *own, f"--nodes={nodes}", "--parsable"]
    code, printed = submit_words([*options, *wish.words[wish.script :]], without=(WAIT,))
    number, _, cluster = printed.strip().partition(";")
    if not number.isdecimal():
        click.echo(printed, nl=False)
    elif wish.parsable:
        click.echo(number)
    elif "quiet" not in wish.options:
        click.echo(f"Submitted batch job {number}" + (f" on cluster {cluster}" if cluster else ""))
    return code, number


def _orders(folder: str | None) -> Path:
    """Return the folder of orders: as said, or beside the TaskProlog of the live Slurm."""
    from slurm.checks import configured, orders_folder

    return orders_folder(configured()) if folder is None else Path(folder)


def _ended(number: str) -> int:
    """Wait for the end of a job, and return its exit code."""
    pause = 1
    while True:
        sleep(pause := min(2 * pause, 32))  # as sbatch does
        try:
            state = ask("scontrol", f"show job {number}", "--oneliner")[0].text
        except SlurmRefused as error:
            if UNKNOWN_JOB in error.message:
                raise
            continue  # a controller that starts anew
        if not re.search(r"\bJobState=(PENDING|CONFIGURING|RUNNING|COMPLETING|SUSPENDED|REQUEUE)", state):
            code = re.search(r"\bExitCode=(\d+):(\d+)", state)
            return 1 if code is None else int(code[1]) or int(code[2])
