"""A change of a flag store, made and shown: shared by all commands that change one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from arnold.commands.flags.text import print_events
from arnold.commands.output import console, emit_json

if TYPE_CHECKING:
    from arnold.documents.flag_store import RecordDocument
    from health.flags import Ledger, Recorded


def changed(store: str, change: Callable[[Ledger], Recorded], *, now: datetime, create: bool = True) -> RecordDocument:
    """Change a store, and say what was done."""
    from arnold.documents.flag_store import record_document
    from health.flags import FlagStore
    from health.flags.store import MAX_STORE_BYTES

    def counted(ledger: Ledger) -> tuple[Recorded, int]:
        recorded = change(ledger)
        return recorded, len(ledger.log.holding(now))

    (recorded, flagged), torn = FlagStore(store).change(counted, now=now, create=create)
    size = Path(store).stat().st_size
    return record_document(store, recorded, flagged=flagged, torn=torn, size=size, most=MAX_STORE_BYTES)


def print_recorded(document: RecordDocument, *, as_json: bool) -> None:
    """What was done."""
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
        out.print(f"taken away: {document.torn} bytes of a line that a writer had not finished")
    out.print(f"nodes flagged now: {document.flagged}")
    if document.size > document.most / 2:
        share = f"{document.size / 2**20:.0f} of {document.most / 2**20:.0f} MB"
        out.print(f"the store has {share}: `arnold flags compact` forgets old history", style="yellow")
