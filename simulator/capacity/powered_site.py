"""A site with jobs placed on it: what it draws, under remedies, in events, and with a job spread over power domains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, inf

import numpy as np

from ground.errors import Infeasible
from ground.quantities import percent
from health.whatif.optypes import COMPUTE
from health.whatif.trace import read_trace
from scheduler.algorithm_run import run
from scheduler.job import Count, Job
from scheduler.objective import Evaluation, objective_of
from scheduler.placement.types import ALGORITHMS, Limits, corners
from scheduler.power_caps import PowerCaps
from simulator.capacity.cluster_question import parse_job
from simulator.capacity.power_answer import PowerAnswer, PowerRow, PowerSpread
from simulator.power_file import NodeWatts, PowerSettings
from simulator.sheet import Chart, Series, Sheet, TextTable, text_table
from simulator.site_power import MEGA, RATE, PowerLoad, SitePower, loads_of, ramps, spectrum, stored
from topology.cluster import SECOND, BoolArray, Cluster, FloatArray, IntArray, Level

# -- traced_steps --
# Step time and compute share of a job, from the op trace of a what-if analysis.


def traced_step(file: str) -> tuple[float, float]:
    """Return the mean seconds of a step of a traced job, and the share of it in which a worker computes.

    Waits between compute operations, bubbles of a pipeline among them, do not count as computing.

    :raises InvalidInput: the file is no op trace.
    """
    trace = read_trace(file)
    seconds = (trace.start + trace.duration).max(axis=(0, 1)).astype(np.float64)
    computing = [operation.optype in COMPUTE for operation in trace.operations]
    stages = len({operation.stage for operation in trace.operations})
    busy = trace.duration[computing].sum(axis=(0, 1)).astype(np.float64) / (stages * len(trace.dp_ranks))
    return float(seconds.mean()), float(np.clip(busy / seconds, 0.0, 1.0).mean())


# -- powered_site --
# A site with jobs placed on it: what it draws, under remedies, in events, and with a job spread over power domains.


PARTS = (0.75, 0.5, 0.0)  # Of the most nodes that a job now has in a power domain; 0 = as evenly as can be


@dataclass(frozen=True, slots=True)
class PlacedGang:
    """A job and where it lies."""

    job: Job
    nodes: IntArray
    worth: Evaluation


def place_in_turn(cluster: Cluster, jobs: Sequence[str], limits: Limits) -> tuple[PlacedGang, ...]:
    """Return jobs of shapes like ``8x8x32``, each placed by the exact algorithm beside those before it.

    :raises Infeasible: one finds no room.
    """
    found = list[PlacedGang]()
    for text in jobs:
        shape, rows = parse_job(text, gpus_per_node=cluster.node_size)
        placed = place_gang(cluster, shape.job(rows), limits)
        if placed is None:
            raise Infeasible(f"job {text} finds no room", where="--grid", fix="choose smaller jobs, or fewer")
        found.append(placed)
        cluster = cluster.with_busy(placed.nodes.ravel().tolist())
    return tuple(found)


def place_gang(cluster: Cluster, job: Job, limits: Limits) -> PlacedGang | None:
    """Return where the exact algorithm puts a job; ``None`` = it found nothing."""
    outcome = run(ALGORITHMS.load("exact"), cluster, job, limits)
    if outcome.proposal.nodes is None or outcome.evaluation is None:
        return None
    return PlacedGang(job, outcome.proposal.nodes, outcome.evaluation)


@dataclass(frozen=True, kw_only=True, eq=False)
class PoweredSite(SitePower):
    """A site with jobs on it."""

    gangs: tuple[PlacedGang, ...]
    limits: Limits  # of each placement

    @cached_property
    def largest(self) -> int:
        """Number of the job with the most nodes."""
        return max(range(len(self.gangs)), key=lambda i: self.gangs[i].nodes.size)

    def loads(self, values: Mapping[str, float]) -> list[PowerLoad]:
        """Return what runs when the inputs of the question have some values."""
        phases = np.random.default_rng(int(values["seed"])).random(len(self.gangs))
        found = []
        for i, gang in enumerate(self.gangs):
            for load in loads_of(self.cluster, gang.nodes, self.settings):
                high, idle = load.watts.compute, load.watts.idle
                watts = NodeWatts(high, min(high, max(idle, values["dip"] * high)), idle)
                share, step = min(1.0, values["share"]), values[f"step{i}"]
                found.append(replace(load, watts=watts, step=step, share=share, phase=float(phases[i])))
        return found

    def row(self, name: str, watts: FloatArray, *, more: float = 0.0) -> PowerRow:
        """Return a row, with the mean power that it takes in addition, watts."""
        found = self.figures(watts)
        return PowerRow(name, found, found.within(self.settings), more / 1e3)

    def remedies(self, loads: Sequence[PowerLoad]) -> dict[str, tuple[FloatArray, float]]:
        """Return the power of the site over time, watts, and the mean that a remedy takes more: as it comes, in phase,
        staggered, with a floor, with storage.
        """
        now, told = self.drawn(loads), self.settings
        floored = self.drawn(loads, floor=told.floor_share)
        return {
            "as it comes": (now, 0.0),
            "all in phase": (self.drawn([replace(load, phase=0.0) for load in loads]), 0.0),
            "staggered": (self.drawn(self.staggered(loads)), 0.0),
            f"floor of {told.floor_share:.0%}": (floored, float((floored - now).mean())),
            f"storage of {told.storage_joules:g} J a node": (stored(now, told.storage_joules * len(self.cluster)), 0.0),
        }

    def events(self, loads: Sequence[PowerLoad]) -> dict[str, FloatArray]:
        """Return the power of the site while the largest job starts, writes a checkpoint, stops, in the middle."""
        middle, told = self.seconds / 2, self.settings
        mine = {*self.gangs[self.largest].nodes.ravel().tolist()}
        written = middle - told.checkpoint_every + told.checkpoint_seconds
        changes = {"starts": (middle, inf), "stops": (-inf, middle)}
        if told.checkpoint_seconds:
            changes["writes a checkpoint"] = (written, inf)
        return {
            f"the largest job {name}": self.drawn(
                [replace(load, begin=begin, end=end) if int(load.nodes[0]) in mine else load for load in loads]
            )
            for name, (begin, end) in changes.items()
        }

    def domain_rows(self, loads: Sequence[PowerLoad]) -> Iterator[PowerRow]:
        """Yield the domain with the largest swing: of the closest level, of the power domains, and the site."""
        for level in dict.fromkeys((*self.cluster.levels[-1:], *((self.level,) if self.level else ()))):
            name, watts = self.worst(level, loads)
            yield self.row(f"{level.name.removeprefix(SECOND)} {name}", watts)
        yield self.row("site", self.drawn(loads))

    def spreads(self, values: dict[str, float]) -> Iterator[PowerSpread]:
        """Yield the largest job held together in few power domains by soft counts, as it is, and spread over more.

        Spread by caps: of each power domain it may take a share of its nodes and no more.
        """
        if self.level is None or len(self.level) < 2:
            return
        found = dict(self._placements(self.level))
        # objectives of Eq. 2 alone: the soft count is the means, not the worth
        worth = {name: objective_of(one.job, one.worth.dp, one.worth.pp) for name, one in found.items()}
        best = min(worth.values())
        rows = []
        for name, one in found.items():
            alone = replace(self, gangs=(one,))
            _, watts = alone.worst(self.level, alone.loads(values | {"step0": values[f"step{self.largest}"]}))
            domains, lost = len(np.unique(self.level.domain_of[one.nodes])), one.job.spread_cost * (worth[name] - best)
            figures = self.figures(watts)
            rows.append(PowerSpread(name, domains, one.worth.dp, one.worth.pp, lost, figures, best=True))
        front = corners((row.figures.swing_megawatts, row.step_lost) for row in rows)
        for row in rows:
            yield replace(row, best=(row.figures.swing_megawatts, row.step_lost) in front)

    def _placements(self, level: Level) -> Iterator[tuple[str, PlacedGang]]:
        """Yield placements of the largest job beside the others, by what they are told of power domains."""
        own = self.gangs[self.largest]
        others = [node for gang in self.gangs if gang is not own for node in gang.nodes.ravel().tolist()]
        cluster = self.cluster.with_busy(others)
        counts = tuple(Count(family, level.name, 1.0) for family in ("dp", "pp"))
        held = place_gang(cluster, own.job.replace(counts=counts), self.limits)
        if held is not None:
            yield "held together", held
        yield "as it comes", own
        idle, now = cluster.idle, int(np.bincount(level.domain_of[own.nodes.ravel()]).max())
        evenly = self._evenly(level, idle, own.nodes.size)
        for most in dict.fromkeys(max(ceil(part * now), evenly) for part in PARTS):
            caps = PowerCaps(level, np.full(len(level), float(most)))
            admitted = caps.admitted(cluster, idle, np.ones(len(cluster)), np.zeros(len(cluster)))
            apart = place_gang(cluster.with_busy(np.flatnonzero(~admitted).tolist()), own.job, self.limits)
            if apart is not None:
                yield f"at most {most} nodes a domain", apart

    @staticmethod
    def _evenly(level: Level, idle: BoolArray, nodes: int) -> int:
        """Return the least number of nodes that a job must take of some domain."""
        free = np.bincount(level.domain_of[idle], minlength=len(level))
        return next((most for most in range(1, nodes) if np.minimum(free, most).sum() >= nodes), nodes)


# -- power_sheet --
# The answer to the question of power as a person reads it: tables, and power over time, its spectrum, its ramps.


SHOWN = 60.0  # Seconds of the figure of power over time
BINS = 12  # Of a decade of frequencies, or of all ramps: as many bars as a figure shows apart
DECADES = range(-2, 2)  # Powers of ten along the axis of frequencies


def power_sheet(answer: PowerAnswer, remedies: Mapping[str, FloatArray], settings: PowerSettings) -> Sheet:
    """Return the sheet.

    :param remedies: power of the site over time under each remedy, watts.
    """
    drawn = {name: watts for name, watts in remedies.items() if name != "all in phase"}
    figures = ("", *answer.remedies[0].figures.cells)
    lines = [
        (row.name, *row.figures.cells.values(), "yes" if row.within else "no", f"{row.more_kilowatts:,.0f}")
        for row in answer.remedies
    ]
    tables = [TextTable("The site, inputs at their medians", (*figures, "as allowed", "more kW"), lines)]
    for title, rows in (("Where it swings most, by level", answer.domains), ("The site in events", answer.events)):
        tables.append(TextTable(title, figures, [(row.name, *row.figures.cells.values()) for row in rows]))
    if answer.spreads:
        spreads: dict[str, Callable[[PowerSpread], str]] = {
            "placed": lambda row: row.name,
            "domains": lambda row: f"{row.domains}",
            "DP spread": lambda row: f"{row.dp}",
            "PP spread": lambda row: f"{row.pp}",
            "step lost": lambda row: percent(row.step_lost),
            "swing MW": lambda row: row.figures.cells["swing MW"],
            "best trade": lambda row: "yes" if row.best else "no",
        }
        level = (answer.level or "").removeprefix(SECOND)
        title = f"The largest job over {level} domains: its own swing where it has most nodes"
        tables.append(text_table(title, answer.spreads, spreads))
    return Sheet(tables, [_trace(drawn), _spectrum(drawn, settings), _histogram(drawn)])


def _trace(drawn: Mapping[str, FloatArray]) -> Chart:
    count = int(SHOWN * RATE)
    # four points a second show what a figure can
    shown = {name: (watts[:count:16] / MEGA).tolist() for name, watts in drawn.items()}
    series = [Series(name, [(16 * i / RATE, y) for i, y in enumerate(ys)], "step") for name, ys in shown.items()]
    return Chart("Power of the site over time", "seconds", "MW", series)


def _spectrum(drawn: Mapping[str, FloatArray], settings: PowerSettings) -> Chart:
    edges = np.arange(DECADES[0] * BINS, 2 * BINS) / BINS
    series = []
    for name, watts in drawn.items():
        frequencies, energy = spectrum(watts)
        sums, _ = np.histogram(np.log10(frequencies), edges, weights=energy)
        series.append(_bars(name, edges, np.sqrt(sums) / MEGA))
    return Chart(
        "Swings by frequency",
        "Hz; the band of the specification between the lines",
        "MW, root of the mean square",
        series,
        floor=0.0,
        ticks=[(float(power), f"{10.0**power:g}") for power in DECADES],
        lines=[(float(np.log10(end)), f"{end:g} Hz") for end in settings.band],
    )


def _histogram(drawn: Mapping[str, FloatArray]) -> Chart:
    found = {name: ramps(watts) / MEGA for name, watts in drawn.items()}
    edges = np.linspace(0.0, max(float(one.max()) for one in found.values()) or 1.0, 2 * BINS + 1)
    series = [_bars(name, edges, np.histogram(one, edges)[0] / len(one)) for name, one in found.items()]
    return Chart("Changes within a second", "MW/s", "share of the time", series, floor=0.0, kind="share")


def _bars(name: str, edges: FloatArray, heights: FloatArray) -> Series:
    """Return steps from each edge to the next; the last ends at nothing."""
    return Series(name, [*zip(edges.tolist(), [*heights.tolist(), 0.0], strict=True)], "step")
