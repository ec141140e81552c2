"""Which part of a large placement to lay anew: sites around one of the groups that are worst off."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.job import Count
from scheduler.placement.exact.goals.cell_model import Goal
from scheduler.placement.exact.goals.cell_sites import Sites
from topology.cluster import BoolArray, IntArray

Integers = npt.NDArray[np.integer[Any]]


class WorstParts:
    """Parts drawn by chance, the same for the same seed."""

    def __init__(self, sites: Sites, goal: Goal, most: int, seed: int) -> None:
        """Draw for a goal; a part has at most so many choices (units x sites)."""
        self._sites = sites
        self._terms = [term for term in goal.terms if sites.groups(term.family)]
        self._most = most
        self._chance = random.Random(seed)

    def draw(self, site_of: IntArray) -> BoolArray:
        """Return shape [sites], the part: sites of a worst group, then some with room and those of its neighbours.

        :param site_of: shape [units], the placement.
        """
        used = np.bincount(site_of, minlength=len(self._sites))
        chosen = np.zeros(len(self._sites), dtype=np.bool_)
        for site in self._wanted(site_of, used):
            chosen[site] = True
            if int(used[chosen].sum()) * int(chosen.sum()) > self._most:
                chosen[site] = False
                break
        return chosen

    def _wanted(self, site_of: IntArray, used: Integers) -> list[int]:
        """Return sites in the order in which the part takes them."""
        term = self._chance.choices(self._terms, [term.weight for term in self._terms])[0]
        own = self._shuffled(np.unique(site_of[list(self._worst(term, site_of))]))
        roomy = self._shuffled(np.flatnonzero(used < self._sites.room))
        # sites with room near the group first: a unit that goes there leaves no broader domain
        near = set(self._sites.domain_at[term.level][own].tolist())
        domain = self._sites.domain_at[term.level]
        roomy.sort(key=lambda site: int(domain[site]) not in near)
        others = self._shuffled(np.flatnonzero(used > 0))
        few = self._chance.choice([0, 2, 4, 8])
        return list(dict.fromkeys([*own, *roomy[:few], *others]))

    def _worst(self, term: Count, site_of: IntArray) -> tuple[int, ...]:
        """Return the units of a group that touches most domains."""
        domain = self._sites.domain_at[term.level][site_of].tolist()
        groups = self._sites.groups(term.family)
        touched = [len({domain[unit] for unit in units}) for units in groups]
        most = max(touched)
        return self._chance.choice([units for units, spread in zip(groups, touched, strict=True) if spread == most])

    def _shuffled(self, sites: Integers) -> list[int]:
        listed = [int(site) for site in sites]
        self._chance.shuffle(listed)
        return listed
