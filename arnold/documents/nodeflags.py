"""A file of node flags as detectors write it; ``--flags FILE`` of `arnold place` reads it back."""

from __future__ import annotations

from collections.abc import Iterable

from arnold.documents.common import Document, NodeFlagDoc, flag_doc
from topology.flags import NodeFlag


class FlagFile(Document):
    """What ``--flags-out`` writes."""

    flags: list[NodeFlagDoc]
    """Flags by node."""


def node_flag_docs(flags: Iterable[NodeFlag]) -> list[NodeFlagDoc]:
    """Flags by name of their node."""
    return [flag_doc(flag) for flag in sorted(flags, key=lambda flag: flag.node)]
