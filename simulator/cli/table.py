"""The simulator's commands, found through the entry point ``arnold.commands``: names and a line of help each."""

from __future__ import annotations

from collections.abc import Mapping

COMMANDS: Mapping[str, tuple[str, str]] = {
    "capacity": ("simulator.cli.capacity:command", "Say what to buy, reserve and keep spare."),
}
