"""The page of an analysis: the verdict, whom it blames, a slow step beside what it could be, what costs how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from arnold.pages.stragglers.heat_map import heat_map, shade, top_of
from arnold.pages.stragglers.lanes import KINDS, Pipeline, lanes_drawing
from arnold.pages.stragglers.step_chart import step_chart
from arnold.pages.stragglers.words import percent, plain, seconds, times
from health.whatif.blame import SlowWorker
from health.whatif.result import Analysis, Timelines
from topology.drawing.labels import plural
from topology.drawing.templates import asset, render
from topology.flags import NodeFlag

OWN = "arnold.pages.stragglers"
SHARED = "arnold.pages"
"""Where the style sheet that all pages share lies."""

APART = 1.02
"""How much slower than the usual one a data-parallel rank must be for the two to be shown beside each other."""

CAUSES = {
    "worker": "slow workers",
    "last-stage": "the last pipeline stage",
    "sequence-length": "uneven sequence lengths",
    "garbage-collection": "garbage collection",
    "none": "nothing to attribute",
    "unknown": "not explained by a rule",
}
"""Causes as they are shown."""


class OptypeRow(NamedTuple):
    """A line of the table of operation types."""

    optype: str
    slowdown: str
    waste: str
    length: float
    worst: bool


def straggler_page(
    analysis: Analysis,
    timelines: Timelines,
    *,
    title: str,
    verdict: Sequence[str],
    workers: Sequence[SlowWorker] = (),
    nodes: Mapping[tuple[int, int], str] | None = None,
    flags: Sequence[NodeFlag] = (),
    notes: Sequence[str] = (),
) -> str:
    """One self-contained page; same input, same text.

    :param timelines: of the slowest step at least, see :func:`slowest_step`.
    :param title: name of the job or trace.
    :param verdict: the headline, then what else there is to say in words, a sentence or two each.
    :param workers: those with evidence against them.
    :param nodes: (dp rank, stage) -> node, as far as known.
    :param flags: of nodes, as they were written.
    :param notes: what was left out or assumed.
    """
    step = slowest_step(analysis)
    slowest = divmod(int(np.argmax(analysis.worker_slowdown)), analysis.pp)
    pipelines = _pipelines(analysis, timelines, step)
    raw = {
        "heat": heat_map(analysis.worker_slowdown, analysis.dp_ranks, nodes or {}),
        "lanes": lanes_drawing(pipelines, title=f"Step {analysis.steps[step]} over time, as traced and as it could be"),
        "chart": step_chart(analysis.steps, analysis.step_slowdown, analysis.slowdown),
        "style": asset(SHARED, "pages.css") + asset(OWN, "stragglers.css"),
    }
    return render(
        OWN,
        "stragglers.html.j2",
        raw=raw,
        title=title,
        verdict=list(verdict),
        shape=_shape(analysis),
        facts=_facts(analysis, slowest),
        cause=CAUSES[analysis.cause],
        why=analysis.why,
        exact=analysis.worker_slowdown_exact,
        scale=[shade(i / 8) for i in range(9)],
        top=times(top_of(analysis.worker_slowdown)),
        kinds=KINDS,
        slow_step=analysis.steps[step],
        slow_step_seconds=seconds(float(analysis.per_step.seconds[step])),
        slow_step_slowdown=times(float(analysis.step_slowdown[step])),
        ideal_seconds=seconds(analysis.ideal_step_seconds),
        optypes=_optypes(analysis),
        steps=plural(len(analysis.steps), "step"),
        workers=[_worker(worker, nodes or {}) for worker in workers],
        flags=[(flag.node, flag.kind, flag.evidence) for flag in flags],
        notes=list(notes),
        data={},
    )


def slowest_step(analysis: Analysis) -> int:
    """Place of the step that the page draws."""
    return int(np.argmax(analysis.step_slowdown))


def _shape(analysis: Analysis) -> str:
    parts = [f"dp {analysis.dp}", f"pp {analysis.pp}", f"tp {analysis.tp}"]
    if analysis.vpp > 1:
        parts.append(f"vpp {analysis.vpp}")
    return f"{', '.join(parts)}: {plural(analysis.dp * analysis.pp, 'worker')}"


def _worker(worker: SlowWorker, nodes: Mapping[tuple[int, int], str]) -> tuple[str, str, str, str, str]:
    """A slow worker: its name, how much longer it computes, in how many steps, what that costs, where it ran."""
    node = nodes.get((worker.dp, worker.stage), "not known")
    name = f"dp {worker.dp}, stage {worker.stage}"
    return name, times(worker.factor), f"{worker.steps:.0%}", times(worker.slowdown), node


def _facts(analysis: Analysis, slowest: tuple[int, int]) -> list[tuple[str, str, str]]:
    """Large number, what it is, small print."""
    dp, stage = slowest
    worst = float(analysis.worker_slowdown[dp, stage])
    facts = [
        (times(analysis.slowdown), "slowdown", "step time over the step time without stragglers"),
        (percent(analysis.waste), "of the time is lost", "1 - 1/S"),
        (seconds(analysis.step_seconds), "a step", f"{seconds(analysis.ideal_step_seconds)} without stragglers"),
        (times(worst), "slowest worker alone", f"dp {analysis.dp_ranks[dp]}, stage {stage}; all others ideal"),
    ]
    if analysis.slowest is not None:
        count = len(analysis.slowest.workers)
        who = "the slowest worker accounts" if count == 1 else f"the {count} slowest workers account"
        measure = "M_W: what" if analysis.slowest.published else "what, by S_w,"
        facts.append((plain(analysis.slowest.share), "explained by workers", f"{measure} {who} for"))
    if analysis.m_s is not None:
        facts.append((plain(analysis.m_s), "by the last stage", "M_S; below 0 or above 1 where idealising moves work"))
    return facts


def _pipelines(analysis: Analysis, timelines: Timelines, step: int) -> list[Pipeline]:
    """The slowest data-parallel rank of a step as traced, a usual one where they differ, and the ideal."""
    order = np.argsort(analysis.dp_slowdown, kind="stable")
    slow, usual = int(order[-1]), int(order[(len(order) - 1) // 2])
    number = analysis.steps[step]
    place = timelines.traced.steps.index(number)
    apart = analysis.dp_slowdown[slow] > APART * analysis.dp_slowdown[usual]
    shown = [(slow, ", the slowest"), (usual, ", a usual one")] if apart else [(slow, "")]
    made = [
        Pipeline(f"step {number} as traced: dp {analysis.dp_ranks[dp]}{words}", timelines.traced, dp, place)
        for dp, words in shown
    ]
    made.append(Pipeline("without stragglers", timelines.ideal, slow, place))
    return made


def _optypes(analysis: Analysis) -> list[OptypeRow]:
    """Types by what they cost, the dearest first."""
    waste = {optype: 1.0 - 1.0 / slowdown for optype, slowdown in analysis.by_optype.items()}
    longest = max(0.05, *waste.values()) if waste else 0.05
    return [
        OptypeRow(
            optype=optype,
            slowdown=times(analysis.by_optype[optype]),
            waste=percent(share),
            length=round(100 * max(share, 0.0) / longest, 2),
            worst=share == max(waste.values()) and share >= 0.01,
        )
        for optype, share in sorted(waste.items(), key=lambda item: -item[1])
    ]
