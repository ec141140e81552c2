"""What every writer of a topology format takes and returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from topology.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Rendering:
    """A cluster as text.

    :param notes: what the format could not carry, or only under another name; one sentence each.
    """

    text: str
    notes: tuple[str, ...] = ()


class TopologyWriter(Protocol):
    """Writes one format.  Registered as an entry point in the group ``arnold.topology_writers``: a class (or any
    callable without arguments) that makes an object with this face.
    """

    @property
    def name(self) -> str:
        """Name of the format, as in ``--to``."""

    def write(self, cluster: Cluster) -> Rendering:
        """The cluster in this format.

        :raises InvalidInput: a name that the format cannot carry.
        """
