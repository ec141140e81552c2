"""A change of a flag store, made and shown: shared by all commands that change one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from arnold.commands.flags.text import print_events
from arnold.commands.output import console, emit_json

if TYPE_CHECKING:
    from arnold.documents.store_answers import RecordDocument
    from health.flags import Ledger, Recorded


def changed(
    store: str, change: Callable[[Ledger], Recorded], *, now: datetime, create: bool = True, torn: int = 0
) -> RecordDocument:
    """Change a store, and return what was done.

    :param create: make the store if it is not there.
    :param torn: bytes of the input that were left out.
    """
    from arnold.documents.store_answers import RecordDocument, written
    from health.flags import open_ledger
    from health.flags.store import MAX_STORE_BYTES, store_size

    with open_ledger(store, now=now, create=create) as ledger:
        recorded = change(ledger)
        flagged = len(ledger.holding(now))
    return RecordDocument(
        store=store,
        events=written(recorded.events),
        known=recorded.known,
        over=recorded.over,
        early=recorded.early,
        flagged=flagged,
        torn=torn,
        size=store_size(store),
        most=MAX_STORE_BYTES,
    )


def print_recorded(document: RecordDocument, *, as_json: bool) -> None:
    """Print what was done."""
    if as_json:
        emit_json(document)
        return
    out = console()
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
