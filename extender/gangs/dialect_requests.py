"""What the labels and annotations of other projects ask: what belongs together, in which order, and how near."""

from __future__ import annotations

import re
from collections.abc import Mapping

from extender.dialect_names import (
    KAI_PREFERRED,
    KAI_REQUIRED,
    KUEUE_PREFERRED,
    KUEUE_REQUIRED,
    KUEUE_SLICE,
    KUEUE_SLICE_SIZE,
    LWS_EXCLUSIVE,
    LWS_SUBGROUP_EXCLUSIVE,
    LWS_SUBGROUP_SIZE,
    VOLCANO_MODE,
    VOLCANO_TIER,
    VOLCANO_TIER_LABEL,
)
from extender.gangs.types import TopologyRequest
from extender.objects import Owner

_SMALL = re.compile(r"[0-9]{1,6}")


def requests_of(annotations: Mapping[str, str], labels: Mapping[str, str]) -> tuple[TopologyRequest, ...]:
    """Return what the annotations of peers ask of the network, so that their manifests mean here what they meant there.

    - Kueue, KAI: the whole gang lies inside one domain of a required level; domains of a preferred one count.
    - Kueue slices, LeaderWorkerSet subgroups: each so many consecutive ranks lie inside one domain.
    - LeaderWorkerSet ``exclusive-topology``: the whole group does.  That no other shares the domain is not enforced by
      plans; the anti-affinity that LeaderWorkerSet adds to the pods does it.
    - Volcano, hard mode: the whole gang lies inside one domain of the k-th closest level.  Its soft mode names no level
      and asks for nothing that Arnold does not do anyway.

    Requests that make no sense are left out.
    """
    found = [
        TopologyRequest(level, hard, key, slice_size=_slice(annotations, size_key))
        for key, hard, size_key in (
            (KUEUE_REQUIRED, True, None),
            (KUEUE_PREFERRED, False, None),
            (KUEUE_SLICE, True, KUEUE_SLICE_SIZE),
            (KAI_REQUIRED, True, None),
            (KAI_PREFERRED, False, None),
            (LWS_EXCLUSIVE, True, None),
            (LWS_SUBGROUP_EXCLUSIVE, True, LWS_SUBGROUP_SIZE),
        )
        if (level := annotations.get(key)) and (size_key is None or _slice(annotations, size_key))
    ]
    mode = annotations.get(VOLCANO_MODE, labels.get(VOLCANO_MODE))
    tier = annotations.get(VOLCANO_TIER, labels.get(VOLCANO_TIER_LABEL, ""))
    if mode == "hard" and _SMALL.fullmatch(tier) and int(tier):
        found.append(TopologyRequest(None, True, VOLCANO_TIER, tier=int(tier)))
    return tuple(found)


def requests_of_group(group: Owner) -> tuple[TopologyRequest, ...]:
    """Return the requests in a PodGroup of Kubernetes or of Volcano: the whole gang lies inside one domain."""
    constraints, volcano = group.spec.scheduling_constraints, group.spec.network_topology
    topology = (constraints.topology or ()) if constraints is not None else ()
    found = [TopologyRequest(one.key, True, "schedulingConstraints.topology") for one in topology if one.key]
    if volcano is not None and volcano.mode == "hard" and (volcano.highest_tier_allowed or 0) > 0:
        found.append(
            TopologyRequest(None, True, "networkTopology.highestTierAllowed", tier=volcano.highest_tier_allowed)
        )
    return tuple(found)


def _slice(annotations: Mapping[str, str], key: str | None) -> int | None:
    text = annotations.get(key, "") if key else ""
    return int(text) or None if _SMALL.fullmatch(text) else None
