"""Decisions after a fault: whom to evict, how to find a silent culprit, what to keep warm, where backups lie.

After ByteRobust (arXiv 2509.16293).  Nothing here watches a job: each function turns evidence that is at hand (stack
dumps, failed replays, a failure rate, a placement) into one decision, and says when the evidence does not carry it.
"""

from __future__ import annotations

from health.recovery.checkpoint_peers import Peers, checkpoint_peers
from health.recovery.ettr import cumulative_ettr, sliding_ettr
from health.recovery.eviction import Unit, shared_groups, tally_rounds
from health.recovery.replay import ReplayPlan, plan_replay
from health.recovery.restart import RESTART_COSTS, restart_seconds
from health.recovery.standby import rates_of_pools, standby_pool

__all__ = [
    "RESTART_COSTS",
    "Peers",
    "ReplayPlan",
    "Unit",
    "checkpoint_peers",
    "cumulative_ettr",
    "plan_replay",
    "rates_of_pools",
    "restart_seconds",
    "shared_groups",
    "sliding_ettr",
    "standby_pool",
    "tally_rounds",
]
