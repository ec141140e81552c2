"""Queue policies by name, as installed packages offer them."""

from __future__ import annotations

from scheduler.queue.types import QueuePolicy
from topology.plugins import PluginGroup

POLICIES: PluginGroup[QueuePolicy] = PluginGroup("arnold.queue", unknown="no queue policy is called", where="--policy")
"""All installed queue policies."""
