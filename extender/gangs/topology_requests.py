"""What peers' annotations ask of the network, so that their manifests mean here what they meant there.

- Kueue ``podset-required-topology: L``: the whole gang lies inside one domain of L;
  ``podset-preferred-topology: L``: domains of L count;
  ``podset-slice-required-topology: L`` with ``podset-slice-size: s``: each s consecutive ranks lie inside one.
- KAI ``topology-required-placement: L``, ``topology-preferred-placement: L``: as the first two of Kueue.
- Volcano ``network-topology-mode: hard`` with ``-highest-tier: k``: the whole gang lies inside one domain
  of the k-th closest level.
- LeaderWorkerSet ``exclusive-topology: L``: the whole group lies inside one domain of L;
  ``subgroup-exclusive-topology: L`` with ``subgroup-size: s``: each s consecutive ranks lie inside one.
- Native PodGroup ``schedulingConstraints.topology[].key: L``: the whole gang lies inside one domain of L.
- Volcano PodGroup ``networkTopology``: as its annotations.

KAI writes its annotations on the Job, so the maker's count where the pod has none.

Volcano's soft mode names no level and asks for nothing that Arnold does not do anyway.  That an exclusive domain is
shared with no other is not enforced by plans; the anti-affinity that LeaderWorkerSet adds to the pods does it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from extender.gangs import dialects as d
from extender.gangs.types import TopologyRequest
from extender.objects import Owner

_SMALL = re.compile(r"[0-9]{1,6}")


def requests_of(annotations: Mapping[str, str], labels: Mapping[str, str]) -> tuple[TopologyRequest, ...]:
    """Return the requests on one pod, in the order of the table; those that make no sense are left out."""
    found = [
        TopologyRequest(level, hard, key, slice_size=_slice(annotations, size_key))
        for key, hard, size_key in (
            (d.KUEUE_REQUIRED, True, None),
            (d.KUEUE_PREFERRED, False, None),
            (d.KUEUE_SLICE, True, d.KUEUE_SLICE_SIZE),
            (d.KAI_REQUIRED, True, None),
            (d.KAI_PREFERRED, False, None),
            (d.LWS_EXCLUSIVE, True, None),
            (d.LWS_SUBGROUP_EXCLUSIVE, True, d.LWS_SUBGROUP_SIZE),
        )
        if (level := annotations.get(key)) and (size_key is None or _slice(annotations, size_key))
    ]
    mode = annotations.get(d.VOLCANO_MODE, labels.get(d.VOLCANO_MODE))
    tier = annotations.get(d.VOLCANO_TIER, labels.get(f"{d.VOLCANO_TIER}-allowed", ""))
    if mode == "hard" and _SMALL.fullmatch(tier) and int(tier):
        found.append(TopologyRequest(None, True, d.VOLCANO_TIER, tier=int(tier)))
    return tuple(found)


def requests_of_group(group: Owner) -> tuple[TopologyRequest, ...]:
    """Return the requests in a PodGroup, of Kubernetes or of Volcano."""
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
