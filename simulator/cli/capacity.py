"""``arnold capacity``: one command for each question."""

from __future__ import annotations

from scheduler.cli.commands import CommandRow, LazyGroup

COMMANDS = {
    "minipods": CommandRow("simulator.cli.capacity_minipods:command", "Minipod size and oversubscription."),
    "spares": CommandRow("simulator.cli.capacity_spares:command", "Spares for a target ETTR."),
    "reserve": CommandRow("simulator.cli.capacity_reserve:command", "When a large job fits, what reserving costs."),
    "fragmentation": CommandRow("simulator.cli.capacity_fragmentation:command", "What still fits, by job shape."),
    "grow": CommandRow("simulator.cli.capacity_grow:command", "What one more minipod buys."),
}

command = LazyGroup(
    name="capacity",
    table=COMMANDS,
    help="Say what to buy, reserve and keep spare.  Every answer lists its assumptions.",
    epilog="Each explains itself: arnold capacity spares --help.",
)
