"""What ``arnold stragglers`` draws: the page and the trace for Perfetto."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from health.whatif import Analysis, Replayed, SlowWorker
    from topology.flags import NodeFlag


def write_page(
    file: str,
    replayed: Replayed,
    analysis: Analysis,
    *,
    workers: Sequence[SlowWorker],
    nodes: Mapping[tuple[int, int], str],
    flags: Sequence[NodeFlag],
    notes: Sequence[str],
) -> None:
    """Write the page of an analysis."""
    from arnold.pages.stragglers import slowest_step, straggler_page
    from health import whatif
    from topology.files import write_file

    words = [whatif.verdict(analysis), *whatif.help_for(replayed, analysis, workers)]
    page = straggler_page(
        analysis,
        whatif.timelines_of(replayed, [slowest_step(analysis)]),
        title=Path(replayed.trace.source).name,
        verdict=[words[0][:1].upper() + words[0][1:], *words[1:]],
        workers=workers,
        nodes=nodes,
        flags=flags,
        notes=notes,
    )
    write_file(file, page)


def write_chrome_trace(file: str, replayed: Replayed, analysis: Analysis) -> list[str]:
    """Write the trace for Perfetto, gzip if the name ends so; says which steps did not fit."""
    from health import whatif
    from health.whatif.chrome_trace import chrome_trace, steps_to_export
    from topology.files import write_file

    steps = steps_to_export(analysis, len(replayed.trace.operations))
    timelines = whatif.timelines_of(replayed, steps)
    write_file(file, chrome_trace(timelines, analysis.dp_ranks, packed=file.endswith(".gz")))
    if len(steps) == len(analysis.steps):
        return []
    return [f"{file} has the {len(steps)} slowest of {len(analysis.steps)} steps: a viewer opens no more."]
