"""JSON of ``arnold formats``, from what every reader says of its format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ground.formats import FileFormat
from ground.quantities import capitalised
from ground.records import JsonRecord


@dataclass(frozen=True, slots=True)
class FormatKind(JsonRecord):
    """The formats of one kind of files."""

    kind: str
    """Clusters, jobs, op-traces, collectives or metrics."""
    used_by: str
    """What they say, and the commands that read them."""
    formats: tuple[FileFormat, ...]
    """The formats, by name."""

    @property
    def sentence(self) -> str:
        """What they say, and the commands that read them, as a sentence."""
        return f"{capitalised(self.used_by)}."


@dataclass(frozen=True, slots=True)
class FormatsDocument(JsonRecord):
    """What ``arnold formats --json`` prints."""

    kinds: tuple[FormatKind, ...]
    """The kinds that were asked for."""


def _clusters() -> Iterable[FileFormat]:
    from topology.readers.reading import TOPOLOGY_READERS

    return TOPOLOGY_READERS.formats()


def _jobs() -> Iterable[FileFormat]:
    from simulator.traces.trace_loading import TRACE_READERS

    return TRACE_READERS.formats()


def _op_traces() -> Iterable[FileFormat]:
    from health.whatif.converters import PROFILE_READERS
    from health.whatif.trace import FORMAT

    return FORMAT, *PROFILE_READERS.formats()


def _collectives() -> Iterable[FileFormat]:
    from health.collectives.reading import COLLECTIVES_READERS

    return COLLECTIVES_READERS.formats()


def _metrics() -> Iterable[FileFormat]:
    from health.peers.recording_files import METRIC_READERS

    return METRIC_READERS.formats()


KINDS: Mapping[str, tuple[str, Callable[[], Iterable[FileFormat]]]] = {
    "clusters": ("where nodes are: place, explain, topology, simulate and all others with --cluster", _clusters),
    "jobs": ("what a scheduler ran: simulate, capacity, anonymise", _jobs),
    "op-traces": ("what the ranks of one job did: stragglers, and health op-trace for those of others", _op_traces),
    "collectives": ("what ranks called and finished: health collectives", _collectives),
    "metrics": ("what machines measured: health peers", _metrics),
}
"""Kinds of files, in the order in which they are listed: what they say and who reads them, and their formats."""


def formats_of(kinds: Iterable[str]) -> FormatsDocument:
    """Return the formats of some kinds, in the order in which these are given."""
    return FormatsDocument(
        tuple(
            FormatKind(kind, KINDS[kind][0], tuple(sorted(KINDS[kind][1](), key=lambda form: form.name)))
            for kind in kinds
        )
    )
