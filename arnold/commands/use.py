"""``arnold use``: the context, so that other commands need not be told the cluster."""

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path

import click

from arnold.console.output import Console, answer
from arnold.options.cluster_options import ClusterFiles
from arnold.options.command import JsonCommand
from arnold.options.context import NAME, OPTIONS, context_text, find_context, missing_file, read_context, shown
from arnold.options.field_options import FILE, options_of
from ground.errors import InvalidInput
from ground.files import write_file
from ground.records import JsonRecord


class ContextDocument(JsonRecord):
    """The context of the working directory."""

    file: str | None
    """File that says it; null = there is none."""
    options: Mapping[str, str | tuple[str, ...]]
    """Key of the file -> its value, names of files from the working directory."""


@click.command("use", cls=JsonCommand, document="arnold.commands.use:ContextDocument")
@click.argument("source", type=FILE, metavar="[CLUSTER]", required=False)
@options_of(partial(ClusterFiles, cluster=""), to="files", only=[key for key in OPTIONS if key != "cluster"])
@click.option("--clear", is_flag=True, help="Remove the context of the working directory.")
def command(*, source: str | None, clear: bool, files: ClusterFiles) -> None:
    """Write the cluster and its options to .arnold.yaml, for all commands here and below; show it; remove it.

    Other commands take from it what their command line leaves open, and say so. The nearest file counts, up to the home
    directory; ARNOLD_CONTEXT names another, and empty none.

    $ arnold use slurm: --partition gpu
    $ arnold use cluster.csv --busy busy.txt --flags flags.db
    $ arnold place job.yaml
    $ arnold use
    $ arnold use --clear
    """
    own = Path.cwd() / NAME
    given = {key.name: getattr(files, key.name) for key in fields(files) if getattr(files, key.name) != key.default}
    values = {
        key: value if isinstance(value, tuple) else str(value) for key, value in given.items() if key != "cluster"
    }
    if source is not None:
        values = {"cluster": source, **values}
    if clear:
        if values:
            raise InvalidInput("a context is removed, or written", where="--clear", fix="leave out all but --clear")
        if not own.is_file():
            file = find_context()
            elsewhere = "" if file is None else f"; that of {file} counts here"
            fix = "go where the file is, or set ARNOLD_CONTEXT to nothing"
            raise InvalidInput(f"the working directory has no {NAME}{elsewhere}", where="--clear", fix=fix)
        own.unlink()
    for key, value in values.items():
        if (missing := missing_file(key, value)) is not None:
            where = OPTIONS[key] if key != "cluster" else "CLUSTER"
            raise InvalidInput(f"there is no file {missing}", where=where, fix="check the path")
    if values:
        write_file(own, context_text(values))
    file = find_context()
    document = ContextDocument(None, {}) if file is None else ContextDocument(shown(file), read_context(file).values)
    answer(document, print_context)


def print_context(out: Console, document: ContextDocument) -> None:
    """Print the file and what it says."""
    if document.file is None:
        out.print(f"No context: no {NAME} here or above. `arnold use CLUSTER` writes one.")
        return
    out.print(f"{document.file}:", soft_wrap=True)
    for key, value in document.options.items():
        out.print(f"  {OPTIONS[key]} {value if isinstance(value, str) else ', '.join(value)}", soft_wrap=True)
