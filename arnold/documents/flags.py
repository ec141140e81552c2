"""JSON of ``arnold flags``: the health flags of a Kubernetes cluster's nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from arnold.documents.common import Document
from topology.flags import FAULTY

if TYPE_CHECKING:
    from extender.node_flags import Change, FlaggedNode


class FlagDoc(Document):
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


class ChangeDoc(Document):
    """What was done to one node."""

    node: str
    """Name of the node."""
    done: Literal["applied", "cleared", "unchanged"]
    """What was done."""
    slowdown: str | None
    """Its annotation arnold.dev/slowdown now."""
    until: str | None
    """Its annotation arnold.dev/slowdown-until now."""
    before: str | None
    """Its annotation arnold.dev/slowdown before."""


class FlagsDocument(Document):
    """What ``arnold flags list --json`` prints."""

    nodes: int
    """Nodes of the cluster."""
    flags: list[FlagDoc]
    """Nodes with annotations of ours, by name."""


class FlagsChangedDocument(Document):
    """What ``arnold flags apply --json`` and ``arnold flags clear --json`` print."""

    changes: list[ChangeDoc]
    """One entry for each node that was asked for, by name."""
    expired: int
    """Flags of the file that do not hold now and were left out."""


class FlagsSyncedDocument(Document):
    """What ``arnold flags sync --json`` prints."""

    changes: list[ChangeDoc]
    """One entry for each node of the cluster that the store has heard of, by name."""
    strangers: list[str]
    """Nodes that the store has flagged and the cluster does not have."""


def flags_document(nodes: Mapping[str, FlaggedNode], now: datetime) -> FlagsDocument:
    """The flags of a cluster."""
    flagged = [_flag_doc(node, now) for _, node in sorted(nodes.items()) if not node.bare]
    return FlagsDocument(nodes=len(nodes), flags=flagged)


def changes_document(
    changes: Sequence[Change], *, done: Literal["applied", "cleared"], expired: int = 0
) -> FlagsChangedDocument:
    """What was done."""
    return FlagsChangedDocument(changes=[_change_doc(change, done) for change in changes], expired=expired)


def sync_document(changes: Sequence[Change], strangers: Sequence[str]) -> FlagsSyncedDocument:
    """What was done to bring annotations in line with a store."""
    return FlagsSyncedDocument(
        changes=[_change_doc(change, "cleared" if change.after.bare else "applied") for change in changes],
        strangers=list(strangers),
    )


def _change_doc(change: Change, done: Literal["applied", "cleared"]) -> ChangeDoc:
    return ChangeDoc(
        node=change.after.node,
        done=done if change.changed else "unchanged",
        slowdown=change.after.slowdown,
        until=change.after.until,
        before=change.before.slowdown,
    )


def _flag_doc(node: FlaggedNode, now: datetime) -> FlagDoc:
    flag = node.flag
    return FlagDoc(
        node=node.node,
        slowdown=node.slowdown,
        until=node.until,
        faulty=flag is not None and flag.slowdown == FAULTY and flag.active(now),
        active=flag is not None and flag.active(now),
        problem=node.problem or None,
    )
