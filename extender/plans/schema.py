"""The fields of a GangPlan that we read, as typed structs; unknown ones are left to later versions."""

from __future__ import annotations

import msgspec

from extender.objects import Metadata
from extender.plans.conditions import ConditionPart
from scheduler.job import Avoid, Family


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the document."""


class HoldPart(Part, frozen=True):
    """A family that stays inside one domain of a level."""

    family: Family
    level: str


class SpecPart(Part, frozen=True):
    """What was asked."""

    gang: str = ""
    dialect: str = ""
    size: int | None = None
    gpus_per_node: int = 0
    parallelism: str | None = None
    order: str | None = None
    alpha: float = 0.5
    level: str | None = None
    avoid: Avoid = "price"
    holds: list[HoldPart] = []
    priority: int = 0


class SpreadPart(Part, frozen=True):
    """DP and PP spread."""

    dp: int
    pp: int


class AssignmentPart(Part, frozen=True):
    """Nodes and pods by rank, packed."""

    nodes: str | None = None
    pods: str | None = None


class StatusPart(Part, frozen=True):
    """What was decided."""

    phase: str = "Waiting"
    reason: str = ""
    message: str = ""
    expires: str | None = None
    spread: SpreadPart | None = None
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    bound_pods: int = 0
    would_fit_if_empty: bool | None = None
    conditions: list[ConditionPart] = []
    assignment: AssignmentPart = AssignmentPart()


class DocumentPart(Part, frozen=True):
    """A GangPlan."""

    metadata: Metadata
    spec: SpecPart = SpecPart()
    status: StatusPart = StatusPart()
