"""The job file and the characterisation file, as they are written (docs/job.md)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scheduler.affinity import Model, Size
from scheduler.instance import Instance
from scheduler.job import Avoid, Family

Degree = Annotated[int, Field(ge=1)]
Factor = Annotated[float, Field(ge=0.0, le=1e6)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class _Strict(BaseModel):
    """Unknown keys, text for numbers, NaN and infinities are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ParallelismFile(_Strict):
    """Degrees of parallelism."""

    tp: Degree = 1
    cp: Degree = 1
    ep: Degree = 1
    dp: Degree = 1
    pp: Degree = 1
    order: str | None = None


class ConstraintFile(_Strict):
    """A hard constraint (``within``) or a soft one (``level`` and ``weight``)."""

    family: Family
    within: str | None = None
    level: str | None = None
    weight: Factor | None = None

    @model_validator(mode="after")
    def _hard_or_soft(self) -> ConstraintFile:
        soft = self.level is not None and self.weight is not None
        if (self.within is None) != soft or (self.within is not None and (self.level or self.weight is not None)):
            raise ValueError("give either within (hard), or level and weight (soft)")
        return self


class JobDocument(_Strict):
    """The whole file."""

    parallelism: ParallelismFile
    name: Annotated[str, Field(min_length=1, max_length=253)] = "job"
    gpus_per_node: Size = 8
    order: str | None = None
    alpha: Share | None = None
    model: Model | None = None
    level: str | None = None
    avoid: Avoid = "price"
    constraints: tuple[ConstraintFile, ...] = Field(default=(), strict=False)
    microbatches: Size | None = None
    spread_cost: Factor | None = None


def job_document(instance: Instance) -> JobDocument:
    """Return the job as a file that says everything: defaults, overrides and derived values filled in."""
    job = instance.job
    degrees = job.parallelism
    hard = [ConstraintFile(family=hold.family, within=hold.level) for hold in job.holds]
    soft = [ConstraintFile(family=count.family, level=count.level, weight=count.weight) for count in job.counts]
    return JobDocument(
        name=job.name,
        gpus_per_node=job.gpus_per_node,
        parallelism=ParallelismFile(tp=degrees.tp, cp=degrees.cp, ep=degrees.ep, dp=degrees.dp, pp=degrees.pp),
        order=degrees.order,
        alpha=job.alpha,
        level=instance.level.name,
        avoid=job.avoid,
        constraints=(*hard, *soft),
        microbatches=job.microbatches,
        spread_cost=job.spread_cost,
    )


class RecordFile(_Strict):
    """One measurement of a characterisation file."""

    name: str
    gpu: str
    model: Model
    parallelism: ParallelismFile
    dp_gain: Factor
    pp_gain: Factor
    published: str = ""

    @model_validator(mode="after")
    def _some_gain(self) -> RecordFile:
        if self.dp_gain == self.pp_gain == 0.0:
            raise ValueError("one of dp_gain and pp_gain must be above 0; such a job tells nothing about alpha")
        return self


class RecordsDocument(_Strict):
    """A characterisation file."""

    records: tuple[RecordFile, ...] = Field(min_length=1, strict=False)
