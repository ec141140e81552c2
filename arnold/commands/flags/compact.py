"""``arnold flags compact``: a flag store without its old history."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from arnold.commands.command import JsonCommand
from arnold.commands.field_options import FILE
from arnold.commands.flags.options import store_option
from arnold.commands.output import console, emit_json
from topology.errors import InvalidInput

EXAMPLES = """\b
Examples:
  arnold flags compact --store flags.db
  arnold flags compact --store flags.db --keep 26w --archive flags-2026-11.db
  arnold flags why n0123 --store flags-2026-11.db --at 2026-03-02
"""


@click.command("compact", cls=JsonCommand, document="health.flags.store:Compaction", epilog=EXAMPLES)
@store_option
@click.option(
    "--keep", default="90d", show_default=True, metavar="TIME", help="History that stays whole: 12h, 90d, 26w."
)
@click.option("--archive", type=FILE, metavar="FILE", help="Write the whole store as it was here first.")
def compact(*, as_json: bool, store: str, keep: str, archive: str | None) -> None:
    """Forget old history, so that a store does not grow for ever.

    Flags that hold, rules, relapses and all history since then stay; of the time before only what they depend on. Run
    it from a timer, beside the detectors: it waits for whoever writes.
    """
    from health.flags.rules import parse_duration
    from health.flags.store import compact_store

    try:
        before = datetime.now(UTC) - parse_duration(keep)
    except ValueError as error:
        raise InvalidInput(str(error), where="--keep", fix="write a time such as 12h, 90d or 26w") from error
    done = compact_store(store, before, archive=archive)
    if as_json:
        emit_json(done)
        return
    out = console()
    if not done.dropped:
        out.print(f"nothing to forget: no event of before {before:%Y-%m-%d %H:%M} UTC can go")
        return
    out.print(f"forgotten: {done.dropped:,} events of before {before:%Y-%m-%d %H:%M} UTC; {done.kept:,} are left")
    out.print(f"{done.size_before / 1e6:.3g} MB before, {done.size / 1e6:.3g} MB now")
    if archive is not None:
        out.print(f"{archive} has the store as it was")
