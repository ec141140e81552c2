"""JSON of ``arnold health peers`` and ``watch``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from arnold.documents.error import ErrorDetails, error_document
from arnold.documents.store_answers import RecordDocument
from health.peers import Examined, PeersVerdict
from health.peers.watch import WatchRound
from topology.flags import NodeFlag
from topology.json_record import AwareTime, JsonRecord

MOST_STRETCHES = 5
"""Most machines that are listed for a metric."""


@dataclass(frozen=True, slots=True)
class PeersDocument(JsonRecord):
    """What ``arnold health peers --json`` prints."""

    verdict: str
    """What was found, in words."""
    source: str
    """What was read."""
    machines: int
    """How many machines were compared."""
    metrics: tuple[Examined, ...]
    """Metrics in the order in which they were examined; those after the first alert are not."""
    flags: tuple[NodeFlag, ...]
    """What follows for the scheduler."""
    notes: tuple[str, ...]
    """What was left out, and what limits the verdict."""


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


def peers_document(verdict: PeersVerdict, source: str) -> PeersDocument:
    """Return the document of a verdict."""
    return PeersDocument(
        verdict=verdict.headline,
        source=source,
        machines=verdict.machines,
        metrics=tuple(replace(one, stretches=one.stretches[:MOST_STRETCHES]) for one in verdict.examined),
        flags=_by_node(verdict.flags),
        notes=verdict.notes,
    )


def watch_document(made: WatchRound, recorded: RecordDocument | None) -> WatchDocument:
    """Return the document of a round, and of what it wrote to a flag store."""
    verdict = made.verdict
    return WatchDocument(
        at=made.at,
        verdict=verdict.headline if verdict else None,
        machines=verdict.machines if verdict else 0,
        flags=_by_node(made.flags),
        notes=verdict.notes if verdict else (),
        error=error_document(made.error).error if made.error else None,
        recorded=recorded,
    )


def _by_node(flags: Iterable[NodeFlag]) -> tuple[NodeFlag, ...]:
    return tuple(sorted(flags, key=lambda flag: flag.node))
