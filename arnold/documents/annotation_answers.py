"""JSON of ``arnold flags list``, ``apply``, ``clear`` and ``sync``: annotations of a Kubernetes cluster's nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from extender.node_flags import FlagChange, FlaggedNode
from ground.records import JsonRecord
from topology.flags import FAULTY


@dataclass(frozen=True, slots=True)
class AnnotatedFlag(JsonRecord):
    """The annotations of one node, and what they mean."""

    node: str
    """Name of the node."""
    slowdown: str | None
    """Annotation arnold.dev/slowdown: a factor, or faulty; null = none."""
    until: str | None
    """Annotation arnold.dev/slowdown-until; null = open end."""
    faulty: bool
    """Whether no new pod may use the node because of them."""
    active: bool
    """Whether they hold now."""
    problem: str | None
    """Why they cannot be read; null = they can."""


@dataclass(frozen=True, slots=True)
class FlagsDocument(JsonRecord):
    """What ``arnold flags list --json`` prints."""

    nodes: int
    """Nodes of the cluster."""
    flags: tuple[AnnotatedFlag, ...]
    """Nodes with annotations of ours, by name."""


@dataclass(frozen=True, slots=True)
class FlagsChangedDocument(JsonRecord):
    """What ``arnold flags apply --json`` and ``arnold flags clear --json`` print."""

    changes: tuple[FlagChange, ...]
    """One entry for each node that was asked for, by name."""
    expired: int
    """Flags of the file that do not hold now and were left out."""


@dataclass(frozen=True, slots=True)
class FlagsSyncedDocument(JsonRecord):
    """What ``arnold flags sync --json`` prints."""

    changes: tuple[FlagChange, ...]
    """One entry for each node of the cluster that the store has heard of, by name."""
    strangers: tuple[str, ...]
    """Nodes that the store has flagged and the cluster does not have."""


def flags_document(nodes: Mapping[str, FlaggedNode], now: datetime) -> FlagsDocument:
    """Return the flags of a cluster."""
    flagged = (_annotated_flag(node, now) for _, node in sorted(nodes.items()) if not node.bare)
    return FlagsDocument(len(nodes), tuple(flagged))


def _annotated_flag(node: FlaggedNode, now: datetime) -> AnnotatedFlag:
    flag = node.flag
    active = flag is not None and flag.active(now)
    faulty = active and flag is not None and flag.slowdown == FAULTY
    return AnnotatedFlag(node.node, node.slowdown, node.until, faulty, active, node.problem or None)
