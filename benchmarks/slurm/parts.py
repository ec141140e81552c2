"""The parts of the benchmark ``slurm``, and what may be said about each on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable

SLURM = ("choices", "rules", "serve")  # All parts


def add_slurm(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command, by a function that adds one with its name, what runs it and a line about it."""
    command = add("slurm", _run, "20 shapes on a real Slurm: its nodes and ranks, Arnold's, and our copy of its rules")
    command.add_argument("--parts", nargs="+", default=list(SLURM), choices=SLURM, metavar="PART")
    command.add_argument("--root", help="chroot of the Slurm, of ARNOLD_SLURM_ROOTS (default: the newest Slurm here)")
    command.add_argument("--seed", type=int, default=1, help="of the busy nodes")
    command.add_argument("--shapes", type=int, default=20, help="of the table, the first (default all 20)")
    command.add_argument("--seconds", type=float, default=600.0, help="of the idle daemon (default 600)")
    command.add_argument("--rounds", type=int, default=10, help="jobs that wait for room, of serve (default 10)")
    command.add_argument("--states", type=int, default=100, help="of rules (default 100)")


def _run(options: argparse.Namespace) -> str:
    from benchmarks.slurm import choices, serving

    install, shapes = choices.newest(options.root), choices.SHAPES[: options.shapes]
    parts: dict[str, Callable[[], str]] = {
        "choices": lambda: choices.report(install, choices.measure(install, seed=options.seed, shapes=shapes)),
        "rules": lambda: choices.compare_rules(install, states=options.states, seed=options.seed, shapes=shapes),
        "serve": lambda: serving.report(install, seconds=options.seconds, rounds=options.rounds),
    }
    return "\n".join(parts[part]() for part in options.parts)
