"""``arnold demo``: something worth looking at, without any input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduler.cli.command import JsonCommand
from scheduler.cli.compare import exit_code, print_results, run_all
from scheduler.cli.instance import FILE, Instance, limit_options
from scheduler.cli.output import console, emit_json, progress
from topology.errors import InvalidInput
from topology.files import write_file

if TYPE_CHECKING:
    from rich.console import Console

    from scheduler.documents.demo import DemoDocument
    from scheduler.outcome import Outcome

PAGE = "arnold-demo.html"

EXAMPLES = """\b
Examples:
  arnold demo
  arnold demo --save arnold-demo
  arnold explain --cluster arnold-demo/cluster.csv --job arnold-demo/job.yaml
"""


@click.command("demo", cls=JsonCommand, document="scheduler.documents.demo:DemoDocument", epilog=EXAMPLES)
@limit_options(seconds=5.0)
@click.option("--output", type=FILE, default=PAGE, show_default=True, metavar="FILE", help="The HTML page to write.")
@click.option("--save", type=FILE, metavar="FOLDER", help="Write the cluster and job file too, to play with.")
def command(*, as_json: bool, output: str, save: str | None, time_limit: float, seed: int, workers: int) -> int:
    """See it work: the paper's 9,600-GPU job on a fragmented cluster, placed by every algorithm.

    Prints the comparison and writes one self-contained HTML page, which needs no network: the cluster with the job on
    it, the proof, the trade between the spreads. The time limit holds for each algorithm.
    """
    from scheduler.demo import demo_instance
    from scheduler.documents.compare import compare_document
    from scheduler.documents.demo import DemoDocument
    from scheduler.placement.registry import algorithm_names, load_algorithm
    from scheduler.report import placement_page

    cluster, job = demo_instance(seed)
    instance = Instance(cluster, job, "the demo's cluster", ())
    names = sorted(algorithm_names(), key=lambda name: name != "exact")
    outcomes = run_all(
        [load_algorithm(name) for name in names], instance, time_limit=time_limit, seed=seed, workers=workers
    )
    with progress("Drawing the page"):
        page = placement_page(cluster, job, outcomes, title="Arnold: 9,600 GPUs on a fragmented cluster")
    write_file(output, page)
    document = DemoDocument(
        page=output,
        files=_save(instance, save),
        comparison=compare_document(cluster, job, outcomes, source=instance.source),
    )
    if as_json:
        emit_json(document)
    else:
        _print(console(), instance, outcomes[0], document)
    return exit_code(outcomes)


def _save(instance: Instance, folder: str | None) -> list[str]:
    """Write the instance as files that the other commands take."""
    if folder is None:
        return []
    from scheduler.cli.output import to_json
    from scheduler.documents.common import job_doc
    from topology.writers import load_writer

    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"cannot be made: {error.strerror}", where=folder, fix="choose another folder with --save"
        ) from error
    cluster_file, job_file = Path(folder) / "cluster.csv", Path(folder) / "job.yaml"
    write_file(cluster_file, load_writer("csv").write(instance.cluster).text)
    write_file(job_file, to_json(job_doc(instance.cluster, instance.job)) + "\n")
    return [str(cluster_file), str(job_file)]


def _print(out: Console, instance: Instance, outcome: Outcome, document: DemoDocument) -> None:
    from scheduler.cli.place_text import BAD, COLOURS, print_head, print_pareto, print_sentences
    from scheduler.documents.words import verdict

    print_head(out, instance)
    out.print()
    out.print(f"{outcome.algorithm}: {verdict(outcome)}", style=COLOURS.get(outcome.status, BAD))
    print_results(out, document.comparison)
    print_pareto(out, instance, outcome)
    print_sentences(out, "Slow nodes", [price.sentence for price in outcome.proposal.prices])
    out.print()
    out.print(f"The page with the picture: {document.page}")
    files = document.files
    if files:
        out.print(f"Try: arnold explain --cluster {files[0]} --job {files[1]}")
    else:
        out.print("To play with it: arnold demo --save FOLDER writes its cluster and job file.")
