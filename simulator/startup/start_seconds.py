"""How long a gang takes to start: until its slowest node is ready and its checkpoint is read.

``T = fixed + max over nodes (image + environment) + checkpoint``, after the stages that Bootseer names; the formulas of
the stages are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from simulator.startup.startup_settings import ImageStage, StartUpSettings, Techniques
from topology.cluster import FloatArray

TECHNIQUES: Mapping[str, Techniques] = MappingProxyType(
    {
        "none": Techniques(),
        "prefetch": Techniques(prefetch=True),
        "snapshots": Techniques(snapshots=True),
        "striped_reads": Techniques(striped_reads=True),
        "all_three": Techniques(prefetch=True, snapshots=True, striped_reads=True),
    }
)
"""What every start is weighed with, besides what is in use: so one run tells what each buys."""


@dataclass(frozen=True, slots=True, eq=False)
class GangStart:
    """One start of a gang."""

    gpus: float
    missing: FloatArray  # shape [nodes], GB of its image that each of its nodes does not have
    installs: FloatArray  # shape [nodes], seconds that installing the environment takes
    others: int = 0  # nodes of other gangs that pull at the same time
    # whether an earlier start with its image recorded the hot blocks, and saved the environment
    recorded: bool = True

    def seconds(self, settings: StartUpSettings, techniques: Techniques) -> float:
        """Return the seconds from having its nodes to working."""
        image, snapshot = settings.image, techniques.snapshots and self.recorded
        hot = image.hot_share if techniques.prefetch and self.recorded else 1.0
        pulls = hot * self.missing + (settings.environment.snapshot_gb if snapshot else 0.0)
        ready = _arrivals(pulls, image, others=self.others) + (0.0 if snapshot else self.installs)
        reads = settings.checkpoint.seconds(gpus=self.gpus, nodes=len(ready), striped=techniques.striped_reads)
        return settings.fixed_seconds + float(ready.max()) + reads


def _arrivals(pulls: FloatArray, image: ImageStage, *, others: int) -> FloatArray:
    """Return shape [nodes]: seconds until each has what it pulls; all that still pull share what there is alike.

    :param pulls: shape [nodes], GB; ``others``: nodes of other gangs that pull all the while.
    """
    order = np.argsort(pulls)
    # those that need least are served first, then the rest have more each
    at_once = others + np.arange(len(pulls), 0, -1)
    rates = np.minimum(image.node_gb_per_second, image.store_gb_per_second / at_once + image.peer_gb_per_second)
    seconds = np.empty_like(pulls)
    seconds[order] = np.cumsum(np.diff(pulls[order], prepend=0.0) / rates)
    return seconds
