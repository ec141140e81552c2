"""Checkpoint peers in sentences: what is kept, what is not, and which rules make it so."""

from __future__ import annotations

import numpy as np

from health.recovery.checkpoint_peers import RULES, Peers, Rule


def peer_sentence(peers: Peers, level: str | None) -> str:
    """Return the assignment in a sentence."""
    size = len(peers.peer)
    broken = {rule: int(peers.shared[rule].sum()) for rule in RULES}
    parts = [f"{number:,} with a peer in their {rule_name(rule, level)}" for rule, number in broken.items() if number]
    if not parts:
        rack = "" if level is None else f" and no {level}"
        return f"Each of {size:,} machines has a peer that shares no PP, DP or TP group{rack} with it."
    return f"Of {size:,} machines {', '.join(parts)}; fewer are impossible."


def peer_notes(peers: Peers, level: str | None) -> tuple[str, ...]:
    """Return which rules are in conflict, how near the peers are, and what must not be lost together."""
    notes = []
    if peers.conflict:
        notes.append(f"Not all rules can be kept: {_why(peers, level)}.")
        notes.append(
            f"Rules give way in this order: DP group, {level or 'rack'}, PP group; no machine backs up itself."
        )
    far = int((peers.distance > 0).sum())
    if far:
        notes.append(f"{far:,} peers are beyond the nearest broader domain; nearer is impossible with these rules.")
    notes.append(
        f"{peers.fatal_pairs:,} pairs of machines must not be lost together; "
        f"{peers.mutual:,} machines keep the backup of their own peer."
    )
    return tuple(notes)


def rule_name(rule: Rule, level: str | None) -> str:
    """Return what a rule forbids to share."""
    return {"dp": "DP group", "pp": "PP group", "level": level or "rack"}[rule]


def _why(peers: Peers, level: str | None) -> str:
    grid, size = peers.machines.job.grid, len(peers.peer)
    names = [rule_name(rule, level) for rule in peers.conflict]
    match peers.conflict:
        case ("dp",) if grid.columns == 1:
            return "the job has one pipeline stage at node level, so that all its machines are in one DP group"
        case ("pp",) if grid.rows == 1:
            return "the job has one replica at node level, so that all its machines are in one PP group"
        case ("level",):
            largest = int(np.unique(peers.domain, return_counts=True)[1].max())
            return f"one {level} holds {largest:,} of the {size:,} machines, more than half"
        case _:
            return f"{' and '.join(names)} together leave some machine without a peer of its own"
