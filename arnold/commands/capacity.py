"""``arnold capacity``: one command for each question."""

from __future__ import annotations

from arnold.commands.table import CommandRow, LazyGroup

COMMANDS = {
    "minipods": CommandRow("arnold.commands.capacity_minipods:command", "Minipod size and oversubscription."),
    "spares": CommandRow("arnold.commands.capacity_spares:command", "Spares for a target ETTR."),
    "reserve": CommandRow("arnold.commands.capacity_reserve:command", "When a large job fits, what reserving costs."),
    "fragmentation": CommandRow("arnold.commands.capacity_fragmentation:command", "What still fits, by job shape."),
    "grow": CommandRow("arnold.commands.capacity_grow:command", "What one more minipod buys."),
}

command = LazyGroup(
    name="capacity",
    table=COMMANDS,
    help="Say what to buy, reserve and keep spare.  Every answer lists its assumptions.",
    epilog="Each explains itself: arnold capacity spares --help.",
)
