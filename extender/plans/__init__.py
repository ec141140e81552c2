"""Plans of gangs: node and pod of each rank, spread, bound, lease; and the GangPlan, their document in the cluster."""

from __future__ import annotations

from extender.plans.conditions import (
    Condition,
    ConditionPart,
    decode_condition,
    encode_condition,
    given,
    timestamp,
    with_condition,
)
from extender.plans.document import decode_plan, encode_plan, encode_spec
from extender.plans.plan import HOLDING, Phase, Plan, Spec, canonical_uid, object_name

__all__ = [
    "HOLDING",
    "Condition",
    "ConditionPart",
    "Phase",
    "Plan",
    "Spec",
    "canonical_uid",
    "decode_condition",
    "decode_plan",
    "encode_condition",
    "encode_plan",
    "encode_spec",
    "given",
    "object_name",
    "timestamp",
    "with_condition",
]
