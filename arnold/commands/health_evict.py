"""``arnold health evict``: from stack dumps to the machines to evict."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

import click

from arnold.console.output import BAD, GOOD, SO_SO, answer, print_rows, print_sentences
from arnold.options.command import JsonCommand
from arnold.options.field_options import options_of, takes
from arnold.options.job_options import read_machines, running_job_options
from arnold.options.shared_options import HOLD_HELP, html_option, lenient_option
from ground.errors import InvalidInput
from health.recovery.stacks import StackView

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.documents.recover_answers import EvictDocument
    from health.recovery.machines import UnitFamily

CALLS = 3  # Innermost calls of a stack that are shown
LONGEST = 20  # Most rows of a table on a terminal
EXAMPLES = """\b
Examples:
  py-spy dump --pid $PID > dumps/rank-$RANK.txt          # for every rank, while the job hangs
  arnold health evict dumps/ --job job.yaml
  arnold health evict dumps/ --placement placement.json --json > evict.json
  arnold repair --placement placement.json --lost 'n[0017-0024]' --cluster cluster.csv
  arnold health evict --rounds look-1/ look-2/ look-3/ look-4/ look-5/ --placement placement.json
"""


@click.command("evict", cls=JsonCommand, document="arnold.documents.recover_answers:EvictDocument", epilog=EXAMPLES)
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
    """
    from arnold.documents.recover_answers import evict_document
    from health.recovery.eviction import decide, look_at
    from health.recovery.stacks import read_dumps

    machines = read_machines(job_file, placement)
    looks = [read_dumps(paths, ranks=machines.ranks, lenient=lenient) for paths in _looks(dumps, rounds=rounds)]
    eviction = decide(machines, [look_at(look, machines, view=view) for look in looks], family=unit)
    flags = eviction.flags(datetime.now(UTC).replace(microsecond=0), hold=timedelta(hours=hold_hours))
    document = evict_document(eviction, looks, view=view, flags=flags)
    answer(document, _print, as_json=as_json, html=html)


def _looks(dumps: Sequence[str], *, rounds: bool) -> list[list[str]]:
    """Return paths of each look."""
    if not rounds:
        return [list(dumps)]
    if len(dumps) < 2:
        raise InvalidInput(
            "one round is no round: a slow job is looked at several times",
            where="--rounds",
            fix="give a folder for each of 5 looks, 10 seconds apart",
        )
    return [[path] for path in dumps]


def _print(out: Console, document: EvictDocument) -> None:
    out.print(document.verdict, style=GOOD if document.unit is None else SO_SO if document.doubt else BAD)
    last = max(stack.round for stack in document.stacks)
    shown = [stack for stack in document.stacks if stack.round == last]
    title = "Stacks" if document.looks == 1 else f"Stacks of the last of {document.looks} looks"
    calls = _telling_calls([stack.stacks for stack in shown[:LONGEST]])
    calls += [""] * (len(shown) - len(calls))
    rows = [(f"{len(one.ranks):,}", f"{len(one.outliers):,}", of) for one, of in zip(shown, calls, strict=True)]
    headers = ["ranks", "out of place", "innermost calls"]
    print_rows(out, headers, rows, title=title, left=headers[2:], most=LONGEST)
    headers = ["machine", "node rank", "row (dp)", "stage (pp)", "out of place", "looks"]
    evicted = [
        (
            machine.node or f"machine{machine.node_rank}",
            machine.node_rank,
            machine.dp,
            machine.pp,
            machine.outliers,
            machine.rounds,
        )
        for machine in document.machines
    ]
    print_rows(out, headers, evicted, title="Evicted", most=LONGEST)
    print_sentences(out, "Left out", [drop.reason for drop in document.dropped])
    print_sentences(out, "Flags", [f"{flag.node}: {flag.kind}; {flag.evidence}" for flag in document.flags])
    print_sentences(out, "Notes", document.notes)


def _telling_calls(signatures: Sequence[Sequence[Sequence[str]]]) -> list[str]:
    """Of each group the innermost calls of a thread that is elsewhere in the first group; of that, than in the second.

    Calls that all of them begin with, as the system call they all wait in, are left out.
    """
    threads = []
    for i, stacks in enumerate(signatures):
        other = signatures[min(1, len(signatures) - 1)] if i == 0 else signatures[0]
        threads.append(next((stack for stack in stacks if stack not in other), stacks[0]))
    alike = sum(1 for _ in takewhile(lambda calls: len(set(calls)) == 1, zip(*threads, strict=False)))
    start = max(0, min(alike, *(len(calls) - 1 for calls in threads))) if len(threads) > 1 else 0
    lead = "... < " if start else ""
    return [lead + " < ".join(calls[start:][:CALLS]) if calls else "(no Python)" for calls in threads]
