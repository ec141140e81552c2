"""Shapes of jobs whose size is left open, as people write them: ``8x16``, and with a size ``8x16x20``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ground.errors import InvalidJob
from scheduler.job import DEFAULT_ALPHA, DEFAULT_SPREAD_COST, Job, Parallelism

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
