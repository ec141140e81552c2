"""From a diagnosis to node flags.

Only what is certain becomes one, only where the node is known, and never for a mistake of the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from health.collectives.diagnosis import Cause, Culprit, Diagnosis
from health.collectives.diagnosis_text import blame_sentence
from topology.flags import FAULTY, FlagKind, NodeFlag

SOURCE = "collectives"

HOLD = timedelta(hours=24)
"""How long a flag holds: long enough to look at the node, and not for ever if nobody does."""

KINDS: dict[Cause, FlagKind] = {
    "not-launched": "faulty",
    "not-transmitted": "faulty",
    "not-delivered": "faulty",
    "gpu-not-ready": "faulty",
    "unreachable": "faulty",
    "slow-compute": "straggler",
    "slow-gpu": "straggler",
    "slow-transfer": "degraded",
}
"""Causes that point at a node.  A crossed order is the program's, lateness in averages has no cause yet."""


def flags_of(diagnosis: Diagnosis, node_of: Mapping[int, str], *, now: datetime) -> list[NodeFlag]:
    """Return the flags that a diagnosis justifies, one for each node.

    :param node_of: member -> node, of the members whose node is known.
    :param now: for a diagnosis without a time of its own; timezone-aware.
    """
    kind = KINDS.get(diagnosis.cause)
    if kind is None:
        return []
    since = datetime.fromtimestamp(diagnosis.since, UTC) if diagnosis.since is not None else now
    until = max(since, datetime.fromtimestamp(diagnosis.localised, UTC) if diagnosis.localised else since) + HOLD
    flags: dict[str, NodeFlag] = {}
    for culprit in diagnosis.culprits:
        node = node_of.get(culprit.member)
        if culprit.certainty != "certain" or node is None or node in flags:
            continue
        flags[node] = NodeFlag(
            node,
            kind,
            slowdown=FAULTY if kind == "faulty" else max(1.0, culprit.factor or 1.0),
            source=SOURCE,
            since=since,
            until=until,
            evidence=_evidence(diagnosis, culprit),
        )
    return list(flags.values())


def withheld(diagnosis: Diagnosis, node_of: Mapping[int, str]) -> str:
    """Return why nobody is flagged although something is wrong; empty where somebody is, or nothing is."""
    if diagnosis.status == "healthy":
        return ""
    if not diagnosis.culprits:
        return "no node is flagged: the evidence names nobody"
    if diagnosis.cause == "crossed-order":
        return "no node is flagged: the order of collectives is the program's, not a node's"
    if not diagnosis.settled:
        return "no node is flagged: the records do not show that anything stands still"
    if diagnosis.certainty != "certain":
        return "no node is flagged: the evidence does not leave one suspect alone"
    if all(culprit.member not in node_of for culprit in diagnosis.culprits):
        return "no node is flagged: the records do not say which node the rank runs on; --nodes FILE does"
    return ""


def _evidence(diagnosis: Diagnosis, culprit: Culprit) -> str:
    return f"{diagnosis.members[culprit.member].label}: {blame_sentence(diagnosis)}"
