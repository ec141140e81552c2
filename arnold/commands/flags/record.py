"""``arnold flags record``, ``lift`` and ``compact``: what changes a flag store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from arnold.commands.flags.store_commands import changed, print_recorded, stamp_of, store_option
from arnold.console.output import answer
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE, file_option
from arnold.options.shared_options import CLUSTER_HELP, at_option, present, yes_option
from ground.errors import InvalidInput
from ground.files import read_source

if TYPE_CHECKING:
    from rich.console import Console

    from health.flags.ledger import Compaction

ANSWERS = "arnold.documents.store_answers"

RECORD_EXAMPLES = """\b
Examples:
  arnold flags record --store flags.db slow.json
  arnold stragglers job.parquet --meta job.yaml --node-map nodes.txt --json | arnold flags record --store flags.db -
  arnold flags record --store flags.db --rules rules.yaml slow.json
"""

LIFT_EXAMPLES = """\b
Examples:
  arnold flags lift n0123 --store flags.db --because 'GPU 3 replaced, burn-in passed'
  arnold flags lift 'n[0017-0020]' --store flags.db --because 'false alarm: maintenance of the switch'
"""

COMPACT_EXAMPLES = """\b
Examples:
  arnold flags compact --store flags.db
  arnold flags compact --store flags.db --keep 26w --archive flags-2026-11.db
  arnold flags why n0123 --store flags-2026-11.db --at 2026-03-02
"""


@click.command("record", cls=JsonCommand, document=f"{ANSWERS}:RecordDocument", epilog=RECORD_EXAMPLES)
@click.argument("files", nargs=-1, type=FILE, metavar="[FLAGFILE]...")
@store_option
@file_option("--rules", help="When flags begin and end, YAML; kept in the store.  [default: those of the store]")
@file_option("--cluster", help=CLUSTER_HELP)
@yes_option
@at_option
def record(
    *,
    as_json: bool,
    files: tuple[str, ...],
    store: str,
    rules: str | None,
    cluster: str | None,
    yes: bool,
    at: str | None,
) -> None:
    """Take findings of detectors into a flag store, which is made if it is not there.

    FLAGFILE is a list of flags, as --flags of `arnold place`; - is stdin. A slowdown of 1 says that the node is healthy
    again. A file that has not changed since it was recorded counts once. Without FLAGFILE only the ends of flags
    that are over are recorded. A run that leaves more than a quarter of --cluster, half of one of its domains, or
    without --cluster more than four nodes out of use, is refused unless --yes is given.
    """
    from arnold.options.cluster_options import ClusterFiles
    from health.flags.ledger import Ledger, Recorded
    from health.flags.rules import read_rules
    from topology.flag_store import Breaker, read_flags

    now = present(at)
    breaker = None if yes else Breaker(cluster=None if cluster is None else ClusterFiles(cluster).read().cluster)
    governing = None if rules is None else read_rules(read_source(rules))
    findings = [(read_flags(file, now=now), stamp_of(file)) for file in files]

    def change(ledger: Ledger) -> Recorded:
        over = [] if governing is None else ledger.govern(governing, now)
        batches = (ledger.record(flags, now=now, stamp=stamp) for flags, stamp in findings)
        return sum(batches, Recorded((*over, *ledger.settle(now))))

    answer(changed(store, change, now=now, breaker=breaker), print_recorded, as_json=as_json)


@click.command("lift", cls=JsonCommand, document=f"{ANSWERS}:RecordDocument", epilog=LIFT_EXAMPLES)
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@store_option
@click.option("--because", required=True, metavar="TEXT", help="Reason, which `arnold flags why` shows later.")
@click.option("--by", metavar="NAME", help="Name of the person who lifts the flags.  [default: the user's name]")
@at_option
def lift(*, as_json: bool, nodes: tuple[str, ...], store: str, because: str, by: str | None, at: str | None) -> None:
    """End the flags of nodes at once, whatever the sources say: names or Slurm hostlists.

    What detectors find afterwards flags them again.
    """
    from health.flags.ledger import Ledger, Recorded
    from topology.node_names import expand_hostlist

    now = present(at)
    names = [name for text in nodes for name in expand_hostlist(text, where="NODE")]
    who = _user() if by is None else by

    def change(ledger: Ledger) -> Recorded:
        events = ledger.lift(names, now=now, because=because, by=who)
        if strangers := sorted({*names} - {event.node for event in events if event.by}):
            raise InvalidInput(
                f"the store holds nothing against {', '.join(strangers[:5])}",
                where="NODE",
                fix="see `arnold flags show` for the nodes that are flagged",
            )
        return Recorded(tuple(events))

    answer(changed(store, change, now=now, create=False), print_recorded, as_json=as_json)


@click.command("compact", cls=JsonCommand, document="health.flags.ledger:Compaction", epilog=COMPACT_EXAMPLES)
@store_option
@click.option(
    "--keep",
    default="90d",
    show_default=True,
    metavar="DURATION",
    help="Age up to which history stays whole: 12h, 90d, 26w.",
)
@file_option("--archive", written=True, help="File to write the whole store to first, as it was.")
def compact(*, as_json: bool, store: str, keep: str, archive: str | None) -> None:
    """Forget old history, so that a store does not grow for ever.

    Flags that hold, rules, relapses and all history since then stay; of the time before only what they depend on. Run
    it from a timer, beside the detectors: it waits for other writers.
    """
    from health.flags.ledger import compact_store
    from health.flags.rules import parse_duration

    try:
        before = datetime.now(UTC) - parse_duration(keep)
    except ValueError as error:
        raise InvalidInput(str(error), where="--keep", fix="write a time such as 12h, 90d or 26w") from error
    done = compact_store(store, before, archive=archive)
    answer(done, lambda out, shown: _print_compacted(out, shown, before, archive), as_json=as_json)


def _print_compacted(out: Console, done: Compaction, before: datetime, archive: str | None) -> None:
    if not done.dropped:
        out.print(f"nothing to forget: no event of before {before:%Y-%m-%d %H:%M} UTC can go")
        return
    out.print(f"forgotten: {done.dropped:,} events of before {before:%Y-%m-%d %H:%M} UTC; {done.kept:,} are left")
    out.print(f"{done.size_before / 1e6:.3g} MB before, {done.size / 1e6:.3g} MB now")
    if archive is not None:
        out.print(f"{archive} has the store as it was")


def _user() -> str:
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):
        return "somebody"
