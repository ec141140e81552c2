"""JSON of ``arnold topology``: what was read, what was written, what is worth knowing."""

from __future__ import annotations

import numpy as np

from arnold.documents.common import ClusterDoc, Document, cluster_doc
from topology.capacity import count_nodes
from topology.cluster import ROOT, Cluster
from topology.readers import LoadedTopology
from topology.validate import summarise, warnings


class LevelDoc(Document):
    """A level in numbers."""

    name: str
    """Name of the level."""
    domains: int
    """How many domains it has."""
    smallest: int
    """Nodes of its smallest domain."""
    median: float
    """Nodes of its median domain."""
    largest: int
    """Nodes of its largest domain."""
    implicit_nodes: int
    """Nodes without a domain of this level; they hang on a broader switch."""


class DomainDoc(Document):
    """A domain and what it holds."""

    level: str
    """Its level."""
    name: str
    """Its name, unique in its level."""
    parent: str | None
    """The domain one level broader; null for the broadest level."""
    nodes: int
    """Nodes in it."""
    free: int
    """Nodes in it that are idle and not faulty."""


class _ReadDocument(Document):
    format: str
    """Format of the file that was read."""
    cluster: ClusterDoc
    """The cluster in a few numbers."""
    notes: list[str]
    """What the reader had to decide or leave out."""


class ConvertDocument(_ReadDocument):
    """What ``arnold topology convert --json`` prints."""

    to: str
    """Format that was written."""
    output: str | None
    """The file that was written; null = none, the text is here."""
    text: str | None
    """The cluster in the new format; null = it is in the file."""
    losses: list[str]
    """What the new format could not carry, or only under another name."""


class ShowDocument(_ReadDocument):
    """What ``arnold topology show --json`` prints."""

    output: str | None
    """The drawing that was written; null = none."""
    domains: list[DomainDoc]
    """All domains, level by level from the broadest; those that stand for nodes on a broader switch left out."""


class ValidateDocument(_ReadDocument):
    """What ``arnold topology validate --json`` prints for a valid file."""

    levels: list[LevelDoc]
    """Levels, from the broadest to the closest."""
    warnings: list[str]
    """What is allowed and may not be meant."""


def convert_document(
    topology: LoadedTopology, source: str, *, to: str, output: str | None, text: str | None, losses: tuple[str, ...]
) -> ConvertDocument:
    """The document of a conversion."""
    return ConvertDocument(
        format=topology.format,
        cluster=cluster_doc(topology.cluster, source),
        notes=list(topology.notes),
        to=to,
        output=output,
        text=text,
        losses=list(losses),
    )


def show_document(topology: LoadedTopology, source: str, *, output: str | None) -> ShowDocument:
    """The document of a drawing."""
    return ShowDocument(
        format=topology.format,
        cluster=cluster_doc(topology.cluster, source),
        notes=list(topology.notes),
        output=output,
        domains=_domain_docs(topology.cluster),
    )


def validate_document(topology: LoadedTopology, source: str) -> ValidateDocument:
    """The document of a valid file."""
    return ValidateDocument(
        format=topology.format,
        cluster=cluster_doc(topology.cluster, source),
        notes=list(topology.notes),
        levels=[
            LevelDoc(
                name=level.name,
                domains=level.domains,
                smallest=level.smallest,
                median=level.median,
                largest=level.largest,
                implicit_nodes=level.implicit_nodes,
            )
            for level in summarise(topology.cluster)
        ],
        warnings=warnings(topology.cluster),
    )


def _domain_docs(cluster: Cluster) -> list[DomainDoc]:
    everything = np.ones(len(cluster), dtype=np.bool_)
    docs = []
    for depth, level in enumerate(cluster.levels):
        broader = cluster.levels[depth - 1].domains if depth else None
        nodes, free = count_nodes(level, everything).tolist(), count_nodes(level, cluster.idle).tolist()
        for k, name in enumerate(level.domains):
            if level.implicit[k]:
                continue
            parent = broader[level.parent_of[k]] if broader is not None else ROOT
            docs.append(
                DomainDoc(
                    level=level.name,
                    name=name,
                    parent=None if parent == ROOT else parent,
                    nodes=nodes[k],
                    free=free[k],
                )
            )
    return docs
