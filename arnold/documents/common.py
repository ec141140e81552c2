"""Pieces that several JSON documents share.  Field docstrings become the descriptions of ``arnold schema``."""

from __future__ import annotations

from datetime import datetime
from math import isfinite
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from scheduler.job import Job
from scheduler.job_document import ConstraintFile, JobDocument, ParallelismFile
from scheduler.placement.types import ParetoPoint, PriceOption
from scheduler.spread import job_level
from topology.cluster import Cluster
from topology.flags import HEALTHY, FlagKind, NodeFlag


class Document(BaseModel):
    """Base of all JSON output: nothing undocumented, every number finite, descriptions from docstrings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


class SpreadDoc(Document):
    """Largest number of domains that a group touches."""

    dp: int = Field(ge=1)
    """Over all DP groups: S."""
    pp: int = Field(ge=1)
    """Over all PP groups: R."""


class ParetoDoc(SpreadDoc):
    """A corner of the trade between DP and PP spread; it does not depend on alpha."""

    proved: bool
    """No placement is at least as good in both and better in one."""


class PriceDoc(Document):
    """One way to treat slow nodes, as weighed under ``avoid: price``."""

    slowest: float | None
    """Nodes up to this slowdown were admitted, 1 = none of the flagged ones; null = any."""
    objective: float | None
    """Eq. 2 of the best placement found that way; null = none, or the option could not have won."""
    step_time: float | None
    """Predicted step time, 1 = no spread and no slow node."""
    chosen: bool
    """Whether this option was taken."""
    sentence: str
    """The option in words."""


class NodeFlagDoc(Document):
    """A flag, as it stands in a flag file (``--flags`` of ``arnold place``)."""

    node: str
    """Name of the node."""
    kind: FlagKind
    """straggler (slow), degraded (slow, cause known) or faulty (never use)."""
    slowdown: float | None
    """Factor on compute time; null for a faulty node."""
    score: float | None
    """Strength of the evidence, in the unit of the source."""
    source: str
    """Who says so."""
    since: datetime | None
    """When it began; null = unknown."""
    until: datetime | None
    """When it ends; null = open."""
    evidence: str
    """Why, in a sentence."""


class ClusterDoc(Document):
    """The cluster that was read, in a few numbers."""

    source: str
    """Where it was read from."""
    nodes: int
    """Nodes in all."""
    free: int
    """Nodes that are idle and not faulty."""
    flagged: int
    """Nodes with a flag, faulty ones among them."""
    levels: dict[str, int]
    """Number of domains of each level, from the broadest to the closest."""


def flag_doc(flag: NodeFlag) -> NodeFlagDoc:
    """A flag as it stands in a flag file."""
    return NodeFlagDoc(**flag_fields(flag))


def flag_fields(flag: NodeFlag) -> dict[str, Any]:
    """The fields of a flag, with what JSON has for infinity."""
    return {
        "node": flag.node,
        "kind": flag.kind,
        "slowdown": flag.slowdown if isfinite(flag.slowdown) else None,
        "score": flag.score,
        "source": flag.source,
        "since": flag.since,
        "until": flag.until,
        "evidence": flag.evidence,
    }


def flag_docs(cluster: Cluster, job: Job) -> list[NodeFlagDoc]:
    """Flags of the nodes that the job could use if nothing were held against them, by node."""
    usable = (cluster.gpus == job.gpus_per_node) & (cluster.free_gpus == cluster.gpus)
    flagged = [flag for i, flag in cluster.flags.items() if usable[i] and flag.slowdown > HEALTHY]
    return [flag_doc(flag) for flag in sorted(flagged, key=lambda flag: flag.node)]


def cluster_doc(cluster: Cluster, source: str) -> ClusterDoc:
    """The cluster in a few numbers."""
    return ClusterDoc(
        source=source,
        nodes=len(cluster),
        free=int(cluster.idle.sum()),
        flagged=int((cluster.slowdown > 1.0).sum()),
        levels={level.name: len(level) for level in cluster.levels},
    )


def job_doc(cluster: Cluster, job: Job) -> JobDocument:
    """The job as a job file that says everything: defaults, overrides and derived values filled in."""
    degrees = job.parallelism
    hard = [ConstraintFile(family=hold.family, within=hold.level) for hold in job.holds]
    soft = [ConstraintFile(family=count.family, level=count.level, weight=count.weight) for count in job.counts]
    return JobDocument(
        name=job.name,
        gpus_per_node=job.gpus_per_node,
        parallelism=ParallelismFile(tp=degrees.tp, cp=degrees.cp, ep=degrees.ep, dp=degrees.dp, pp=degrees.pp),
        order=degrees.order,
        alpha=job.alpha,
        level=job_level(cluster, job).name,
        avoid=job.avoid,
        constraints=(*hard, *soft),
        microbatches=job.microbatches,
        spread_cost=job.spread_cost,
    )


def pareto_docs(points: tuple[ParetoPoint, ...]) -> list[ParetoDoc]:
    """Corners in order of DP spread."""
    ordered = sorted(points, key=lambda point: (point.dp, point.pp))
    return [ParetoDoc(dp=point.dp, pp=point.pp, proved=point.proved) for point in ordered]


def price_docs(options: tuple[PriceOption, ...]) -> list[PriceDoc]:
    """Options in the order in which the algorithm weighed them."""
    return [
        PriceDoc(
            slowest=option.slowest if isfinite(option.slowest) else None,
            objective=option.objective,
            step_time=option.step_time,
            chosen=option.chosen,
            sentence=option.sentence,
        )
        for option in options
    ]
