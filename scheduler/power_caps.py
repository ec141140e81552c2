"""Caps on what power domains draw: which nodes a job may have, in replays and on Kubernetes alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from topology.cluster import BoolArray, Cluster, FloatArray, Level


@dataclass(frozen=True, slots=True, eq=False)
class PowerCaps:
    """What each domain of a level may draw at most."""

    level: Level
    watts: FloatArray  # shape [domains]; infinite = no cap

    def admitted(self, cluster: Cluster, candidates: BoolArray, more: FloatArray, drawn: FloatArray) -> BoolArray:
        """Return those of the candidates that a job may be given, shape [nodes]: any of them keep all caps.

        Of a domain without power for all of its candidates so many stay as it has power for: those in the domains of
        the network with the most candidates.  So an optimum among the nodes that stay need not be one among all.

        :param candidates: shape [nodes].
        :param more: shape [nodes], watts that the job adds on each node at its peak.
        :param drawn: shape [nodes], watts that are drawn there already, at peak.
        """
        domain_of = self.level.domain_of
        left = self.watts - np.bincount(domain_of, drawn, len(self.level))
        wanted = np.bincount(domain_of[candidates], more[candidates], len(self.level))
        # a watt in a billion is rounding
        if (wanted <= left + 1e-9 * np.abs(wanted)).all():
            return candidates
        rows = candidates.nonzero()[0]
        keys: list[npt.NDArray[np.integer[Any]]] = []
        for level in reversed(cluster.levels):
            there = level.domain_of[rows]
            keys += [there, -np.bincount(there, minlength=len(level))[there]]
        rows = rows[np.lexsort((*keys, domain_of[rows]))]
        total, domains = np.cumsum(more[rows]), domain_of[rows]
        first = np.searchsorted(domains, domains)
        inside = total - (total[first] - more[rows][first])
        admitted = np.zeros_like(candidates)
        admitted[rows[inside <= left[domains] + 1e-9 * inside]] = True
        return admitted


def power_caps(level: Level, *, each: float | None, named: Mapping[str, float]) -> PowerCaps:
    """Return the caps of a level.

    :param each: watts of every domain; ``None`` = those that are named alone have caps.
    :param named: watts of single domains, by name; of a node in none of them there is no cap.
    """
    watts = np.full(len(level), np.inf if each is None else float(each))
    watts[level.implicit] = np.inf
    for i, name in enumerate(level.domains):
        watts[i] = named.get(name, watts[i])
    return PowerCaps(level, watts)
