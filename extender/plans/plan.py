"""A plan: the node and the pod of each rank of a gang, what the placement is worth, and how long it waits for its pods.

A plan is stored as a ``GangPlan``, the only durable state there is (:mod:`extender.plans.document`).  A plan
promises its nodes from the moment it is written until its gang is gone, in the phases of :data:`HOLDING`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any
from uuid import UUID

from extender.gangs import GangKey
from extender.plans.conditions import Condition, with_condition
from scheduler.job import Avoid, Hold, Job, Parallelism


class Phase(StrEnum):
    """How far a gang has come."""

    WAITING = "Waiting"
    """Pods are missing."""
    QUEUED = "Queued"
    """Complete, and no room, or others are before it."""
    PLANNED = "Planned"
    """Every rank has a node; the gates are still on."""
    RELEASED = "Released"
    """Gates come off, pods are pinned; the scheduler binds them."""
    BOUND = "Bound"
    """Every pod is on its node, or has been."""
    EXPIRED = "Expired"
    """The pods did not bind in time; the nodes are given back and the gang is planned again."""
    INVALID = "Invalid"
    """The pods contradict each other or themselves."""


HOLDING = frozenset({Phase.PLANNED, Phase.RELEASED, Phase.BOUND})
"""Phases in which the plan's nodes are promised to the gang."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What was asked: all it takes to make the same :class:`~scheduler.job.Job` again.

    :param size: pods of the gang; ``None`` = nobody said.
    :param parallelism: with order; ``None`` while the gang is not understood.
    """

    dialect: str = ""
    size: int | None = None
    gpus_per_node: int = 0
    parallelism: Parallelism | None = None
    alpha: float = 0.5
    level: str | None = None
    avoid: Avoid = "price"
    holds: tuple[Hold, ...] = ()
    priority: int = 0

    @classmethod
    def of(cls, job: Job, *, dialect: str, priority: int) -> Spec:
        """The spec that makes this job."""
        return cls(
            dialect=dialect,
            size=job.grid.cells,
            gpus_per_node=job.gpus_per_node,
            parallelism=job.parallelism,
            alpha=job.alpha,
            level=job.level,
            avoid=job.avoid,
            holds=job.holds,
            priority=priority,
        )

    def job(self, name: str) -> Job | None:
        """The job that was asked for; ``None`` while the gang is not understood.

        :raises InvalidJob: a spec that nobody of ours wrote.
        """
        if self.parallelism is None:
            return None
        return Job(
            name=name,
            parallelism=self.parallelism,
            alpha=self.alpha,
            gpus_per_node=self.gpus_per_node,
            level=self.level,
            avoid=self.avoid,
            holds=self.holds,
        )


@dataclass(frozen=True)
class Plan:
    """What was decided about a gang.

    :param uid: of the GangPlan object; empty until it is written.
    :param resource_version: an update with it fails when another replica wrote in between; empty until it is written.
    :param nodes: names of the nodes by rank; empty in phases without a placement.
    :param pods: UID of each rank's pod, in the form of :func:`canonical_uid`; ``None`` = the rank has no pod now.
    :param spread: (S, R), the DP and PP spread.
    :param objective: what the placement costs.
    :param bound: no placement of the nodes that were free costs less.
    :param gap: (objective - bound) / objective, 0 when proved.
    :param expires: pods that are not bound by then lose their nodes; ``None`` = the plan waits for nobody.
    :param bound_pods: pods that are on their nodes.
    :param would_fit_if_empty: of a queued gang; ``None`` = not known.
    :param conditions: ``Complete``, ``Planned``, ``Released``, ``Bound``, ``Healthy``, ``Valid``, ``HintsRead``.
    """

    key: GangKey
    phase: Phase
    spec: Spec = Spec()
    uid: str = ""
    resource_version: str = ""
    nodes: tuple[str, ...] = ()
    pods: tuple[str | None, ...] = ()
    spread: tuple[int, int] | None = None
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    expires: datetime | None = None
    bound_pods: int = 0
    would_fit_if_empty: bool | None = None
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    created: datetime | None = None

    def replace(self, **changes: Any) -> Plan:
        """A copy with some fields changed."""
        return replace(self, **changes)

    @property
    def holding(self) -> bool:
        """Whether the nodes are promised to the gang."""
        return self.phase in HOLDING and bool(self.nodes)

    @property
    def size(self) -> int:
        """Pods of the gang, as far as they are known."""
        return len(self.nodes) or self.spec.size or 0

    @cached_property
    def rank_of_pod(self) -> Mapping[str, int]:
        """Canonical UID -> rank."""
        return {uid: rank for rank, uid in enumerate(self.pods) if uid is not None}

    @cached_property
    def rank_of_node(self) -> Mapping[str, int]:
        """Node name -> rank."""
        return {node: rank for rank, node in enumerate(self.nodes)}

    def expired(self, now: datetime) -> bool:
        """Whether the time for pods to bind is over."""
        return self.expires is not None and self.expires <= now

    def with_condition(self, kind: str, status: bool | None, reason: str, message: str, now: datetime) -> Plan:
        """A copy with one condition set; its time changes only when its status does."""
        return self.replace(conditions=with_condition(self.conditions, kind, status, reason, message, now=now))

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type."""
        return next((one for one in self.conditions if one.type == kind), None)


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def canonical_uid(uid: str) -> str:
    """A UID as 16 bytes can carry it: UUIDs, which the API server always makes, as they are.

    Any other text stands for the UUID of its hash, so that comparing canonical forms is comparing UIDs.
    """
    if _UUID.fullmatch(uid):
        return uid
    return str(UUID(bytes=hashlib.blake2b(uid.encode(), digest_size=16).digest()))


_LABEL_AS_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


def object_name(key: GangKey) -> str:
    """Name of the GangPlan of a gang: the gang's name where that is a name of objects.

    Label values may have capitals and underscores, which names of objects may not: those are rewritten, with a hash.
    """
    if _LABEL_AS_NAME.fullmatch(key.name) and ".." not in key.name:
        return key.name
    plain = re.sub(r"[^a-z0-9]+", "-", key.name.lower()).strip("-")[:200] or "gang"
    return f"{plain}-{hashlib.blake2b(key.name.encode(), digest_size=4).hexdigest()}"
