"""JSON of ``arnold health peers``, ``watch`` and ``order``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from arnold.documents.common import Document, NodeFlagDoc
from arnold.documents.error import ErrorDoc, error_document
from arnold.documents.flag_store import RecordDocument
from arnold.documents.nodeflags import node_flag_docs
from health.peers import Examined, Stretch, Verdict
from health.peers.watch import Round


class StretchDoc(Document):
    """A machine that stood out for a while in one metric."""

    machine: str
    """Name of the machine."""
    start: float
    """Beginning of its first window, seconds on the clock of the recording."""
    end: float
    """End of its last window."""
    alert: float | None
    """When it had lasted long enough; null = it never had."""
    score: float
    """How many times farther it was from its peers than they were from each other, median over its windows."""
    own: float
    """Its median value meanwhile, in the metric's unit."""
    peers: float
    """Its peers' median value meanwhile."""
    lasting: bool
    """It went on to the end of the recording."""
    late: float | None
    """Seconds by which it follows its peers, where that alone makes it stand out, which is no alert."""
    doubt: Literal["busier", "idle-peers", "many"] | None
    """Why it is no alert although it lasted long enough: it works more than its peers, which is no fault; its peers
    idle; or so many machines stand out that they are no peers. null = it is one, or did not last.
    """


class ExaminedDoc(Document):
    """What was seen in one metric."""

    metric: str
    """Name of the metric."""
    machines: int
    """Machines with samples of it."""
    step: float
    """Seconds between samples."""
    needed: float
    """Seconds for which a machine has to stand out."""
    stretches: list[StretchDoc]
    """Machines that stood out, the longest first; at most five."""
    silent: list[str]
    """Machines that had fallen silent by the end; they are not judged on it."""


class PeersDocument(Document):
    """What ``arnold health peers --json`` prints."""

    verdict: str
    """What was found, in words."""
    source: str
    """What was read."""
    machines: int
    """How many machines were compared."""
    metrics: list[ExaminedDoc]
    """Metrics in the order in which they were examined; those after the first alert are not."""
    flags: list[NodeFlagDoc]
    """What follows for the scheduler."""
    notes: list[str]
    """What was left out, and what limits the verdict."""


class WatchDocument(Document):
    """One line of what ``arnold health watch --json`` prints: one round."""

    at: datetime
    """When the round began."""
    verdict: str | None
    """What was found, in words; null = nothing could be judged."""
    machines: int
    """How many machines were compared."""
    flags: list[NodeFlagDoc]
    """All flags that hold, earlier ones that have not run out among them."""
    notes: list[str]
    """What was left out, and what limits the verdict."""
    error: ErrorDoc | None
    """Why nothing could be judged; null = it could."""
    recorded: RecordDocument | None
    """What was written to --store; null = no such option, or nothing could be judged."""


class OrderDocument(Document):
    """What ``arnold health order --json`` prints."""

    order: list[str]
    """Metrics, the one to be asked first at the head."""
    windows: int
    """Windows that were learnt from."""
    faulty: int
    """How many of them had a fault."""


def peers_document(verdict: Verdict, source: str) -> PeersDocument:
    """The document of a verdict."""
    return PeersDocument(
        verdict=verdict.headline,
        source=source,
        machines=verdict.machines,
        metrics=[_examined(one) for one in verdict.examined],
        flags=node_flag_docs(verdict.flags),
        notes=list(verdict.notes),
    )


def watch_document(made: Round, recorded: RecordDocument | None) -> WatchDocument:
    """The document of a round, and of what it wrote to a flag store."""
    verdict = made.verdict
    return WatchDocument(
        at=made.at,
        verdict=verdict.headline if verdict else None,
        machines=verdict.machines if verdict else 0,
        flags=node_flag_docs(made.flags),
        notes=list(verdict.notes) if verdict else [],
        error=error_document(made.error).error if made.error else None,
        recorded=recorded,
    )


def order_document(order: Sequence[str], windows: int, faulty: int) -> OrderDocument:
    """The document of an order."""
    return OrderDocument(order=list(order), windows=windows, faulty=faulty)


def _examined(one: Examined) -> ExaminedDoc:
    return ExaminedDoc(
        metric=one.metric,
        machines=one.machines,
        step=one.step,
        needed=one.needed,
        stretches=[_stretch(stretch) for stretch in one.stretches[:5]],
        silent=list(one.silent),
    )


def _stretch(one: Stretch) -> StretchDoc:
    return StretchDoc(
        machine=one.machine,
        start=one.start,
        end=one.end,
        alert=one.alert,
        score=one.score,
        own=one.own,
        peers=one.peers,
        lasting=one.lasting,
        late=one.late,
        doubt=one.doubt,
    )
