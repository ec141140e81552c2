"""Runs with failures and preemptions, drawn from a seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from simulator.history import RunHistory
from simulator.hooks import Incident
from simulator.replay import Replay
from tests.simulator.clusters import racks
from tests.simulator.replays import KeepsHalf, random_records, replayed

NODES = 4


def disturbed(seed: int, *, policy: str = "priority-preempt", shift: float = 0.0) -> tuple[Replay, RunHistory]:
    """Thirty jobs on four nodes, two of which go away and come back, one after the other.

    :param shift: seconds by which everything happens later.
    """
    rng = Random(seed)
    incidents = []
    for node in (0, 1):
        down = shift + 100.0 + 800.0 * node + rng.uniform(0, 300)
        incidents += [Incident(down, "down", node), Incident(down + rng.uniform(10, 300), "up", node)]
    records = random_records(seed, 30, most=8 * (NODES - 1))
    records = [replace(record, submit=record.submit + shift) for record in records]
    return replayed(records, racks(NODES), policy=policy, incidents=incidents, recovery=KeepsHalf(5.0))
