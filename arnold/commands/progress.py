"""The bar of a run: simulated time, and jobs left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from simulator.engine.engine import Engine
from topology.quantities import duration


@contextmanager
def run_progress(jobs: int) -> Iterator[Callable[[Engine], None] | None]:
    """Yield something to call now and then; ``None`` where nobody watches.

    :param jobs: of the run.
    """
    if not sys.stderr.isatty():
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
