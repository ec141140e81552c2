"""A plan as a ``GangPlan`` object, and back.

    spec     gang, dialect, size, gpusPerNode, parallelism "tp=8,cp=1,ep=1,dp=12,pp=8", order, alpha, level, avoid,
             holds [{family, level}], priority
    status   phase, reason, message, expires, spread {dp, pp}, objective, bound, gap, boundPods, wouldFitIfEmpty,
             conditions, assignment {nodes, pods}, summary {spread "S/R", gap "0.0%", pods "96/96"}

``summary`` is what ``kubectl get gangplans`` prints.  ``assignment.nodes`` is base64 of zlib of the node names in the
order of ranks, one a line; ``assignment.pods`` is base64 of 16 bytes a rank, the UID of its pod (all zero: none).
12,500 ranks take some 300 kB; etcd takes 1.5 MB.
"""

from __future__ import annotations

from typing import Any

import msgspec

from extender.gangs import GangKey
from extender.gangs.parallelism import format_parallelism, parse_parallelism
from extender.names import GROUP, KIND, VERSION
from extender.objects import instant
from extender.plans.conditions import decode_condition, encode_condition, given, timestamp
from extender.plans.packing import pack_names, pack_uids, unpack_names, unpack_uids
from extender.plans.plan import Phase, Plan, Spec, object_name
from extender.plans.schema import DocumentPart
from scheduler.job import Hold
from topology.errors import InvalidInput


def encode_plan(plan: Plan) -> dict[str, Any]:
    """The GangPlan, ready to be written as JSON.

    Its metadata has name and namespace, and uid and resourceVersion where they are known.
    """
    metadata = {"name": object_name(plan.key), "namespace": plan.key.namespace}
    if plan.uid:
        metadata["uid"] = plan.uid
    if plan.resource_version:
        metadata["resourceVersion"] = plan.resource_version
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": metadata,
        "spec": encode_spec(plan),
        "status": encode_status(plan),
    }


def encode_spec(plan: Plan) -> dict[str, Any]:
    """What was asked; fields that nobody gave are left out."""
    spec = plan.spec
    fields: dict[str, Any] = {
        "gang": plan.key.name,
        "dialect": spec.dialect or None,
        "size": spec.size,
        "gpusPerNode": spec.gpus_per_node or None,
        "priority": spec.priority,
    }
    if spec.parallelism is not None:
        fields |= {
            "parallelism": format_parallelism(spec.parallelism),
            "order": spec.parallelism.order,
            "alpha": spec.alpha,
            "level": spec.level,
            "avoid": spec.avoid,
            "holds": [{"family": hold.family, "level": hold.level} for hold in spec.holds],
        }
    return given(fields)


def encode_status(plan: Plan) -> dict[str, Any]:
    """What was decided; fields that are not known are left out."""
    spread, gap = plan.spread, plan.gap
    return given(
        {
            "phase": plan.phase.value,
            "reason": plan.reason or None,
            "message": plan.message or None,
            "expires": timestamp(plan.expires) if plan.expires is not None else None,
            "spread": None if spread is None else {"dp": spread[0], "pp": spread[1]},
            "objective": plan.objective,
            "bound": plan.bound,
            "gap": gap,
            "boundPods": plan.bound_pods,
            "wouldFitIfEmpty": plan.would_fit_if_empty,
            "conditions": [encode_condition(one) for one in plan.conditions],
            "assignment": given({"nodes": pack_names(plan.nodes), "pods": pack_uids(plan.pods)}) or None,
            "summary": given(
                {
                    "spread": None if spread is None else f"{spread[0]}/{spread[1]}",
                    "gap": None if gap is None else f"{gap:.1%}",
                    "pods": f"{plan.bound_pods}/{plan.size}" if plan.size else None,
                }
            ),
        }
    )


def decode_plan(raw: bytes | dict[str, Any]) -> Plan:
    """A plan from its GangPlan.

    :raises InvalidInput: not a GangPlan that Arnold wrote; ``where`` says which.
    """
    try:
        found = _decoder.decode(raw) if isinstance(raw, bytes) else msgspec.convert(raw, DocumentPart)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable("", str(error)) from None
    where = f"{found.metadata.namespace}/{found.metadata.name}"
    spec, status = found.spec, found.status
    try:
        nodes, pods = unpack_names(status.assignment.nodes), unpack_uids(status.assignment.pods)
        if pods and len(pods) != len(nodes):
            raise ValueError(f"assignment has {len(nodes)} nodes and {len(pods)} pods")
        return Plan(
            key=GangKey(found.metadata.namespace or "default", spec.gang or found.metadata.name),
            phase=Phase(status.phase),
            spec=Spec(
                dialect=spec.dialect,
                size=spec.size,
                gpus_per_node=spec.gpus_per_node,
                parallelism=parse_parallelism(spec.parallelism, order=spec.order) if spec.parallelism else None,
                alpha=spec.alpha,
                level=spec.level,
                avoid=spec.avoid,
                holds=tuple(Hold(hold.family, hold.level) for hold in spec.holds),
                priority=spec.priority,
            ),
            uid=found.metadata.uid,
            resource_version=found.metadata.resource_version,
            nodes=nodes,
            pods=pods,
            spread=None if status.spread is None else (status.spread.dp, status.spread.pp),
            objective=status.objective,
            bound=status.bound,
            gap=status.gap,
            expires=None if status.expires is None else instant(status.expires),
            bound_pods=status.bound_pods,
            would_fit_if_empty=status.would_fit_if_empty,
            reason=status.reason,
            message=status.message,
            conditions=tuple(map(decode_condition, status.conditions)),
            created=instant(found.metadata.creation_timestamp) if found.metadata.creation_timestamp else None,
        )
    except (ValueError, InvalidInput) as error:
        raise _unreadable(where, str(error)) from None


_decoder = msgspec.json.Decoder(DocumentPart)


def _unreadable(where: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"GangPlan cannot be read: {what}", where=where, fix="delete it; the gang is planned again from its pods"
    )
