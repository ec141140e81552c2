"""What a replay says of power, data and start-up as tables: the same for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from arnold.documents.simulate_answer import SimulateDocument
from ground.quantities import duration, number, percent, times
from simulator.sheet import TextTable
from simulator.start_ups import StartUpShare


def replay_tables(document: SimulateDocument) -> Iterator[TextTable]:
    """Yield a table for each of them that was asked for."""
    if document.power:
        headers = ("moment", "domain", "at", *document.power[0].figures.cells, "keeps the specification")
        rows = [
            (one.moment, one.domain, duration(one.seconds), *one.figures.cells.values(), "yes" if one.within else "no")
            for one in document.power
        ]
        yield TextTable("Power around two moments", headers, rows)
    if document.data:
        loads = [
            (one.data_set, f"{one.jobs:,}", number(one.loads), number(one.shared), _fewer(one.loads, one.shared))
            for one in document.data
        ]
        yield TextTable("Samples loaded", ("data set", "jobs", "loads", "if shared", "times fewer"), loads)
    if document.startup:
        ways = [field.name for field in fields(StartUpShare)][3:]
        shares = [
            (one.size, f"{one.starts:,}", duration(one.seconds), *(percent(getattr(one, way)) for way in ways))
            for one in document.startup
        ]
        title = "GPU time held that start-up took, and would take with these techniques alone"
        yield TextTable(title, ("size of job", "starts", "mean", *(way.replace("_", " ") for way in ways)), shares)


def _fewer(loads: float, shared: float) -> str:
    return times(loads / shared) if shared else "-"
