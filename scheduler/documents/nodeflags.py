"""Node flags as detectors print and write them; ``--flags FILE`` of `arnold place` reads them back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from math import isfinite

from scheduler.documents.common import Document
from topology.flags import FlagKind, NodeFlag


class NodeFlagDoc(Document):
    """One finding about one node."""

    node: str
    """Name of the node."""
    kind: FlagKind
    """straggler: slow by a factor; degraded: slow, and the cause is known; faulty: never to be used."""
    slowdown: float | None
    """Factor on compute time, 1.3 = 30 % slower; null = faulty."""
    score: float | None
    """Strength of the evidence, in the detector's own unit."""
    source: str
    """Who says so."""
    since: datetime | None
    """When it began; null = always, or the recording has no dates."""
    until: datetime | None
    """When it ends or ended; null = open."""
    evidence: str
    """Why, in a sentence."""


class FlagFile(Document):
    """What ``--flags-out`` writes."""

    flags: list[NodeFlagDoc]
    """Flags by node."""


def node_flag_docs(flags: Iterable[NodeFlag]) -> list[NodeFlagDoc]:
    """Flags by name of their node."""
    return [
        NodeFlagDoc(
            node=flag.node,
            kind=flag.kind,
            slowdown=flag.slowdown if isfinite(flag.slowdown) else None,
            score=flag.score,
            source=flag.source,
            since=flag.since,
            until=flag.until,
            evidence=flag.evidence,
        )
        for flag in sorted(flags, key=lambda flag: flag.node)
    ]
