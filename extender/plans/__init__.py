"""Plans of gangs: node and pod of each rank, spread, bound, lease; and how they are stored in the cluster."""

from __future__ import annotations

from extender.plans.custom_resource import Condition
from extender.plans.gang_plan import (
    HOLDING,
    GangPlan,
    PlanPhase,
    PlanSpec,
    canonical_uid,
    decode_plan,
    encode_plan,
    object_name,
)

__all__ = [
    "HOLDING",
    "Condition",
    "GangPlan",
    "PlanPhase",
    "PlanSpec",
    "canonical_uid",
    "decode_plan",
    "encode_plan",
    "object_name",
]
