"""Flags and events of a store as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from arnold.commands.output import plain, table

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.documents.common import NodeFlagDoc
    from arnold.documents.flag_store import EventDoc

LONGEST = 60
"""Most rows of a table on a terminal; --json has them all."""


def print_events(out: Console, events: Sequence[EventDoc], *, title: str) -> None:
    """Lines of a store, the last ones where there are too many; nothing when there are none."""
    if not events:
        return
    left = ["", "node", "source", "slowdown", "why"]
    rows = table("time", "", "node", "source", "slowdown", "why", title=title, left=left)
    for event in events[-LONGEST:]:
        about = event.flag or event.finding
        why = event.because + (f" (by {event.by})" if event.by else "")
        if about is not None and about.evidence:
            why += f": {about.evidence}"
        rows.add_row(minute(event.time), event.event, plain(event.node), plain(event.source), factor(about), plain(why))
    out.print(rows)
    if len(events) > LONGEST:
        out.print(f"... and {len(events) - LONGEST} before; --json shows all")


def factor(flag: NodeFlagDoc | None) -> str:
    """``1.5``, ``faulty``, or a dash."""
    if flag is None:
        return "-"
    return "faulty" if flag.slowdown is None else f"{flag.slowdown:.4g}"


def minute(time: datetime | None) -> str:
    """``2026-11-17 14:20Z``, or a dash."""
    return "-" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M}Z"
