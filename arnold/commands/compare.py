"""``arnold compare``: every algorithm on one instance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

import click

from arnold.console.interrupts import ending_the_search
from arnold.console.output import Console, answer, exit_code, log_outcome, print_rows, progress
from arnold.options.command import JsonCommand, said_again
from arnold.options.job_options import PlacementInputs, placement_inputs
from arnold.options.shared_options import ALGORITHM_HELP, complete_algorithm, own_page_option
from ground.errors import InvalidInput, InvalidJob
from ground.files import write_file
from scheduler.placement.types import ALGORITHMS, Limits, PlacementAlgorithm

if TYPE_CHECKING:
    from arnold.documents.compare_answer import AlgorithmsDocument
    from scheduler.outcome import Instance, Outcome


def _list_algorithms(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Answer ``--list`` at once: it needs no instance.  Options that are missing are noticed after those given."""
    if not wanted or context.resilient_parsing:
        return
    from arnold.documents.compare_answer import algorithms_document

    def show(out: Console, document: AlgorithmsDocument) -> None:
        headers = ("algorithm", "what it does")
        rows = [(algorithm.name, algorithm.summary) for algorithm in document.algorithms]
        print_rows(out, headers, rows, title="Installed algorithms", left=headers, gap=False)

    answer(algorithms_document(), show)
    context.exit()


@click.command("compare", cls=JsonCommand, document="arnold.documents.compare_answer:CompareOutput")
@placement_inputs
@click.option(
    "--algorithm", metavar="NAME[,..]", shell_complete=complete_algorithm, help=f"{ALGORITHM_HELP}  [default: all]"
)
@click.option("--dp", metavar="N..M", help="Compare sizes of the job instead, by replicas: 12..16 or 12,16.")
@own_page_option
@click.option(
    "--list",
    is_flag=True,
    expose_value=False,
    callback=_list_algorithms,
    help="List the algorithms, and do nothing else.",
)
def command(*, html: str | None, algorithm: str | None, dp: str | None, inputs: PlacementInputs) -> int:
    """Run every algorithm on one job and one cluster, best first; or, with --dp, one on the job at several sizes.

    The time limit holds for each. Exits 3 if the job does not fit, 4 if no placement was found.

    $ arnold compare --cluster cluster.csv --job job.yaml
    $ arnold compare --cluster cluster.csv --job job.yaml --algorithm exact,gpu-packing --json
    $ arnold compare --cluster cluster.csv --job job.yaml --html compare.html
    $ arnold compare --cluster cluster.csv --job job.yaml --dp 12..16
    $ arnold compare --list
    """
    from arnold.documents.compare_answer import compare_document, print_comparison

    names = [] if algorithm is None else [*dict.fromkeys(filter(None, map(str.strip, algorithm.split(","))))]
    if algorithm is not None and not names:
        raise InvalidInput(f"{algorithm[:40]!r} names nothing", where="--algorithm", fix="give a name, or several: a,b")
    if dp is not None:
        if len(names) > 1:
            fix = "give one, and compare the sizes again with each of the others"
            several = f"sizes are compared under one algorithm, and {len(names)} are named"
            raise InvalidInput(several, where="--algorithm", fix=fix)
        return _compare_sizes(inputs, _sizes(dp), *names, html=html)
    chosen = [ALGORITHMS.load(name) for name in names or ALGORITHMS.names()]
    instance = inputs.read()
    if instance.job.node_sizes:
        sizes = ", ".join(f"{size.gpu_type or 'of no type'}: {size.gpus}" for size in instance.job.node_sizes)
        raise InvalidJob(
            f"algorithms are compared on nodes of one size, and types that the job admits differ in GPUs ({sizes})",
            where="gpus_per_node",
            fix="add gpus_per_node to the job",
        )
    outcomes = run_all(chosen, instance, inputs.limits)
    document = compare_document(instance, outcomes)
    if html is not None:
        from arnold.pages.placement_page import placement_page

        # in the order in which a page can be about them: proved, then the best objective
        ranked = sorted(outcomes, key=lambda run: (run.status != "optimal", run.objective or inf))
        write_file(html, placement_page(instance.cluster, instance.job, ranked))
    best = document.best_algorithms[:1]
    other = () if best == ["exact"] else ("--algorithm", *best)
    then = said_again("place", *other, without=("--algorithm", "--html")) if best else ""
    answer(document, lambda out, shown: print_comparison(out, instance, shown, then=then))
    return exit_code(*(outcome.status for outcome in outcomes))


MOST_SIZES = 100  # Of one job: each is a search


def _sizes(text: str) -> list[int]:
    """Return the numbers of replicas that an option names, each once; InvalidInput where they are none."""
    sizes = set[int]()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,7})(?:\.\.(\d{1,7}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        fix = f"give up to {MOST_SIZES} numbers from 1 on: 12..16, or 12,14,16"
        if not 1 <= first <= last:
            raise InvalidInput(f"{part[:40]!r} names no sizes", where="--dp", fix=fix)
        sizes |= {*range(first, min(last, first + MOST_SIZES) + 1)}
        if len(sizes) > MOST_SIZES:
            raise InvalidInput(f"{text[:40]!r} are more than {MOST_SIZES} sizes", where="--dp", fix=fix)
    return sorted(sizes)


def _compare_sizes(inputs: PlacementInputs, sizes: Sequence[int], algorithm: str = "exact", *, html: str | None) -> int:
    """Place a job at several sizes, and say what each is worth."""
    from arnold.documents.compare_answer import print_sizes, sizes_document
    from scheduler.algorithm_run import run

    solver, instances, outcomes = ALGORITHMS.load(algorithm), inputs.read_sizes(sizes), []
    with progress(f"Comparing {len(sizes)} sizes", total=len(sizes)) as step, ending_the_search():
        for size, instance in zip(sizes, instances, strict=True):
            outcomes.append(run(solver, instance.cluster, instance.job, inputs.limits))
            step(f"dp {size}")
    answer(sizes_document(instances, outcomes), print_sizes, html=html)
    fits = [outcome.status for outcome in outcomes if outcome.evaluation is not None]
    return exit_code(*(fits or [outcome.status for outcome in outcomes]))


def run_all(algorithms: Sequence[PlacementAlgorithm], instance: Instance, limits: Limits) -> list[Outcome]:
    """Return the outcome of each algorithm, one after the other."""
    from scheduler.algorithm_run import run

    outcomes = []
    with progress(f"Comparing {len(algorithms)} algorithms", total=len(algorithms)) as step, ending_the_search():
        for algorithm in algorithms:
            outcomes.append(run(algorithm, instance.cluster, instance.job, limits))
            log_outcome(outcomes[-1])
            step(algorithm.name)
    return outcomes
