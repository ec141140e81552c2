"""``arnold recover``: decisions after a fault, one command for each."""

from __future__ import annotations

from arnold.commands.command_table import CommandRow, LazyGroup

COMMANDS = {
    "evict": CommandRow("arnold.commands.recover_evict:command", "Say which machines to evict, from stack dumps."),
    "replay": CommandRow("arnold.commands.recover_replay:command", "Find a silent fault by two short runs on parts."),
    "standby": CommandRow("arnold.commands.recover_standby:command", "Say how many machines to keep warm."),
    "peers": CommandRow("arnold.commands.recover_peers:command", "Say which machine keeps whose checkpoint backup."),
}

command = LazyGroup(
    name="recover",
    table=COMMANDS,
    help="Decide after a fault: whom to evict, how to find a silent culprit, what to keep warm, where backups lie.",
    epilog="Each explains itself: arnold recover evict --help.",
)
