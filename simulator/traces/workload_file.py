"""The workload file: what is asked of the generator of LLM workloads, in YAML or JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from simulator.workload import KindName, WorkloadSpec

_DEFAULT = WorkloadSpec()


class AnnounceFile(BaseModel):
    """Large jobs that are announced before they are submitted."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    gpus: int = Field(ge=1)
    """Jobs from this size on."""
    seconds: float = Field(default=_DEFAULT.announce_seconds, ge=0)
    """Seconds before its submission."""


class WorkloadDocument(BaseModel):
    """An LLM workload that is made when it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    workload: Literal["kalos"]
    """The cluster whose published figures it is fitted to."""
    days: float = Field(default=_DEFAULT.days, gt=0)
    """Days for which jobs are submitted."""
    per_day: float | None = Field(default=None, gt=0)
    """Jobs submitted a day; default: as many as in the published trace, or as `load` needs."""
    gpus: int | None = Field(default=None, ge=1)
    """GPUs of the cluster, for `load`."""
    load: float | None = Field(default=None, gt=0)
    """GPU time asked for, as a share of what `gpus` have; sets the rate in place of `per_day`."""
    seed: int = Field(default=_DEFAULT.seed, ge=0)
    """Same seed, same jobs."""
    rhythm: float = Field(default=_DEFAULT.rhythm, ge=0, lt=1)
    """How much the rate of submission swings over the day."""
    max_gpus: int = Field(default=_DEFAULT.max_gpus, ge=1)
    """Larger jobs are not made."""
    kinds: list[KindName] = Field(default=list(_DEFAULT.kinds), min_length=1)
    """The kinds of jobs that are made."""
    preemptible: list[KindName] = []
    """The kinds whose jobs may be stopped and queued again."""
    announce: AnnounceFile | None = None
    """Which jobs are announced; default: none."""

    def to_spec(self) -> WorkloadSpec:
        """Return the specification that the generator takes."""
        given = self.model_dump(exclude={"workload", "announce"}, exclude_none=True)
        given |= {name: tuple(dict.fromkeys(given[name])) for name in ("kinds", "preemptible")}
        if self.announce is not None:
            given |= {"announce_gpus": self.announce.gpus, "announce_seconds": self.announce.seconds}
        return WorkloadSpec(**given)
