"""``arnold topology``: a cluster file converted, shown, checked."""

import sys
from collections.abc import Callable

import click

from arnold.console.output import answer, emit_json, plain, prints_json, progress
from arnold.options.cluster_options import ClusterFiles, state_options
from arnold.options.command import Group, JsonCommand
from arnold.options.field_options import FILE, F, file_option
from ground.errors import InvalidInput
from ground.files import write_file


@click.group("topology", cls=Group)
def command() -> None:
    """Convert, show or validate a cluster file of any known format."""


def _file_command(name: str, document: str) -> Callable[[F], click.Command]:
    """Return a decorator that makes a command of the group, with the file and what lies over it."""

    def decorate(function: F) -> click.Command:
        target = f"arnold.documents.topology_answer:{document}"
        declared = click.argument("cluster", type=FILE, metavar="FILE")(state_options(function))
        return command.command(name, cls=JsonCommand, document=target)(declared)

    return decorate


@_file_command("convert", "ConvertDocument")
@click.option(
    "--to", required=True, metavar="FORMAT", help="New format: csv, slurm-block, slurm-conf, slurm-yaml or topograph."
)
@file_option("--output", written=True, help="File to write to.  [default: standard output]")
def convert(*, to: str, output: str | None, files: ClusterFiles) -> None:
    """Write a cluster in another format.  FILE may be - for standard input.

    What the new format cannot carry is said on standard error and left out.

    $ arnold topology convert topology.conf --to csv --output cluster.csv
    $ kubectl get nodes -o json | arnold topology convert - --to slurm-yaml
    $ arnold topology convert cluster.csv --busy busy.txt --to csv
    """
    from arnold.documents.topology_answer import convert_document, print_notes
    from topology.writers import TOPOLOGY_WRITERS

    writer = TOPOLOGY_WRITERS.load(to)
    topology = files.read_aloud() if prints_json() else files.read()
    try:
        rendering = writer.write(topology.cluster)
    except InvalidInput as error:
        error.where = error.where or files.cluster
        raise
    if output is not None:
        write_file(output, rendering.text)
    if prints_json():
        emit_json(convert_document(topology, rendering, to=to, output=output))
        return
    print_notes([*topology.notes, *rendering.notes], err=True)
    if output is None:
        click.echo(rendering.text.encode(), nl=False)


@_file_command("show", "ShowTopologyDocument")
@file_option("--figure", written=True, help="Save a drawing of the cluster: .svg, .png or .html.")
@click.option(
    "--depth", type=click.IntRange(1, 32), help="Levels of the tree that is printed.  [default: as many as fit]"
)
def show(*, figure: str | None, depth: int | None, files: ClusterFiles) -> None:
    """Show a cluster as a tree with counts, and draw it.  FILE may be - for standard input.

    $ arnold topology show cluster.csv
    $ arnold topology show topology.yaml --busy busy.txt --figure cluster.svg
    $ arnold topology show cluster.csv --depth 1 --json
    """
    from arnold.documents.topology_answer import beside_the_tree, print_notes, show_document, types_of_gpu
    from topology.drawing import draw_cluster
    from topology.summary import summarise_second, text_tree

    topology = files.read_aloud()
    if figure is not None:
        with progress("Drawing"):
            draw_cluster(topology.cluster, figure, title=plain(files.cluster) if files.cluster != "-" else "Cluster")
    if prints_json():
        emit_json(show_document(topology, output=figure, depth=depth))
        return
    # not by click's own choice, which is UTF-8 where the encoding is ASCII
    click.echo(text_tree(topology.cluster, depth=depth), file=sys.stdout)
    for line in (*beside_the_tree(summarise_second(topology.cluster)), types_of_gpu(topology.cluster.nodes_of_type)):
        if line:
            click.echo(line.encode(errors="replace"))
    print_notes(topology.notes)


@_file_command("validate", "ValidateDocument")
def validate(*, files: ClusterFiles) -> None:
    """Check a cluster file and say what was understood.  FILE may be - for standard input.

    Exits 0 if it is valid, 2 if not: the message has the line, what is wrong and what to do.

    $ arnold topology validate cluster.csv
    $ kubectl get nodes -o json | arnold topology validate - --levels room,row,rack
    $ arnold topology validate topology.conf --json
    """
    from arnold.documents.topology_answer import print_validation, validate_document

    answer(validate_document(files.read_aloud()), print_validation)
