"""A run for a person to read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from arnold.commands.output import console, plain, print_rows, table
from arnold.commands.verbosity import is_quiet
from arnold.documents.replay_tables import replay_tables
from arnold.documents.simulate_answer import SimulateDocument
from simulator.engine.engine import Engine
from simulator.replay import Replay
from simulator.results.run_summary import Distribution
from topology.quantities import duration, percent


def show(document: SimulateDocument, replay: Replay) -> None:
    """Print it."""
    out = console()
    span = "nothing ended" if document.makespan_seconds is None else duration(document.makespan_seconds)
    jobs, nodes = f"{document.completed:,} of {document.jobs:,} jobs", f"{len(replay.cluster):,} nodes"
    out.print(f"{jobs} ended under {document.policy} on {nodes} in {span} of simulated time.")
    times = table("", "mean", "half", "95%", "99%", "longest", title="")
    rows = (
        ("wait", document.wait_seconds),
        ("wait in the trace", document.trace_wait_seconds),
        ("submission to end", document.jct_seconds),
    )
    for label, found in rows:
        if found is not None:
            times.add_row(label, *_cells(found))
    out.print(times)
    numbers = table("", "", title="")
    numbers.add_row("utilization", percent(document.utilization))
    numbers.add_row("goodput", percent(document.goodput))
    numbers.add_row("fragmentation", percent(document.fragmentation))
    numbers.add_row("ETTR", f"{percent(document.ettr)}, {percent(document.ettr_worst_hour)} in the worst hour")
    numbers.add_row("what spread costs", document.cost)
    if document.throughput_lost:
        numbers.add_row("throughput lost to slower steps", percent(document.throughput_lost))
    if document.spread is not None:
        numbers.add_row("mean spread of gangs", f"DP {document.spread.dp:.2f}, PP {document.spread.pp:.2f}")
    rate = document.events / document.wall_seconds if document.wall_seconds else 0.0
    numbers.add_row("events", f"{document.events:,} ({rate:,.0f}/s)")
    numbers.add_row(
        "wall time", f"{document.wall_seconds:.1f} s, {document.policy_seconds:.1f} s of it the scheduler's"
    )
    out.print(numbers)
    for shown in replay_tables(document):
        print_rows(out, shown.headers, [[plain(cell) for cell in row] for row in shown.rows], title=shown.title)
    for reason, count in document.dropped.items():
        out.print(f"Left out: {count:,} ({plain(reason)}).")
    for note in replay.trace.notes:
        out.print(plain(note))


def _cells(found: Distribution) -> tuple[str, ...]:
    return tuple(duration(value) for value in (found.mean, found.p50, found.p95, found.p99, found.max))


@contextmanager
def run_progress(jobs: int) -> Iterator[Callable[[Engine], None] | None]:
    """Show a bar with simulated time and jobs left; call it now and then; ``None`` = stderr is no terminal.

    :param jobs: of the run.
    """
    if not sys.stderr.isatty() or is_quiet():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=jobs)

        def show(engine: Engine) -> None:
            past = duration(engine.now - engine.jobs[0].submitted)
            left = f"{jobs - engine.completed:,} jobs left: {len(engine.backlog):,} wait, {len(engine.active):,} run"
            bar.update(task, completed=engine.completed, description=f"{past} simulated, {left}")

        yield show
