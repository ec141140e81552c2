"""``arnold recover replay``: a plan of two phases, and the culprit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from arnold.commands.command import JsonCommand
from arnold.commands.output import console, emit_json, table
from arnold.commands.recover_inputs import read_machines, running_job_options

if TYPE_CHECKING:
    from arnold.documents.recover_answers import ReplayDocument
    from health.recovery.machines import Machines

LONGEST = 40
"""Most rows of a table on a terminal."""

EXAMPLES = """\b
Examples:
  arnold recover replay --job job.yaml
  arnold recover replay --placement placement.json --failed-horizontal 3 --failed-vertical 7
"""


@click.command("replay", cls=JsonCommand, document="arnold.documents.recover_answers:ReplayDocument", epilog=EXAMPLES)
@running_job_options
@click.option(
    "--k",
    type=click.IntRange(min=1),
    metavar="N",
    help="Replicas of a group  [default: the most that leave one culprit]",
)
@click.option(
    "--failed-horizontal",
    "horizontal",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="I",
    help="A group of the first phase that failed; may be repeated.",
)
@click.option(
    "--failed-vertical",
    "vertical",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="J",
    help="A group of the second phase that failed; may be repeated.",
)
def command(
    *,
    as_json: bool,
    job_file: str | None,
    placement: str | None,
    k: int | None,
    horizontal: tuple[int, ...],
    vertical: tuple[int, ...],
) -> None:
    """Find the machine that computes wrongly without an error: two short runs of the job, cut into parts two ways.

    Each part keeps TP and PP and runs a few steps on its own, all at once. The culprit is in the part that fails in
    the first run and in the part that fails in the second. Machines are numbered by node rank.
    """
    from arnold.documents.recover_answers import replay_document
    from health.recovery.replay_words import replay_answer, replay_notes, replay_sentence
    from health.recovery.two_phase_replay import plan_replay

    machines = read_machines(job_file, placement)
    plan = plan_replay(machines.job, k=k)
    failed = bool(horizontal or vertical)
    suspects = plan.suspects(horizontal, vertical) if failed else ()
    answer = replay_answer(suspects, failed=failed)
    document = replay_document(
        plan,
        machines,
        horizontal=horizontal,
        vertical=vertical,
        verdict=replay_sentence(plan, machines, suspects, failed=failed),
        answer=answer,
        suspects=suspects,
        notes=replay_notes(plan, suspects, horizontal=horizontal, vertical=vertical),
    )
    if as_json:
        emit_json(document)
    else:
        _print(document, machines)


def _print(document: ReplayDocument, machines: Machines) -> None:
    from arnold.commands.output import BAD, GOOD, SO_SO, print_sentences
    from health.recovery.eviction_words import machine_names

    out = console()
    good = document.answer == "culprit" or (document.answer == "plan" and document.unique)
    out.print(document.verdict, style=GOOD if good else BAD if document.answer == "nobody" else SO_SO)
    title = f"{document.groups} groups of {document.group_size} machines, DP {document.k} each"
    runs = ("first run (horizontal)", "second run (vertical)")
    rows = table("group", *runs, title=title, left=runs)
    for group in range(min(document.groups, LONGEST)):
        cells = []
        for cut, failed in (
            (document.horizontal, document.failed_horizontal),
            (document.vertical, document.failed_vertical),
        ):
            names = machine_names(machines, cut[group])
            names = names if len(names) <= 44 else f"{names[:41]}..."
            cells.append(f"{names}  FAILED" if group in failed else names)
        rows.add_row(str(group), *cells)
    if document.groups > LONGEST:
        rows.add_row(f"... {document.groups - LONGEST} more", "", "")
    out.print()
    out.print(rows)
    print_sentences(out, "Notes", document.notes)
