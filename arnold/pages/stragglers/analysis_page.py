"""The page of an analysis: the verdict, the workers to blame, a slow step beside its ideal, what costs how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arnold.pages.stragglers.heat_map import heat_map, shade, top_of
from arnold.pages.stragglers.lanes import KINDS, Pipeline, lanes_drawing
from arnold.pages.stragglers.step_chart import step_chart
from ground.quantities import fixed, percent, plural, seconds, times
from health.whatif.analysis_result import Analysis, Timelines
from health.whatif.slow_workers import SlowWorker, worker_names
from topology.drawing.page_kit import render
from topology.flags import NodeFlag

APART = 1.02
"""How much slower than the usual one a data-parallel rank must be for the two to be shown beside each other."""

LEAST_LONGEST = 0.05  # Share of time lost that at least has the longest bar: what is next to nothing looks like it
CAUSES = {
    "worker": "slow workers",
    "link": "a slow link",
    "stage": "a stage of one rank",
    "last-stage": "the last pipeline stage",
    "sequence-length": "uneven sequence lengths",
    "garbage-collection": "garbage collection",
    "late-rank": "a rank that others wait for",
    "none": "nothing to attribute",
    "unknown": "not explained by a rule",
}
"""Causes as they are shown."""


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
    """Return one self-contained page; same input, same text.

    :param timelines: of the slowest step at least, see :func:`slowest_step`.
    :param title: name of the job or trace.
    :param verdict: the headline, then what else there is to say in words, a sentence or two each.
    :param workers: those with evidence against them.
    :param nodes: (dp rank, stage) -> node, as far as known.
    :param flags: of nodes, as they were written.
    :param notes: what was left out or assumed.
    """
    step = slowest_step(analysis)
    drawn = f"Step {analysis.steps[step]} over time, as traced and as it could be"
    raw = {
        "heat": heat_map(analysis.worker_slowdown, analysis.dp_ranks, nodes or {}),
        "lanes": lanes_drawing(_pipelines(analysis, timelines, step), title=drawn),
        "chart": step_chart(analysis.steps, analysis.step_slowdown, analysis.slowdown, _onsets(workers)),
    }
    return render(
        "arnold.pages.stragglers",
        "stragglers.html.j2",
        raw=raw,
        styles=("pages.css", "charts.css", "stragglers.css"),
        title=title,
        verdict=list(verdict),
        shape=_shape(analysis),
        tiles=_facts(analysis),
        cause=CAUSES[analysis.cause],
        why=analysis.why,
        kinds=KINDS,
        onset=bool(_onsets(workers)),
        workers=workers,
        nodes=nodes or {},
        flags=flags,
        sentences=list(notes),
        data={},
        **_heat_words(analysis),
        **_step_words(analysis, step),
        **_losses(analysis),
    )


def _onsets(workers: Sequence[SlowWorker]) -> dict[int, str]:
    """Return number of a step -> the workers that are slow from it on."""
    steps = sorted({worker.since_step for worker in workers if worker.since_step is not None})
    return {step: worker_names([worker for worker in workers if worker.since_step == step]) for step in steps}


def _shape(analysis: Analysis) -> str:
    """Return the degrees of the job and its number of workers in words."""
    sizes = [f"dp {analysis.dp}", f"pp {analysis.pp}", f"tp {analysis.tp}"]
    sizes += [f"vpp {analysis.vpp}"] if analysis.vpp > 1 else []
    return f"{', '.join(sizes)}: {plural(analysis.dp * analysis.pp, 'worker')}"


def _heat_words(analysis: Analysis) -> dict[str, Any]:
    """Return what stands beside the heat map."""
    return {
        "exact": analysis.worker_slowdown_exact,
        "scale": [shade(i / 8) for i in range(9)],
        "top": times(top_of(analysis.worker_slowdown)),
    }


def _step_words(analysis: Analysis, step: int) -> dict[str, Any]:
    """Return what the page says of the steps, and of that which it draws."""
    return {
        "slow_step": analysis.steps[step],
        "slow_step_seconds": seconds(float(analysis.per_step.seconds[step])),
        "slow_step_slowdown": times(float(analysis.step_slowdown[step])),
        "ideal_seconds": seconds(analysis.ideal_step_seconds),
        "steps": plural(len(analysis.steps), "step"),
    }


def _losses(analysis: Analysis) -> dict[str, Any]:
    """Return bars of the kinds of operations, the greatest loss first: as slowdown and as share of the time."""
    ordered = sorted(analysis.by_optype.items(), key=lambda item: -item[1])
    bars = [(optype, slowdown, 1 - 1 / slowdown) for optype, slowdown in ordered]
    return {"optypes": bars, "longest": max([LEAST_LONGEST, *(share for _, _, share in bars)])}


def slowest_step(analysis: Analysis) -> int:
    """Return the place of the step that the page draws."""
    return int(np.argmax(analysis.step_slowdown))


def _facts(analysis: Analysis) -> list[tuple[str, str, str]]:
    """Return tiles: large number, what it is, small print."""
    dp, stage = divmod(int(np.argmax(analysis.worker_slowdown)), analysis.pp)
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
        facts.append((fixed(analysis.slowest.share), "explained by workers", f"{measure} {who} for"))
    if analysis.m_s is not None:
        facts.append((fixed(analysis.m_s), "by the last stage", "M_S; below 0 or above 1 where idealising moves work"))
    return facts


def _pipelines(analysis: Analysis, timelines: Timelines, step: int) -> list[Pipeline]:
    """Return the slowest data-parallel rank of a step as traced, a usual one where they differ, and the ideal."""
    order = np.argsort(analysis.dp_slowdown, kind="stable")
    slow, usual = int(order[-1]), int(order[(len(order) - 1) // 2])
    number = analysis.steps[step]
    place = timelines.traced.steps.index(number)
    apart = analysis.dp_slowdown[slow] > APART * analysis.dp_slowdown[usual]
    shown = [(slow, ", the slowest"), (usual, ", a usual one")] if apart else [(slow, "")]
    return [
        *(
            Pipeline(f"step {number} as traced: dp {analysis.dp_ranks[dp]}{words}", timelines.traced, dp, place)
            for dp, words in shown
        ),
        Pipeline("without stragglers", timelines.ideal, slow, place),
    ]
