"""Pieces that several JSON documents share.  Field docstrings become the descriptions of ``arnold schema``."""

from __future__ import annotations

from datetime import datetime
from math import isfinite
from typing import Any

from pydantic import BaseModel, ConfigDict

from scheduler.job import Job
from topology.cluster import Cluster
from topology.flags import HEALTHY, FlagKind, NodeFlag


class Document(BaseModel):
    """Base of all JSON output: nothing undocumented, every number finite, descriptions from docstrings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


class NodeFlagDoc(Document):
    """A flag, as it stands in a flag file (``--flags`` of ``arnold place``)."""

    node: str
    """Name of the node."""
    kind: FlagKind
    """straggler (slow), degraded (slow, cause known) or faulty (never use)."""
    slowdown: float | None
    """Factor on compute time; null for a faulty node."""
    score: float | None
    """Strength of the evidence, in the unit of the source."""
    source: str
    """Who says so."""
    since: datetime | None
    """When it began; null = unknown."""
    until: datetime | None
    """When it ends; null = open."""
    evidence: str
    """Why, in a sentence."""


def flag_doc(flag: NodeFlag) -> NodeFlagDoc:
    """A flag as it stands in a flag file."""
    return NodeFlagDoc(**flag_fields(flag))


def flag_fields(flag: NodeFlag) -> dict[str, Any]:
    """The fields of a flag, with what JSON has for infinity."""
    return {
        "node": flag.node,
        "kind": flag.kind,
        "slowdown": flag.slowdown if isfinite(flag.slowdown) else None,
        "score": flag.score,
        "source": flag.source,
        "since": flag.since,
        "until": flag.until,
        "evidence": flag.evidence,
    }


def flag_docs(cluster: Cluster, job: Job) -> tuple[NodeFlagDoc, ...]:
    """Flags of the nodes that the job could use if nothing were held against them, by node."""
    usable = (cluster.gpus == job.gpus_per_node) & (cluster.free_gpus == cluster.gpus)
    flagged = [flag for i, flag in cluster.flags.items() if usable[i] and flag.slowdown > HEALTHY]
    return tuple(flag_doc(flag) for flag in sorted(flagged, key=lambda flag: flag.node))
