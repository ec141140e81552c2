"""Options of several commands that no dataclass has, and their help: the same words wherever a name is used."""

from __future__ import annotations

from typing import Any

import click

from arnold.options.field_options import complete_names, file_option

ALGORITHM_HELP = "Placement algorithm, one that `arnold compare --list` names."
AT_HELP = "Time that counts as now, such as 2026-11-17T14:00:00Z, or a day in UTC."
CLUSTER_HELP = "The cluster: a file in any known format, - for standard input; kube:[CONTEXT] or slurm: for a live one."
HOLD_HELP = "Hours for which a flag holds."
PAGE_HELP = "Save a page with tables and drawings: one file that needs no network."
PLACEMENT_HELP = "Placement that `arnold place --output` saved: the nodes of the job."
RUNNING_HELP = (
    "Placements of running jobs, whose nodes are in use: files that `arnold place` saved, or a pattern in quotes."
)
SAVE_HELP = "Folder to write files to; the answer names them."
SEED_HELP = "Seed of all that is drawn: same seed, same answer, where no clock ends a search."
SEEDS_HELP = "Number of seeds, 0 to N-1, each of which draws anew."
STORE_HELP = "Flag store: the file that keeps flags and their history."

flags_out_option = file_option(
    "--flags-out", written=True, help="Write the flags of what was found to this file, for --flags of other commands."
)
"""Give a command ``--flags-out``."""

yes_option = click.option(
    "--yes", is_flag=True, help="Let the flags take out more than a quarter of the nodes, or half of a rack or minipod."
)
"""Give a command ``--yes``."""

html_option = file_option("--html", written=True, help=PAGE_HELP)
"""Give a command ``--html``."""


def lenient_option(function: Any) -> Any:
    """Give a command ``--lenient`` and ``--strict``, as ``lenient``."""
    words = "Leave out what cannot be used and say how much, or stop at the first."
    return click.option("--lenient/--strict", default=False, show_default="strict", help=words)(function)


def complete_algorithm(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return names of algorithms, for the shell."""
    from scheduler.placement.types import ALGORITHMS

    return complete_names(ALGORITHMS.names(), incomplete)


def complete_policy(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return names of queue policies, for the shell."""
    from scheduler.queue.policy import POLICIES

    return complete_names(POLICIES.names(), incomplete)
