"""``arnold anonymise``: a trace of jobs, or a snapshot of a cluster, without the names in it."""

from collections.abc import Mapping, Sequence
from secrets import token_bytes

import click

from arnold.console.output import Console, answer
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE, file_option
from ground.errors import InvalidInput, few
from ground.files import read_bytes, read_source, write_file
from ground.quantities import plural
from ground.records import JsonRecord

MAX_KEY = 65_536  # Bytes of the largest key
SHOWN = 20  # Names that stayed


class AnonymiseDocument(JsonRecord, kw_only=True):
    """What ``arnold anonymise --json`` prints."""

    output: str
    """The file that was written."""
    replaced: Mapping[str, int]
    """How many different names became pseudonyms: `user`, `group`, `job`, `text` that may repeat them; of a snapshot
    `node` and `domain`, too.
    """
    kept_key: bool
    """Whether the key is of a file: then other files made with it have the same pseudonyms."""
    still_named: Sequence[str]
    """Users and groups after whom something that was kept is called: a partition, a QOS, a job id."""


@click.command("anonymise", cls=JsonCommand, document="arnold.commands.anonymise:AnonymiseDocument")
@click.argument("trace", type=FILE)
@file_option("--output", written=True, required=True, help="File to write the trace to, in the same format.")
@file_option(
    "--key-file", help="File with any secret; the same one gives the same pseudonyms.  [default: a new secret]"
)
def command(*, trace: str, output: str, key_file: str | None) -> None:
    """Replace users, groups and job names in a trace of jobs, or a snapshot of a cluster, by pseudonyms.

    Of a trace nothing else changes. A snapshot has pseudonyms of nodes and domains, too; it keeps the topology, what is
    in use, jobs, flags and the time, and of nodes that anything keeps out that they are. Else TRACE is what sacct
    prints (--parsable2 or --json), Philly's JSON, JSON lines, or a CSV with a header. Paths, command lines and
    comments, which repeat names, become pseudonyms as a whole. Without --key-file the key is thrown away.

    $ arnold anonymise sacct.log --output jobs.log
    $ arnold anonymise sacct.json --output jobs.json --key-file key
    $ arnold anonymise monday.json --output cluster.json --key-file key
    """
    from simulator.traces.pseudonyms import Pseudonyms, anonymised, anonymised_snapshot, still_named
    from topology.load import load_topology
    from topology.snapshot import ClusterSnapshot

    key = read_bytes(key_file, max_bytes=MAX_KEY)[1].strip() if key_file else token_bytes(32)
    if not key:
        raise InvalidInput("the key is empty", where=key_file or "", fix="write a secret of some 30 characters into it")
    pseudonyms = Pseudonyms(key)
    source = read_source(trace)
    if ClusterSnapshot().likeness(source.head) == 1.0:
        made = anonymised_snapshot(load_topology(source), pseudonyms)
    else:
        made = anonymised(source, pseudonyms)
    write_file(output, made)
    document = AnonymiseDocument(
        output=output,
        replaced=pseudonyms.counts(),
        kept_key=key_file is not None,
        still_named=still_named(made, pseudonyms),
    )

    def show(out: Console, document: AnonymiseDocument) -> None:
        nouns = {"job": "job name", "text": "other text"}
        parts = ", ".join(plural(count, nouns.get(kind, kind)) for kind, count in document.replaced.items())
        out.print(f"{document.output}: {parts} became pseudonyms.")
        if document.still_named:
            names = few(document.still_named, most=SHOWN)
            out.print(f"Look before you give it away: something that was kept is called after {names}.", markup=False)
        if not document.kept_key:
            out.print("The key is not kept: another run gives other pseudonyms; --key-file keeps them.")

    answer(document, show)
