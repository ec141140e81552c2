"""What commands about a flag store share: its option, a change of it made and shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from arnold.console.output import plain, print_rows
from arnold.options.field_options import file_option
from arnold.options.shared_options import STORE_HELP

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.documents.store_answers import RecordDocument, WrittenEvent
    from health.flags.ledger import Ledger, Recorded
    from topology.flag_store import Breaker
    from topology.flags import NodeFlag


F = TypeVar("F", bound=Callable[..., Any])


def store_option(function: F) -> F:
    """Give a command ``--store``."""
    option = file_option("--store", required=True, help=STORE_HELP)
    return option(function)


def stamp_of(file: str) -> str:
    """Return what tells this version of a file from another; empty for standard input, which is always new."""
    return "" if file == "-" else str(Path(file).stat().st_mtime_ns)


LONGEST = 60  # Most rows of a table on a terminal; --json has them all


def print_events(out: Console, events: Sequence[WrittenEvent], *, title: str) -> None:
    """Print events of a store, the last ones where there are too many; nothing when there are none."""
    rows = []
    for event in events[-LONGEST:]:
        about = event.flag or event.finding
        why = event.because + (f" (by {event.by})" if event.by else "")
        if about is not None and about.evidence:
            why += f": {about.evidence}"
        what = (event.event, plain(event.node), plain(event.source), factor(about), plain(why))
        rows.append((minute(event.time), *what))
    headers = ("time", "", "node", "source", "slowdown", "why")
    print_rows(out, headers, rows, title=title, left=headers, gap=False)
    if len(events) > LONGEST:
        out.print(f"... and {len(events) - LONGEST} before; --json shows all")


def factor(flag: NodeFlag | None) -> str:
    """Return ``1.5``, ``faulty``, or a dash."""
    if flag is None:
        return "-"
    return "faulty" if flag.kind == "faulty" else f"{flag.slowdown:.4g}"


def minute(time: datetime | None) -> str:
    """Return ``2026-11-17 14:20Z``, or a dash."""
    return "-" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M}Z"


def changed(
    store: str,
    change: Callable[[Ledger], Recorded],
    *,
    now: datetime,
    create: bool = True,
    torn: int = 0,
    breaker: Breaker | None = None,
) -> RecordDocument:
    """Change a store, and return what was done.

    :param torn: bytes of the input that were left out.
    :param breaker: what the change may take out of use; a store that would hold more stays as it was.
    """
    from arnold.documents.store_answers import RecordDocument, written
    from health.flags.ledger import MAX_STORE_BYTES, open_ledger, store_size

    with open_ledger(store, now=now, create=create) as ledger:
        out = {flag.node for flag in ledger.holding(now) if flag.kind == "faulty"}
        recorded = change(ledger)
        held = ledger.holding(now)
        if breaker is not None:
            breaker.check(held, before=out & {flag.node for flag in held}, where=store)
    return RecordDocument(
        store=store,
        events=written(recorded.events),
        known=recorded.known,
        over=recorded.over,
        early=recorded.early,
        flagged=len(held),
        torn=torn,
        size=store_size(store),
        most=MAX_STORE_BYTES,
    )


def print_recorded(out: Console, document: RecordDocument) -> None:
    """Print what was done."""
    print_events(out, document.events, title="Written")
    if not document.events:
        out.print("nothing new")
    left_out = {
        "known already": document.known,
        "left out, as they have ended": document.over,
        "left out, as they begin later": document.early,
    }
    for words, count in left_out.items():
        if count:
            out.print(f"findings {words}: {count}")
    if document.torn:
        out.print(f"left out: {document.torn} bytes of a line that a writer had not finished")
    out.print(f"nodes flagged now: {document.flagged}")
    if document.size > document.most / 2:
        share = f"{document.size / 2**20:.0f} of {document.most / 2**20:.0f} MB"
        out.print(f"the store has {share}: `arnold flags compact` forgets old history", style="yellow")
