"""The largest job of a shape whose groups touch few domains.

A job with fewer rows never needs a larger spread than one with more: halving the distance finds the largest.  That
holds as long as spread alone decides, so slow nodes have no price here: a job may spread wider to avoid one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ground.records import AtLeastOne, Count, JsonRecord
from scheduler.placement.types import Limits, PlacementAlgorithm
from simulator.capacity.job_shape import JobShape

if TYPE_CHECKING:
    from scheduler.outcome import Outcome
    from topology.cluster import Cluster

Family = Literal["dp", "pp"]
FAMILIES: tuple[Family, ...] = ("pp", "dp")

ALPHA: dict[Family, float] = {"dp": 1.0, "pp": 0.0}
"""The affinity with which the algorithm minimises the spread of one family alone."""


@dataclass(frozen=True, slots=True)
class LargestJob(JsonRecord):
    """The largest job whose groups touch few domains."""

    family: Family
    """Family of the groups."""
    spread: AtLeastOne
    """Domains that each of them may touch."""
    nodes: Count
    """Nodes of the job; 0 = none fits."""
    proved: bool
    """No larger one fits; false = the algorithm ran out of time on a larger one."""


@dataclass
class Prober:
    """Places jobs of growing size on one cluster by one algorithm, and none of them twice."""

    cluster: Cluster
    algorithm: PlacementAlgorithm
    seconds: float = 0.3
    """Time limit of each placement."""
    level: str | None = None
    """Level whose domains count; ``None`` = the broadest with several."""
    seed: int = 0
    _known: dict[tuple[JobShape, int, float], Outcome] = field(default_factory=dict)

    def most_rows(self, shape: JobShape) -> int:
        """Return the number of PP groups for which there are nodes that one job may have, whatever their spread."""
        from scheduler.placement.admission import admissible
        from topology.cluster import most_together

        most, limit = most_together(self.cluster, admissible(self.cluster, shape.job(1))), self.cluster.node_limit
        return (most if limit is None else min(most, limit.nodes)) // shape.pp

    def place(self, shape: JobShape, rows: int, alpha: float) -> Outcome:
        """Return what the algorithm makes of a job to which a slow node is as good as any.

        :raises ArnoldError: the shape does not cut into nodes, or the cluster has no such level.
        """
        from scheduler.algorithm_run import run

        key = (shape, rows, alpha)
        if key not in self._known:
            job = shape.job(rows, alpha=alpha, level=self.level).replace(avoid="ignore")
            limits = Limits(seconds=self.seconds, seed=self.seed, workers=1, told="placement", clock="work")
            self._known[key] = run(self.algorithm, self.cluster, job, limits)
        return self._known[key]

    def largest(self, shape: JobShape, family: Family, spread: int) -> LargestJob:
        """Return the largest job with groups of a family that touch at most so many domains."""
        low, high, proved = 0, self.most_rows(shape) + 1, True
        while high - low > 1:
            middle = (low + high) // 2
            outcome = self.place(shape, middle, ALPHA[family])
            found = None if outcome.evaluation is None else getattr(outcome.evaluation, family)
            if found is not None and found <= spread:
                low = middle
            else:
                high, proved = middle, outcome.status in ("optimal", "infeasible")
        return LargestJob(family, spread, low * shape.pp, proved)
