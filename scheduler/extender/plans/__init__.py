"""Plans of gangs: node and pod of each rank, spread, bound, lease; and the GangPlan, their document in the cluster."""

from __future__ import annotations

from scheduler.extender.plans.document import decode_plan, encode_plan, encode_spec
from scheduler.extender.plans.plan import HOLDING, Condition, Phase, Plan, Spec, canonical_uid, object_name

__all__ = [
    "HOLDING",
    "Condition",
    "Phase",
    "Plan",
    "Spec",
    "canonical_uid",
    "decode_plan",
    "encode_plan",
    "encode_spec",
    "object_name",
]
