"""A study for a person to read."""

from __future__ import annotations

from arnold.commands.output import console, table
from simulator.study.compared import ComparedMetric, Comparison, RunGroup
from topology.quantities import label_of


def show(compared: Comparison) -> None:
    """Print two tables: times, and everything else; what is the same in all runs is said once."""
    out = console()
    several = len(compared.loads) > 1
    times = [metric for metric in compared.differing if metric.kind == "seconds"]
    others = [metric for metric in compared.differing if metric.kind != "seconds"]
    for metrics, title in ((times, f"{compared.title}: mean over seeds ± half of its 95% interval"), (others, "")):
        if not metrics:
            continue
        load = ("load",) if several else ()
        rows = table("", *load, "runs", *(_lower(metric.title) for metric in metrics), title=title)
        for group in compared.groups:
            runs = str(group.seeds) + (f" +{group.diverged} diverged" if group.diverged else "")
            scale = (f"{group.load:g}",) if several else ()
            rows.add_row(group.name, *scale, runs, *(_cell(group, metric) for metric in metrics))
        out.print(rows)
    if same := ", ".join(f"{_lower(metric.title)} {label_of(value, metric.kind)}" for metric, value in compared.same):
        out.print(f"The same in all runs: {same}.")


def _cell(group: RunGroup, metric: ComparedMetric) -> str:
    band = group.bands.get(metric.column)
    if band is None:
        return "-"
    half = f" ± {label_of(band.half, metric.kind)}" if band.half else ""
    return label_of(band.mean, metric.kind) + half


def _lower(title: str) -> str:
    """Return a title inside a line; acronyms stay."""
    return title if title[:2].isupper() else title[0].lower() + title[1:]
