"""Plans of gangs: node and pod of each rank, spread, bound, lease; and how they are stored in the cluster."""

from __future__ import annotations

from extender.plans.custom_resource import Condition
from extender.plans.plan import HOLDING, Phase, Plan, Spec, canonical_uid, decode_plan, encode_plan, object_name

__all__ = [
    "HOLDING",
    "Condition",
    "Phase",
    "Plan",
    "Spec",
    "canonical_uid",
    "decode_plan",
    "encode_plan",
    "object_name",
]
