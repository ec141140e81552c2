"""Answers of ``arnold topology``: what was read, what was written, what is worth knowing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import numpy as np

from arnold.console.output import Console, is_quiet, print_rows
from ground.quantities import plural
from ground.records import JsonRecord
from topology.cluster import ROOT, count_nodes
from topology.load import LoadedTopology
from topology.summary import ClusterSummary, LevelSummary, summarise, summarise_cluster, summarise_second, warnings
from topology.writers import Rendering


class ReadCluster(JsonRecord, kw_only=True):
    """What was read of a cluster file."""

    format: str
    """Format of the file that was read."""
    cluster: ClusterSummary
    """The cluster in a few numbers."""
    notes: tuple[str, ...]
    """What the reader had to decide or leave out."""


class ConvertDocument(ReadCluster, kw_only=True):
    """What ``arnold topology convert --json`` prints."""

    to: str
    """Format that was written."""
    output: str | None
    """The file that was written; null = none, the text is here."""
    text: str | None
    """The cluster in the new format; null = it is in the file."""
    losses: tuple[str, ...]
    """What the new format could not carry, or only under another name."""


class DomainSummary(JsonRecord):
    """A domain and what it holds."""

    level: str
    """Its level."""
    name: str
    """Its name, unique in its level."""
    parent: str | None
    """The domain one level broader; null for the broadest level, and for second hierarchies."""
    nodes: int
    """Nodes in it."""
    free: int
    """Nodes in it that are idle and not faulty."""


class ShowTopologyDocument(ReadCluster, kw_only=True):
    """What ``arnold topology show --json`` prints."""

    output: str | None
    """The drawing that was written; null = none."""
    domains: tuple[DomainSummary, ...]
    """All domains, or those of ``--depth`` levels, from the broadest, then those of second hierarchies; those that
    stand for nodes on a broader switch, or in none, left out."""


class ValidateDocument(ReadCluster, kw_only=True):
    """What ``arnold topology validate --json`` prints for a valid file."""

    levels: tuple[LevelSummary, ...]
    """Levels, from the broadest to the closest."""
    second_levels: tuple[LevelSummary, ...]
    """Second hierarchies, beside the tree: power, failure domains."""
    warnings: tuple[str, ...]
    """What is allowed and may not be meant."""


def convert_document(topology: LoadedTopology, rendering: Rendering, *, to: str, output: str | None) -> ConvertDocument:
    """Return the document of a conversion; it has the text where no file has it."""
    text = rendering.text if output is None else None
    return ConvertDocument(**_read(topology), to=to, output=output, text=text, losses=rendering.notes)


def show_document(topology: LoadedTopology, *, output: str | None, depth: int | None = None) -> ShowTopologyDocument:
    """Return the document of a drawing with the domains of ``depth`` levels; ``None`` = of all."""
    cluster = topology.cluster
    everything = np.ones(len(cluster), dtype=np.bool_)
    domains: list[DomainSummary] = []
    broader: tuple[str, ...] = ()
    for level in (*cluster.levels[:depth], *cluster.second_levels):
        broader = () if level in cluster.second_levels else broader
        nodes, free = count_nodes(level, everything).tolist(), count_nodes(level, cluster.idle).tolist()
        for k, name in enumerate(level.domains):
            parent = broader[level.parent_of[k]] if broader else ROOT
            if not level.implicit[k]:
                domains.append(DomainSummary(level.name, name, None if parent == ROOT else parent, nodes[k], free[k]))
        broader = tuple(level.domains)
    return ShowTopologyDocument(**_read(topology), output=output, domains=tuple(domains))


def validate_document(topology: LoadedTopology) -> ValidateDocument:
    """Return the document of a valid file."""
    cluster = topology.cluster
    return ValidateDocument(
        **_read(topology),
        levels=tuple(summarise(cluster)),
        second_levels=tuple(summarise_second(cluster)),
        warnings=tuple(warnings(cluster)),
    )


def _read(topology: LoadedTopology) -> dict[str, Any]:
    """Return the fields of :class:`ReadCluster`."""
    cluster = summarise_cluster(topology.cluster, topology.source)
    return {"format": topology.format, "cluster": cluster, "notes": topology.notes}


def print_validation(out: Console, document: ValidateDocument) -> None:
    """Print what was understood of a valid file."""
    cluster = document.cluster
    name = cluster.source if cluster.source != "-" else "standard input"
    out.print(f"{name}: valid {document.format}", style="bold green")
    out.print(f"{cluster.nodes:,} nodes, {cluster.free:,} free, {cluster.flagged:,} flagged")
    held = {"faulty": cluster.faulty, **cluster.kept_out}
    if any(held.values()):
        line = ", ".join(f"{count:,} {why}" for why, count in held.items() if count)
        out.print(line, soft_wrap=True, markup=False)
    if types := types_of_gpu(cluster.gpu_types):
        out.print(types, soft_wrap=True, markup=False)
    rows = [
        (level.name, f"{level.domains:,}", f"{level.smallest:,}", f"{level.median:,g}", f"{level.largest:,}")
        for level in document.levels
    ]
    headers = ("level", "domains", "smallest", "median", "largest")
    print_rows(out, headers, rows, title="Levels, nodes in a domain", gap=False)
    for line in beside_the_tree(document.second_levels):
        out.print(line, soft_wrap=True, markup=False)
    print_notes(document.notes)
    print_notes(document.warnings, word="Warning")


def beside_the_tree(levels: Sequence[LevelSummary]) -> Iterator[str]:
    """Yield a line for each second hierarchy."""
    for level in levels:
        sizes = f"{level.smallest:,} to {level.largest:,} nodes" if level.domains else "no nodes"
        alone = f"; {plural(level.implicit_nodes, 'node')} in none" if level.implicit_nodes else ""
        yield f"{level.name}, beside the tree: {plural(level.domains, 'domain')} of {sizes}{alone}"


def types_of_gpu(nodes: Mapping[str, int]) -> str:
    """Return nodes of each type of GPU as a line; empty where no type is said."""
    listed = [f"{name} on {plural(count, 'node')}" for name, count in nodes.items()]
    return f"GPUs: {', '.join(listed)}" if listed else ""


def print_notes(notes: Sequence[str], *, word: str = "Note", err: bool = False) -> None:
    """Print notes; those on standard error unless the run is to be quiet."""
    for sentence in () if err and is_quiet() else notes:
        click.echo(f"{word}: {sentence}".encode(errors="replace"), err=err)
