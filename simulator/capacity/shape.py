"""Shapes of jobs: what a training job looks like when its size is left open."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scheduler.job import DEFAULT_ALPHA, Job, Parallelism
from topology.errors import InvalidJob

_SHAPE = re.compile(r"([0-9]{1,4})x([0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class JobShape:
    """A job without its number of replicas.

    :param tp: tensor-parallel degree, a divisor of the GPUs of a node.
    :param pp: pipeline stages.
    :param gpus_per_node: GPUs of the nodes it runs on.
    """

    tp: int = 8
    pp: int = 8
    gpus_per_node: int = 8

    @property
    def name(self) -> str:
        """``8x16``: tp and pp."""
        return f"{self.tp}x{self.pp}"

    @property
    def row(self) -> int:
        """Nodes of one PP group."""
        return self.pp

    def job(self, rows: int, *, alpha: float = DEFAULT_ALPHA, level: str | None = None) -> Job:
        """The job with so many PP groups.

        :raises InvalidJob: the shape does not cut into nodes.
        """
        if self.tp < 1 or self.gpus_per_node % self.tp:
            raise InvalidJob(
                f"tp {self.tp} does not divide a node of {self.gpus_per_node} GPUs",
                where=f"shape {self.name}",
                fix=f"choose tp among the divisors of {self.gpus_per_node}",
            )
        degrees = Parallelism(tp=self.tp, dp=rows * (self.gpus_per_node // self.tp), pp=self.pp)
        return Job(f"{rows} x {self.name}", degrees, alpha=alpha, gpus_per_node=self.gpus_per_node, level=level)


STAGES = (1, 4, 8, 16)
"""Pipeline stages of the usual shapes."""


def usual_shapes(gpus_per_node: int = 8) -> tuple[JobShape, ...]:
    """Tensor parallelism over the node, and 1 to 16 pipeline stages."""
    return tuple(JobShape(gpus_per_node, stages, gpus_per_node) for stages in STAGES)


def parse_shape(text: str, *, gpus_per_node: int = 8) -> JobShape:
    """``8x16`` as tp 8, pp 16.

    :raises InvalidJob: it is nothing of the kind.
    """
    match = _SHAPE.fullmatch(text.strip().lower())
    if match is None or "0" in (match[1], match[2]):
        raise InvalidJob(f"{text[:40]!r} is no shape", where="--shape", fix="give tp and pp, for example 8x16")
    shape = JobShape(int(match[1]), int(match[2]), gpus_per_node)
    shape.job(1)
    return shape


def parse_job(text: str, *, gpus_per_node: int = 8) -> tuple[JobShape, int]:
    """``8x16x20`` as a shape of tp 8, pp 16 and 20 PP groups.

    :raises InvalidJob: it is nothing of the kind.
    """
    shape, _, rows = text.strip().lower().rpartition("x")
    if not (_SHAPE.fullmatch(shape) and rows.isdecimal() and 0 < int(rows) <= 100_000):
        raise InvalidJob(
            f"{text[:40]!r} is no job",
            where="--job",
            fix="give tp, pp and the number of PP groups, for example 8x16x20",
        )
    return parse_shape(shape, gpus_per_node=gpus_per_node), int(rows)
