"""Writers of topology formats: one module a format, found through an entry point."""

from topology.writers.types import TOPOLOGY_WRITERS, Rendering, TopologyWriter

__all__ = ["TOPOLOGY_WRITERS", "Rendering", "TopologyWriter"]
