"""From suspects to node flags: what a process did makes a node dearer, what its hardware did takes it out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from health.look.evidence import HARDWARE, Suspect
from topology.flags import FALSE_ALARMS, FAULTY, WARNING, FlagKind, NodeFlag

SOURCE = "look"
HOLD = timedelta(hours=24)  # How long a flag holds that is not of hardware
SLOW = {"slow", "slow-link", "slow-node", "metrics-straggler", "throttled"}
MOST = 10.0  # Largest slowdown that is written: beyond it a node is as good as out


def look_flags(suspects: Iterable[Suspect], *, now: datetime) -> tuple[NodeFlag, ...]:
    """Return a flag for each node with a suspect that is at least likely, and is not the program's; the surest first.

    A node whose hardware is certain to be at fault is faulty until it is lifted, others cost a price for a day.
    """
    flags: dict[str, NodeFlag] = {}
    for suspect in suspects:
        if suspect.node is None or suspect.sure == "possible" or suspect.of_program:
            continue
        broken = suspect.kind in HARDWARE and suspect.sure == "certain"
        kind: FlagKind = "faulty" if broken else "straggler" if suspect.kind in SLOW and suspect.factor else "degraded"
        price = min(max(suspect.factor or WARNING, WARNING), MOST)
        flag = NodeFlag(
            suspect.node,
            kind,
            slowdown=FAULTY if broken else price,
            source=SOURCE,
            since=now,
            until=None if broken else now + HOLD,
            evidence=f"{suspect.why[0].file}: {suspect.why[0].says}",
            rank=suspect.rank if suspect.kind not in HARDWARE | SLOW else None,
            hardware=broken,
            probability=FALSE_ALARMS[SOURCE].probability if kind == "straggler" else None,
        )
        flags.setdefault(suspect.node, flag)
    return tuple(flags.values())
