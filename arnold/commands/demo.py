"""``arnold demo``: something worth looking at, without any input."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which

import click

from arnold.commands.compare import run_all
from arnold.console.output import BAD, Console, answer, exit_code, note, print_sentences, progress
from arnold.options.command import JsonCommand
from arnold.options.field_options import file_option, options_of, refuse_clashes
from arnold.options.shared_options import PAGE_HELP, SAVE_HELP
from ground.errors import InvalidInput
from ground.files import check_writable, write_file
from scheduler.placement.types import ALGORITHMS, Limits

PAGE = "arnold-demo.html"


@click.command("demo", cls=JsonCommand, document="arnold.documents.compare_answer:DemoDocument")
@options_of(Limits, to="limits", defaults={"seconds": 5.0})
@file_option("--html", written=True, default=PAGE, show_default=True, help=PAGE_HELP)
@file_option("--save", metavar="FOLDER", written=True, help=SAVE_HELP)
def command(*, html: str, save: str | None, limits: Limits) -> int:
    """See it work: the paper's 9,600-GPU job on a fragmented cluster, placed by every algorithm.

    Prints the comparison and writes one self-contained HTML page, which needs no network: the cluster with the job on
    it, the proof, the trade between the spreads. The time limit holds for each algorithm.

    --save writes every file that the commands of Arnold's README and docs use: its cluster, also as Slurm and
    Kubernetes list it, jobs, a trace of a job with a slow node, traces of jobs, and measurements. It needs the extra
    `tables`. Files of other content that are there already are an error, and stay.

    $ arnold demo
    $ arnold demo --save arnold-demo
    $ arnold explain --cluster arnold-demo/cluster.csv --job arnold-demo/job.yaml
    """
    from arnold.demonstration import demo_files, demo_instance
    from arnold.documents.answer_frame import COLOURS, LONGEST, Frame, print_head
    from arnold.documents.compare_answer import DemoDocument, compare_document, print_results
    from arnold.documents.place_answer import print_pareto
    from arnold.pages.placement_page import placement_page
    from scheduler.outcome import Instance

    cluster, job = demo_instance(limits.seed)
    instance = Instance(cluster, job, "the demo's cluster")
    files = [] if save is None else _save(save, demo_files(cluster, job, limits.seed), page=html)
    check_writable(html)
    names = sorted(ALGORITHMS.names(), key=lambda name: name != "exact")
    if not sys.stderr.isatty():  # where a terminal shows a bar
        note(f"Placing the job with {len(names)} algorithms, each for at most {limits.seconds:g} s")
    outcomes = run_all([ALGORITHMS.load(name) for name in names], instance, limits)
    with progress("Drawing the page"):
        page = placement_page(cluster, job, outcomes, title="Arnold: 9,600 GPUs on a fragmented cluster")
    write_file(html, page)
    document = DemoDocument(html, tuple(files), compare_document(instance, outcomes))
    outcome = outcomes[0]

    def show(out: Console, shown: DemoDocument) -> None:
        frame = Frame(out, f"{outcome.algorithm}: {outcome.verdict}", COLOURS.get(outcome.status, BAD))
        print_head(out, instance)
        print_results(frame, shown.comparison, most=LONGEST)
        print_pareto(out, instance, outcome)
        print_sentences(out, "Slow nodes", [price.sentence for price in outcome.proposal.prices])
        out.print()
        out.print(f"The page with the picture: {shown.page}", soft_wrap=True)
        _print_what_next(out, shown.files)

    answer(document, show)
    return exit_code(*(outcome.status for outcome in outcomes))


def _save(folder: str, files: Mapping[str, bytes], *, page: str) -> list[str]:
    """Write the files; one that is there with the same content stands still.

    :returns: their paths.
    :raises InvalidInput: the folder cannot be made or written to, or a file of that name has another content; then
        nothing is written.
    """
    paths = {Path(folder) / name: content for name, content in files.items()}
    refuse_clashes([page, *map(str, paths)], click.get_current_context())
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        others = [path.name for path, content in paths.items() if path.exists() and path.read_bytes() != content]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        fix = "choose another folder with --save"
        raise InvalidInput(f"cannot be used: {reason}", where=folder, fix=fix) from error
    if others:
        problem = f"has {', '.join(others)} already, with other content, which was left as it is"
        raise InvalidInput(problem, where=folder, fix="choose another folder with --save, or move these files away")
    for path, content in paths.items():
        if not path.exists():
            write_file(path, content)
    return [str(path) for path in paths]


def _print_what_next(out: Console, files: Sequence[str]) -> None:
    """Print commands to go on with, as they can be called from here."""
    # called again as arnold if the shell finds it by that name, or it was not started by its script; else by its path
    script, name, on_path = Path(sys.argv[0]), "arnold", which("arnold")
    if script.name == "arnold" and script.is_file() and not (on_path and Path(on_path).samefile(script)):
        name = shlex.quote(str(script))
    if files:
        out.print(f"Saved: {', '.join(files)}", soft_wrap=True)
        cluster, job = (shlex.quote(file) for file in files[:2])
        out.print(f"Try: {name} explain --cluster {cluster} --job {job}", soft_wrap=True)
    else:
        out.print(f"To play with it: {name} demo --save FOLDER writes its cluster, its job and more files to try.")
    if (activate := script.with_name("activate")).is_file() and name != "arnold":
        out.print(f"To call it just arnold: . {shlex.quote(str(activate))}", soft_wrap=True)
