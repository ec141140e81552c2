"""Shapes of jobs whose size is left open, and the largest job of a shape that fits.

A job with fewer rows never needs a larger spread than one with more: halving the distance finds the largest.  That
holds as long as spread alone decides, so slow nodes have no price here: a job may spread wider to avoid one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from scheduler.job import DEFAULT_ALPHA, DEFAULT_SPREAD_COST, Job, Parallelism
from scheduler.placement.types import Limits, PlacementAlgorithm
from topology.errors import InvalidJob
from topology.field_types import AtLeastOne, Count
from topology.json_record import JsonRecord

if TYPE_CHECKING:
    from scheduler.outcome import Outcome
    from topology.cluster import Cluster

Family = Literal["dp", "pp"]
FAMILIES: tuple[Family, ...] = ("pp", "dp")

ALPHA: dict[Family, float] = {"dp": 1.0, "pp": 0.0}
"""The affinity with which the algorithm minimises the spread of one family alone."""

GRID = {"option": "--grid", "metavar": "TPxPPxROWS"}
"""Metadata of the field that holds jobs as :func:`parse_job` reads them."""

# bounded, as int() refuses numbers of thousands of digits
_NUMBER = re.compile(r"[0-9]{1,7}")


@dataclass(frozen=True, slots=True)
class JobShape:
    """A job without its number of replicas."""

    tp: int = 8
    """Tensor-parallel degree, a divisor of the GPUs of a node."""
    pp: int = 8
    """Pipeline stages: nodes of one PP group."""
    gpus_per_node: int = 8
    """GPUs of the nodes that the job runs on."""

    @property
    def name(self) -> str:
        """``8x16``: tp and pp."""
        return f"{self.tp}x{self.pp}"

    def job(
        self,
        rows: int,
        *,
        alpha: float = DEFAULT_ALPHA,
        spread_cost: float = DEFAULT_SPREAD_COST,
        level: str | None = None,
    ) -> Job:
        """Return the job with so many PP groups.

        :raises InvalidJob: the shape does not cut into nodes.
        """
        if self.tp < 1 or self.gpus_per_node % self.tp:
            raise InvalidJob(
                f"tp {self.tp} does not divide a node of {self.gpus_per_node} GPUs",
                where=f"shape {self.name}",
                fix=f"choose tp among the divisors of {self.gpus_per_node}",
            )
        degrees = Parallelism(tp=self.tp, dp=rows * (self.gpus_per_node // self.tp), pp=self.pp)
        return Job(
            f"{rows} x {self.name}",
            degrees,
            alpha=alpha,
            gpus_per_node=self.gpus_per_node,
            level=level,
            spread_cost=spread_cost,
        )


def usual_shapes(gpus_per_node: int = 8) -> tuple[JobShape, ...]:
    """Return shapes with tensor parallelism over the node, and 1 to 16 pipeline stages."""
    return tuple(JobShape(gpus_per_node, stages, gpus_per_node) for stages in (1, 4, 8, 16))


def parse_shape(text: str, *, gpus_per_node: int = 8) -> JobShape:
    """Return ``8x16`` as tp 8, pp 16.

    :raises InvalidJob: it is nothing of the kind.
    """
    degrees = numbers_between_x(text, 9_999, 9_999)
    if degrees is None:
        raise InvalidJob(f"{text[:40]!r} is no shape", where="--shape", fix="give tp and pp, for example 8x16")
    shape = JobShape(degrees[0], degrees[1], gpus_per_node)
    shape.job(1)
    return shape


def parse_job(text: str, *, gpus_per_node: int = 8) -> tuple[JobShape, int]:
    """Return ``8x16x20`` as a shape of tp 8, pp 16 and 20 PP groups.

    :raises InvalidJob: it is nothing of the kind.
    """
    sizes = numbers_between_x(text, 9_999, 9_999, 100_000)
    if sizes is None:
        fix = "give tp, pp and the number of PP groups, for example 8x16x20"
        raise InvalidJob(f"{text[:40]!r} is no job", where="--grid", fix=fix)
    return parse_shape(f"{sizes[0]}x{sizes[1]}", gpus_per_node=gpus_per_node), sizes[2]


def numbers_between_x(text: str, *limits: int) -> tuple[int, ...] | None:
    """Return the numbers of a text such as ``22x93``, each from 1 to its limit; ``None`` where it is no such text."""
    parts = text.strip().lower().split("x")
    if len(parts) != len(limits) or not all(map(_NUMBER.fullmatch, parts)):
        return None
    numbers = tuple(map(int, parts))
    return numbers if all(0 < number <= limit for number, limit in zip(numbers, limits, strict=True)) else None


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
        """Return the number of PP groups for which there are nodes, whatever their spread."""
        from scheduler.placement.admission import admissible
        from topology.capacity import most_together

        return most_together(self.cluster, admissible(self.cluster, shape.job(1))) // shape.pp

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
