"""The job file and the characterisation file, as they are written (docs/job.md)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scheduler.affinity import Experts, Model
from scheduler.job import Avoid, Family

LARGEST = 10**12
"""No size in a job file is larger; keeps products of a few of them within a float."""

Size = Annotated[int, Field(ge=1, le=LARGEST)]
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


class ExpertsFile(_Strict):
    """Mixture of experts in place of the dense MLP."""

    experts: Size
    top_k: Size = 2
    ffn_hidden: Size | None = None


class ModelFile(_Strict):
    """Model description from which alpha is derived."""

    hidden: Size
    layers: Size
    vocab: Size
    sequence_length: Size
    micro_batch: Size = 1
    global_batch: Size | None = None
    gpu: str | None = None
    moe: ExpertsFile | None = None
    bytes_per_value: Size = 2

    def to_model(self) -> Model:
        """The same without pydantic."""
        values: dict[str, Any] = self.model_dump(exclude={"moe"})
        return Model(**values, moe=None if self.moe is None else Experts(**self.moe.model_dump()))


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
    model: ModelFile | None = None
    level: str | None = None
    avoid: Avoid = "price"
    constraints: tuple[ConstraintFile, ...] = Field(default=(), strict=False)
    microbatches: Size | None = None
    spread_cost: Factor | None = None


class RecordFile(_Strict):
    """One measurement of a characterisation file."""

    name: str
    gpu: str
    model: ModelFile
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
