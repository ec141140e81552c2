"""A site with jobs placed on it: what it draws, under remedies, in events, and with a job spread over power domains."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, inf

import numpy as np

from ground.errors import Infeasible
from health.whatif.optypes import COMPUTE
from health.whatif.trace import read_trace
from scheduler.algorithm_run import run
from scheduler.job import Count, Job
from scheduler.objective import Evaluation
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.power_caps import PowerCaps
from simulator.capacity.cluster_question import parse_job
from simulator.power_file import NodeWatts
from simulator.site_power import PowerLoad, SitePower, loads_of, stored
from topology.cluster import SECOND, Cluster, FloatArray, IntArray, Level


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
    gangs = list[PlacedGang]()
    for text in jobs:
        shape, rows = parse_job(text, gpus_per_node=cluster.node_size)
        placed = place_gang(cluster, shape.job(rows), limits)
        if placed is None:
            raise Infeasible(f"job {text} finds no room", where="--grid", fix="choose smaller jobs, or fewer")
        gangs.append(placed)
        cluster = cluster.with_busy(placed.nodes.ravel().tolist())
    return tuple(gangs)


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
        loads = []
        for i, gang in enumerate(self.gangs):
            for load in loads_of(self.cluster, gang.nodes, self.settings):
                high, idle = load.watts.compute, load.watts.idle
                watts = NodeWatts(high, min(high, max(idle, values["dip"] * high)), idle)
                share, step = min(1.0, values["share"]), values[f"step{i}"]
                loads.append(replace(load, watts=watts, step=step, share=share, phase=float(phases[i])))
        return loads

    def power_by_remedy(self, loads: Sequence[PowerLoad]) -> dict[str, tuple[FloatArray, float]]:
        """Return the power of the site over time, watts, and the mean that a remedy takes more: as it comes, in phase,
        staggered, with a floor, with storage.
        """
        now, settings = self.drawn(loads), self.settings
        floored = self.drawn(loads, floor=settings.floor_share)
        return {
            "as it comes": (now, 0.0),
            "all in phase": (self.drawn([replace(load, phase=0.0) for load in loads]), 0.0),
            "staggered": (self.drawn(self.staggered(loads)), 0.0),
            f"floor of {settings.floor_share:.0%}": (floored, float((floored - now).mean())),
            f"storage of {settings.storage_joules:g} J a node": (
                stored(now, settings.storage_joules * len(self.cluster)),
                0.0,
            ),
        }

    def events(self, loads: Sequence[PowerLoad]) -> dict[str, FloatArray]:
        """Return the power of the site while the largest job starts, writes a checkpoint, stops, in the middle."""
        middle, settings = self.seconds / 2, self.settings
        mine = {*self.gangs[self.largest].nodes.ravel().tolist()}
        written = middle - settings.checkpoint_every + settings.checkpoint_seconds
        changes = {"starts": (middle, inf), "stops": (-inf, middle)}
        if settings.checkpoint_seconds:
            changes["writes a checkpoint"] = (written, inf)
        return {
            f"the largest job {name}": self.drawn(
                [replace(load, begin=begin, end=end) if int(load.nodes[0]) in mine else load for load in loads]
            )
            for name, (begin, end) in changes.items()
        }

    def worst_domains(self, loads: Sequence[PowerLoad]) -> Iterator[tuple[str, FloatArray]]:
        """Yield the domain with the largest swing, and its power: of the closest level, the power domains, the site."""
        for level in dict.fromkeys((*self.cluster.levels[-1:], *((self.level,) if self.level else ()))):
            name, watts = self.worst(level, loads)
            yield f"{level.name.removeprefix(SECOND)} {name}", watts
        yield "site", self.drawn(loads)

    def placements(self, level: Level) -> Iterator[tuple[str, PlacedGang]]:
        """Yield placements of the largest job beside the others: held together in few domains of a level by soft
        counts, as it is, and spread over more by caps, so that it takes a share of the nodes of each and no more.
        """
        own = self.gangs[self.largest]
        others = [node for gang in self.gangs if gang is not own for node in gang.nodes.ravel().tolist()]
        cluster = self.cluster.with_busy(others)
        counts = tuple(Count(family, level.name, 1.0) for family in ("dp", "pp"))
        held = place_gang(cluster, own.job.replace(counts=counts), self.limits)
        if held is not None:
            yield "held together", held
        yield "as it comes", own
        idle, now = cluster.idle, int(np.bincount(level.domain_of[own.nodes.ravel()]).max())
        free, size = np.bincount(level.domain_of[idle], minlength=len(level)), own.nodes.size
        # the least that the job must take of some domain
        evenly = next((most for most in range(1, size) if np.minimum(free, most).sum() >= size), size)
        for most in dict.fromkeys(max(ceil(part * now), evenly) for part in PARTS):
            caps = PowerCaps(level, np.full(len(level), float(most)))
            admitted = caps.admitted(cluster, idle, np.ones(len(cluster)), np.zeros(len(cluster)))
            apart = place_gang(cluster.with_busy(np.flatnonzero(~admitted).tolist()), own.job, self.limits)
            if apart is not None:
                yield f"at most {most} nodes a domain", apart
