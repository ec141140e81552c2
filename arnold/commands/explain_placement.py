"""``arnold explain``: why it cannot be better, or why it does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from arnold.commands.place import of_a_change
from arnold.console.output import BAD, answer, exit_code, print_sentences, progress
from arnold.options.command import JsonCommand
from arnold.options.job_options import PlacementInputs, placement_inputs
from arnold.options.shared_options import html_option
from ground.files import write_file

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.documents.place_answer import ExplainDocument
    from scheduler.explanation import CheaperPair, Misfit
    from scheduler.outcome import Instance, Outcome


EXAMPLES = """\b
Examples:
  arnold explain --cluster cluster.csv --job job.yaml
  arnold explain --cluster cluster.csv --job job.yaml --alpha 0.8 --json
  arnold explain --cluster kube:prod --levels example.com/minipod,example.com/rack --job job.yaml
"""

BINDS = {
    "nodes": "There are too few nodes, whatever the shape of the job.",
    "hold": "There are enough nodes; a hard constraint of the job binds.",
    "unknown": "There are enough nodes.",
}
EMPTY = {
    True: "If the cluster were empty, the job would fit.",
    False: "Even if the cluster were empty, the job would not fit.",
    None: "Whether it would fit on the empty cluster was not settled in time.",
}


@click.command("explain", cls=JsonCommand, document="arnold.documents.place_answer:ExplainDocument", epilog=EXAMPLES)
@placement_inputs
@html_option
def command(*, as_json: bool, html: str | None, inputs: PlacementInputs) -> int:
    """Say why a placement cannot be better, or why the job does not fit and what would help.

    Every cheaper pair of spreads is shown with what rules it out; every suggestion was verified by solving the changed
    instance. Where nodes are slow, avoiding them and using them are both solved, with predicted step times. Exits 3 if
    the job does not fit, 4 if time ran out with nothing valid.
    """
    from arnold.documents.place_answer import explain_document
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
        from arnold.pages.placement import placement_page

        write_file(html, placement_page(cluster, instance.job, [outcome], more=_beside_the_pairs(document)))
    answer(document, lambda out, shown: _print(out, instance, outcome, shown), as_json=as_json)
    return exit_code(outcome.status)


def _print(out: Console, instance: Instance, outcome: Outcome, document: ExplainDocument) -> None:
    from arnold.texts.place_text import COLOURS, print_head, print_pareto

    print_head(out, instance)
    out.print()
    out.print(document.verdict, style=COLOURS.get(outcome.status, BAD))
    if outcome.evaluation is not None:
        print_sentences(out, _heading(document), _reasons(document.cheaper) or ["every group touches one domain"])
        print_pareto(out, instance, outcome)
    for title, sentences in _beside_the_pairs(document):
        print_sentences(out, title, sentences)
    print_sentences(out, "Types of GPU", [type_.sentence for type_ in document.types if len(document.types) > 1])
    print_sentences(out, "Notes", document.notes)


def _beside_the_pairs(document: ExplainDocument) -> list[tuple[str, Sequence[str]]]:
    """Return title and sentences of what is said besides the cheaper pairs; some have no sentence."""
    from arnold.texts.place_text import flag_sentences
    from scheduler.subproblems import in_words

    prices = document.prices if len(document.prices) > len(document.options) else ()
    binding = [f"{in_words(one.gpu_types)}: {one.sentence}" for one in document.binding]
    return [
        *([] if document.diagnosis is None else _misfit(document.diagnosis)),
        ("Slow nodes: avoid them or use them", _ways(document)),
        ("Why they are flagged", flag_sentences(document.flags)),
        ("Slow nodes, by how slow", [price.sentence for price in prices]),
        ("What binds on each type", binding),
    ]


def _ways(document: ExplainDocument) -> list[str]:
    """Return what avoiding slow nodes costs against using them, and which they are."""
    from arnold.texts.place_text import LONGEST_NAMES
    from ground.quantities import capitalised
    from scheduler.explanation import comparison
    from topology.node_names import spell_names

    lines = []
    for option in document.options:
        named = {"in use": option.used, "left out" if option.way == "avoid" else "not needed": option.left_out}
        parts = (f"{words} {spell_names(names, most=LONGEST_NAMES)}" for words, names in named.items() if names)
        lines.append("; ".join([capitalised(option.sentence), *parts]))
    compared = comparison(document.options)
    return [*lines, compared] if compared else lines


def _heading(document: ExplainDocument) -> str:
    from scheduler.subproblems import in_words

    if not document.cheaper:
        return "Nothing can be cheaper"
    without = any(option.chosen and option.way == "avoid" for option in document.options)
    where = " without slow nodes" if without else ""
    if len(document.types) > 1:
        where += "".join(f" on {in_words(option.gpu_types)}" for option in document.types if option.chosen)
    why = "why it cannot be" if document.status == "optimal" else "what is known of it"
    pairs = "1 pair" if len(document.cheaper) == 1 else f"{len(document.cheaper):,} pairs"
    return f"What would be cheaper, and {why}{where}: {pairs} of (DP spread, PP spread)"


def _reasons(pairs: Sequence[CheaperPair]) -> list[str]:
    """Return a line for each pair that no other exceeds, with the smaller ones that go with it."""
    from arnold.texts.place_text import LONGEST
    from scheduler.explanation import why_not

    lines = []
    for one in why_not(pairs):
        lines.append(one.line)
        if one.with_it:
            names = [f"({pair.dp}, {pair.pp})" for pair in one.with_it]
            more = f" and {len(names) - LONGEST:,} more" if len(names) > LONGEST else ""
            lines.append(f"{', '.join(names[:LONGEST])}{more}: {one.rest}")
    return lines


def _misfit(diagnosis: Misfit) -> list[tuple[str, Sequence[str]]]:
    """Return why the job does not fit, and what would help."""
    changes = [change.sentence for change in diagnosis.changes]
    none = "No single change that was tried: a smaller dp, fewer constraints, nodes freed, slow nodes, taints."
    return [
        ("Why", [BINDS[diagnosis.constraint], EMPTY[diagnosis.would_fit_if_empty]]),
        ("Any one of these would help", changes) if changes else ("What would help", [none]),
    ]
