"""``arnold explain``: why it cannot be better, or why it does not fit."""

from __future__ import annotations

from dataclasses import replace

import click

from arnold.commands.place import of_a_change
from arnold.console.output import answer, exit_code, progress
from arnold.options.command import JsonCommand, said_again
from arnold.options.job_options import PlacementInputs, placement_inputs
from arnold.options.shared_options import html_option
from ground.files import write_file

EXAMPLES = """\b
Examples:
  arnold explain --cluster cluster.csv --job job.yaml
  arnold explain --cluster cluster.csv --job job.yaml --alpha 0.8 --json
  arnold explain --cluster kube:prod --levels example.com/minipod,example.com/rack --job job.yaml
"""


@click.command("explain", cls=JsonCommand, document="arnold.documents.place_answer:ExplainDocument", epilog=EXAMPLES)
@placement_inputs
@html_option
def command(*, as_json: bool, html: str | None, inputs: PlacementInputs) -> int:
    """Say why a placement cannot be better, or why the job does not fit and what would help.

    Every cheaper pair of spreads is shown with what rules it out; every suggestion was verified by solving the changed
    instance. Where nodes are slow, avoiding them and using them are both solved, with predicted step times. Exits 3 if
    the job does not fit, 4 if time ran out with nothing valid.
    """
    from arnold.documents.place_answer import explain_document, explanation_cards, print_explanation
    from scheduler.algorithm_run import run
    from scheduler.explanation import diagnose, weigh
    from scheduler.placement.types import ALGORITHMS

    solver = ALGORITHMS.load("exact")
    instance = inputs.read()
    cluster, job = instance.cluster, instance.job
    with progress(f"Explaining {job.name}") as say:
        limits = replace(inputs.limits, progress=say)
        outcome = run(solver, cluster, job, limits)
        diagnosis = None
        options = weigh(cluster, job, outcome, solver=solver, limits=limits)
        if outcome.status == "infeasible":
            diagnosis = diagnose(cluster, job, outcome, solver=solver, limits=of_a_change(limits))
    instance = instance.settled(outcome)
    document = explain_document(instance, outcome, options=options, diagnosis=diagnosis)
    if html is not None:
        from arnold.pages.placement_page import placement_page

        write_file(html, placement_page(cluster, instance.job, [outcome], more=explanation_cards(document)))
    then = "" if outcome.evaluation is None else said_again("place", without=("--html",))
    answer(document, lambda out, shown: print_explanation(out, instance, outcome, shown, then=then), as_json=as_json)
    return exit_code(outcome.status)
