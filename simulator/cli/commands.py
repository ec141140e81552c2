"""The simulator's rows in the table of ``arnold``; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.cli.commands import CommandRow

COMMANDS: Mapping[str, CommandRow] = {
    "simulate": CommandRow("simulator.cli.simulate:command", "Replay a trace of jobs on a cluster, over time."),
    "capacity": CommandRow("simulator.cli.capacity:command", "Say what to buy, reserve and keep spare."),
}

STUDIES: Mapping[str, CommandRow] = {
    "simulate": CommandRow("simulator.cli.study:command", "Policies, algorithms, clusters, loads and seeds, replayed."),
}
"""The simulator's studies, found through the entry points ``arnold.studies``."""

FILES: Mapping[str, str] = {"workload": "simulator.traces.workload_file:WorkloadDocument"}
"""Files that users write for it, described by ``arnold schema``; found through the entry points ``arnold.files``."""
