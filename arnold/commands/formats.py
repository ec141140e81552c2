"""``arnold formats``: every format of files that is read, as its reader describes it."""

from collections.abc import Iterable, Mapping

import click

from arnold.console.output import Console, answer, plain, print_rows
from arnold.options.command import JsonCommand
from ground.formats import FileFormat
from ground.plugins import object_at
from ground.quantities import capitalised
from ground.records import JsonRecord

KINDS: Mapping[str, str] = {
    "clusters": "where nodes are: place, explain, topology, simulate and all others with --cluster",
    "jobs": "what a scheduler ran: simulate, capacity, anonymise",
    "running jobs": "what runs where, since when and until when: place and explain with --running",
    "op-traces": "what the ranks of one job did: stragglers, and health op-trace for those of others",
    "collectives": "what ranks called and finished: health collectives",
    "metrics": "what machines measured: health peers",
}
"""Kinds of files, in the order in which they are listed: what they say and who reads them."""

READERS: Mapping[str, str] = {
    "clusters": "topology.readers.reading:TOPOLOGY_READERS",
    "jobs": "simulator.traces.trace_loading:TRACE_READERS",
    "running jobs": "topology.running_jobs:RUNNING_READERS",
    "op-traces": "health.whatif.converters:PROFILE_READERS",
    "collectives": "health.collectives.reading:COLLECTIVES_READERS",
    "metrics": "health.peers.recording_files:METRIC_READERS",
}
"""Kind -> the group of its readers, imported when it is listed."""


class FormatKind(JsonRecord):
    """The formats of one kind of files."""

    kind: str
    """Clusters, jobs, running jobs, op-traces, collectives or metrics."""
    used_by: str
    """What they say, and the commands that read them."""
    formats: tuple[FileFormat, ...]
    """The formats, by name."""

    @property
    def sentence(self) -> str:
        """What they say, and the commands that read them, as a sentence."""
        return f"{capitalised(self.used_by)}."


class FormatsDocument(JsonRecord):
    """What ``arnold formats --json`` prints."""

    kinds: tuple[FormatKind, ...]
    """The kinds that were asked for."""


def formats_of(kinds: Iterable[str]) -> FormatsDocument:
    """Return the formats of some kinds, in the order in which these are given."""
    from health.whatif.trace import FORMAT

    listed = []
    for kind in kinds:
        formats = [*object_at(READERS[kind]).formats(), *([FORMAT] if kind == "op-traces" else [])]
        listed.append(FormatKind(kind, KINDS[kind], tuple(sorted(formats, key=lambda form: form.name))))
    return FormatsDocument(tuple(listed))


@click.command("formats", cls=JsonCommand, document="arnold.commands.formats:FormatsDocument")
@click.argument("kind", type=click.Choice(tuple(KINDS)), required=False)
def command(kind: str | None) -> None:
    """List the formats of files that are read, and how to get such files.

    With a KIND its formats are listed with what is read of each, and what is left out.

    $ arnold formats
    $ arnold formats jobs
    """
    answer(formats_of((kind,) if kind else KINDS), show_all if kind is None else show_each)


def show_all(out: Console, document: FormatsDocument) -> None:
    """Print the name and the source of each format."""
    for kind in document.kinds:
        headers, rows = (kind.kind, "where it comes from"), [(form.name, plain(form.source)) for form in kind.formats]
        print_rows(out, headers, rows, title="", left=headers, gap=False)
        out.print()
    out.print("arnold formats KIND says how to get such a file, what is read of it, and what is left out.")


def show_each(out: Console, document: FormatsDocument) -> None:
    """Print of each format how to get a file, what is read of it, and what is left out."""
    from rich.table import Table

    for kind in document.kinds:
        out.print(kind.sentence)
        for form in kind.formats:
            out.print(f"\n{form.name}: {plain(form.source)}")
            rows = Table.grid(padding=(0, 1))
            for label, text in (("get it", form.export), ("read", form.read), ("left out", form.left_out or "nothing")):
                rows.add_row(f"  {label}:", plain(text))
            out.print(rows)
