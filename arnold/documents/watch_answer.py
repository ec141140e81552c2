"""JSON of ``arnold health watch``."""

from __future__ import annotations

from dataclasses import dataclass

from arnold.console.output import ErrorDetails, error_document
from arnold.documents.store_answers import RecordDocument
from ground.records import AwareTime, JsonRecord
from health.peers.watch import WatchRound
from topology.flags import NodeFlag


@dataclass(frozen=True, slots=True)
class WatchDocument(JsonRecord):
    """One line of what ``arnold health watch --json`` prints: one round."""

    at: AwareTime
    """When the round began."""
    verdict: str | None
    """What was found, in words; null = nothing could be judged."""
    machines: int
    """How many machines were compared."""
    flags: tuple[NodeFlag, ...]
    """All flags that hold, earlier ones that have not run out among them."""
    notes: tuple[str, ...]
    """What was left out, and what limits the verdict."""
    error: ErrorDetails | None
    """Why nothing could be judged; null = it could."""
    recorded: RecordDocument | None
    """What was written to --store; null = no such option, or nothing could be judged."""


def watch_document(made: WatchRound, recorded: RecordDocument | None) -> WatchDocument:
    """Return the document of a round, and of what it wrote to a flag store."""
    verdict = made.verdict
    return WatchDocument(
        at=made.at,
        verdict=verdict.verdict if verdict else None,
        machines=verdict.machines if verdict else 0,
        flags=tuple(sorted(made.flags, key=lambda flag: flag.node)),
        notes=verdict.notes if verdict else (),
        error=error_document(made.error).error if made.error else None,
        recorded=recorded,
    )
