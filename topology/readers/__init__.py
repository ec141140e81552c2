"""Readers of topology formats: :func:`load_cluster` is what callers need.

One module a format, each found through an entry point and imported only when a file is of its format.
"""

from topology.readers.loading import LoadedTopology, load_cluster, load_topology

__all__ = ["LoadedTopology", "load_cluster", "load_topology"]
