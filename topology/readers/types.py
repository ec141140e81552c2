"""What every reader of a topology format takes and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from topology.cluster import Cluster
from topology.file_format import FileFormat
from topology.files import Source
from topology.plugins import PluginGroup


@dataclass(frozen=True, slots=True)
class Reading:
    """A cluster and what its reader had to decide."""

    cluster: Cluster  # where the text says nothing of GPUs, with DEFAULT_GPUS and gpus_assumed
    notes: tuple[str, ...] = ()  # sentences: which labels were taken as levels, what was left out, ...
    # of each node, where the format has any: second hierarchies are chosen so
    labels: tuple[Mapping[str, str], ...] = ()
    # whether the text is also a list of nodes with their states, which is to be laid over the cluster
    has_states: bool = False


class TopologyReader(Protocol):
    """Reads one format.  Registered as an entry point in the group ``arnold.topology_readers``: a class (or any
    callable without arguments) that makes an object with this face.
    """

    @property
    def format(self) -> FileFormat:
        """What users should know of the format."""

    @property
    def chooses_levels(self) -> bool:
        """Whether the format leaves open what the levels are, so that ``levels`` has a meaning."""

    def recognises(self, head: str) -> bool:
        """Return whether a text looks like this format, from its first few thousand characters."""

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:
        """Read a text of this format.

        :param levels: what to take as levels, from broad to close; ``None`` = let the reader decide.
        :param now: the instant at which flags with an end count as expired or not (timezone-aware).
        :raises InvalidInput: the text is not of this format, or damaged.
        :raises InvalidTopology: it says something of a cluster that cannot be.
        """


@runtime_checkable
class CountsResource(Protocol):
    """A reader of a format in which GPUs are a resource with a name."""

    def counting(self, resource: str) -> TopologyReader:
        """Return a reader to which that resource alone is GPUs."""


@runtime_checkable
class ChoosesTopology(Protocol):
    """A reader of a format that may describe several topologies of the same nodes, each with a name."""

    def choosing(self, topology: str) -> TopologyReader:
        """Return a reader that reads the topology of that name."""


TOPOLOGY_READERS: PluginGroup[TopologyReader] = PluginGroup(
    "arnold.topology_readers", unknown="no topology format is called", where="--format"
)
"""All formats that can be read."""
