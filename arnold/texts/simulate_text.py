"""A run for a person to read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from arnold.console.output import console, is_quiet, plain, print_rows
from arnold.documents.simulate_answer import SimulateDocument
from ground.quantities import duration, percent, plural
from simulator.engine import Engine
from simulator.replay import Replay
from simulator.results import Distribution
from simulator.sheet import TextTable


def show(document: SimulateDocument, replay: Replay, tables: Sequence[TextTable]) -> None:
    """Print it."""
    out = console()
    span = "nothing ended" if document.makespan_seconds is None else duration(document.makespan_seconds)
    jobs, nodes = f"{document.completed:,} of {plural(document.jobs, 'job')}", plural(len(replay.cluster), "node")
    out.print(f"{jobs} ended under {document.policy} on {nodes} in {span} of simulated time.")
    times = {
        "wait": document.wait_seconds,
        "wait in the trace": document.trace_wait_seconds,
        "submission to end": document.jct_seconds,
    }
    rows = [(label, *_cells(time)) for label, time in times.items() if time is not None]
    print_rows(out, ("", "mean", "half", "95%", "99%", "longest"), rows, title="", gap=False)
    rate = document.events / document.wall_seconds if document.wall_seconds else 0.0
    numbers = {
        "utilization": percent(document.utilization),
        "goodput": percent(document.goodput),
        "fragmentation": percent(document.fragmentation),
        "ETTR": f"{percent(document.ettr)}, {percent(document.ettr_worst_hour)} in the worst hour",
        "what spread costs": document.cost,
        "throughput lost to slower steps": document.throughput_lost and percent(document.throughput_lost),
        "mean spread of gangs": (spread := document.spread) and f"DP {spread.dp:.2f}, PP {spread.pp:.2f}",
        "events": f"{document.events:,} ({rate:,.0f}/s)",
        "wall time": f"{document.wall_seconds:.1f} s, {document.policy_seconds:.1f} s of it the scheduler's",
    }
    print_rows(out, ("", ""), [(name, said) for name, said in numbers.items() if said], title="", gap=False)
    for shown in tables:
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
