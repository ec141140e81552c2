"""What a site draws in some time, in all and by domain, and phases of its jobs at which it swings less."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from simulator.power.power_figures import figures_of
from simulator.power.power_file import PowerSettings
from simulator.power.power_wave import PowerLoad, node_watts, sample_times, trapezoid
from simulator.power.types import PowerFigures
from topology.cluster import Cluster, FloatArray, Level

PHASES = 120  # That are tried of each job: halves, thirds, quarters and fifths of a step are among them


@dataclass(frozen=True, kw_only=True, eq=False)
class SitePower:
    """What loads draw in some time, on the whole site and in its domains."""

    cluster: Cluster
    settings: PowerSettings
    seconds: float  # that are looked at
    begin: float = 0.0

    @cached_property
    def level(self) -> Level | None:
        """The level of the power domains; ``None`` = the cluster has none of that name."""
        every = (*self.cluster.levels, *self.cluster.second_levels)
        return next((one for one in every if one.name == self.settings.level), None)

    @cached_property
    def times(self) -> FloatArray:
        """Shape [times], seconds."""
        return sample_times(self.seconds, begin=self.begin)

    def drawn(self, loads: Iterable[PowerLoad], *, floor: float = 0.0) -> FloatArray:
        """Return what the whole site draws, shape [times], watts."""
        total = np.full_like(self.times, node_watts(self.cluster, self.settings)[0].sum())
        for load in loads:
            total += len(load.nodes) * load.drawn(self.times, self.settings, floor=floor)
        return total

    def figures(self, watts: FloatArray) -> PowerFigures:
        """Return the figures of power over time."""
        return figures_of(watts, self.settings)

    def worst(self, level: Level, loads: Sequence[PowerLoad]) -> tuple[str, FloatArray]:
        """Return the domain of a level that swings most, and what it draws, shape [times], watts.

        Domains with equally many nodes of each load swing alike and are looked at once: racks are many, mixes few.
        """
        counts = [np.bincount(level.domain_of[load.nodes], minlength=len(level)) for load in loads]
        rows, first = np.unique(np.array(counts).reshape(-1, len(level)).T, axis=0, return_index=True)
        idle = np.bincount(level.domain_of, node_watts(self.cluster, self.settings)[0])
        worst, most = 0, np.zeros_like(self.times)
        for row, domain in zip(rows, first.tolist(), strict=True):
            held = [(row[i], loads[i].drawn(self.times, self.settings)) for i in np.flatnonzero(row).tolist()]
            added = sum((count * each for count, each in held), np.zeros_like(self.times))
            if np.ptp(added) > np.ptp(most):
                worst, most = domain, added
        return level.domains[worst], idle[worst] + most

    def staggered(self, loads: Sequence[PowerLoad]) -> list[PowerLoad]:
        """Return the loads at other phases, those of the largest swings first, each with the least swing so far.

        Equal steps cancel so; of steps that differ no phase is better than another.
        """
        found, total = [*loads], np.zeros_like(self.times)
        size = [len(one.nodes) * one.part * (one.watts.compute - one.watts.communicate) for one in loads]
        for i in sorted(range(len(loads)), key=lambda i: -size[i]):
            turns, edge = self.times / loads[i].step, self.settings.edge_seconds / loads[i].step
            waves = [trapezoid(turns + k / PHASES, loads[i].share, edge) for k in range(PHASES)]
            sums = [total + size[i] * wave for wave in waves]
            best = min(range(PHASES), key=lambda k: (float(np.ptp(sums[k])), float(sums[k].var()), k))
            total, found[i] = sums[best], replace(loads[i], phase=best / PHASES)
        return found
