"""Keys of a job file (docs: job.md) as they stand in it; ``scheduler.job_files.job_file`` makes a job of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ground.records import AtLeastOne, Share
from scheduler.affinity import Size
from scheduler.job import Avoid
from scheduler.job_files.job_parts import (
    ConstraintFiles,
    DataSizes,
    Factor,
    GpuTypes,
    JobName,
    NamedOrDescribed,
    StrictModel,
    TolerationFiles,
)


class ParallelismFile(StrictModel):
    """Degrees of parallelism: the job has tp * cp * pp * dp GPUs."""

    tp: AtLeastOne = 1
    """Tensor parallelism, GPUs of a group."""
    cp: AtLeastOne = 1
    """Context parallelism."""
    ep: AtLeastOne = 1
    """Expert parallelism, which is cut out of tp * cp * dp."""
    dp: AtLeastOne = 1
    """Data parallelism, replicas."""
    pp: AtLeastOne = 1
    """Pipeline parallelism, stages."""
    etp: AtLeastOne | None = None
    """Tensor parallelism of the experts; null = tp."""
    order: str | None = None
    """How ranks run, the fastest first; null = tp-cp-ep-dp-pp. May stand here or beside `parallelism`."""


class JobDocument(StrictModel):
    """What a job file says; job.md of the docs explains each key."""

    parallelism: ParallelismFile
    """Degrees of parallelism."""
    name: JobName = "job"
    """Name for people."""
    gpus_per_node: Size | None = None
    """GPUs of each of its nodes; null = what the nodes of the cluster have."""
    order: str | None = None
    """How ranks run, the fastest first; null = tp-cp-ep-dp-pp."""
    alpha: Share | None = None
    """DP affinity, the weight of DP spread in the objective; PP spread has 1 - alpha. null = from `model`, else 0.3."""
    model: NamedOrDescribed | None = None
    """Model that it trains, by shape or name, from which alpha is derived; null = not known."""
    level: str | None = None
    """Level of the cluster whose domains spread counts; null = the broadest with more than one domain."""
    tp_level: str | None = None
    """Level whose domains hold a TP group of several nodes; null = the closest."""
    avoid: Avoid = "price"
    """Slow nodes: `strict` uses none, `price` weighs their slowdown against spread, `ignore` takes no notice."""
    gpu_types: GpuTypes | None = None
    """Types of GPU allowed, or `any` to mix them; null = any one of them."""
    speed: dict[str, Annotated[float, Field(gt=0.0, le=1e6)]] | None = None
    """Relative speed of the job by type of GPU; null = 1 for all."""
    constraints: ConstraintFiles = ()
    """Hard and soft constraints on groups."""
    levels: dict[str, Factor] | None = None
    """Level -> weight of Eq. 2, counted there, in the objective; null = none."""
    microbatches: Size | None = None
    """Microbatches of a step; null = from `model`, else not known."""
    spread_cost: Factor | None = None
    """Share of the step time that one unit of the objective costs; null = from `model`, else 0.0257."""
    data_sets: DataSizes | None = None
    """Data set -> what the job reads of it, samples or bytes, for all jobs alike; null = not known."""
    data_level: str | None = None
    """Level whose domains have a cache in common; null = the closest."""
    images: dict[str, Factor] | None = None
    """Image that every node needs -> GB to pull; null = none are named."""
    tolerations: TolerationFiles = ()
    """Taints that it puts up with, so that their nodes are its too: those of Kubernetes, or KEY, or KEY=VALUE."""
