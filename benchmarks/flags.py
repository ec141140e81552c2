"""A flag store of many events: what it takes to record, to show and to say why."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.commands import CommandRun, run_command
from benchmarks.report import section, table
from topology.flags import NodeFlag

EVERY = timedelta(minutes=8)  # How often a detector looks, after Minder (arXiv 2411.01791)

EVIDENCE = "PFC Tx packet rate unlike that of the other machines, distance 4.2, for 240 s"


def measure(*, nodes: int, rounds: int) -> tuple[float, list[tuple[str, CommandRun]]]:
    """A store in which so many nodes were found slow so many times.

    :returns: its size in bytes, and each command with its run.
    :raises RuntimeError: a command failed.
    """
    with TemporaryDirectory() as name:
        store, more = Path(name) / "flags.db", Path(name) / "more.json"
        _fill(store, nodes, rounds)
        names = [f"n{i:05}" for i in range(nodes)]
        found = [{"node": n, "kind": "straggler", "slowdown": 1.5, "source": "peers", "evidence": "x"} for n in names]
        more.write_text(json.dumps(found), encoding="utf-8")
        size = store.stat().st_size
        runs = [
            ("record", run_command("flags", "record", "--store", str(store), str(more))),
            ("show", run_command("flags", "show", "--store", str(store))),
            ("why", run_command("flags", "why", names[0], "--store", str(store))),
        ]
    return size, runs


def report(size: float, runs: Sequence[tuple[str, CommandRun]], *, nodes: int, rounds: int) -> str:
    """Time and memory of each command."""
    rows = [(name, f"{run.seconds:.2f}", f"{run.peak / 1e6:.0f}") for name, run in runs]
    return section(
        f"A flag store of {nodes * rounds:,} events ({nodes:,} nodes found {rounds:,} times), {size / 1e6:.0f} MB",
        table(["command", "seconds", "MB"], rows),
        "Whole processes, interpreter and imports included.",
    )


def _fill(store: Path, nodes: int, rounds: int) -> None:
    from health.flags import open_ledger

    begin = datetime.now(UTC) - (rounds + 1) * EVERY
    flags = [NodeFlag(f"n{i:05}", "straggler", 1.5, source="peers", evidence=EVIDENCE) for i in range(nodes)]
    with open_ledger(store, now=begin) as ledger:
        for i in range(rounds):
            ledger.record(flags, now=begin + i * EVERY)
