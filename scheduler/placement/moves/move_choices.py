"""The choices of a repair: which blocks of cells may change their domain, where there is room for them, what counts.

Domains are those of the closest level that the objective or a hold looks at; a block is what holds tie together there,
one cell without holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

import numpy as np

from scheduler.job import Count, Family, Job
from scheduler.objective import objective_terms
from topology.cluster import BoolArray, Cluster, IntArray

LARGEST = 60_000  # Choices (mover x target) of the largest model: as many are solved in seconds
_LARGEST_SCALE = 10**9  # Largest common denominator of the weights: the sums of a model stay far within 64 bits


@dataclass(frozen=True)
class MoveChoices:
    """Blocks on one side, domains on the other."""

    cluster: Cluster  # the job's own nodes are idle in it, lost ones are not
    job: Job
    old: IntArray  # shape [rows, columns], the node of each cell before
    depth: int  # of the level that the domains belong to
    block_of: IntArray  # shape [rows, columns], the block of each cell; each has `size` cells
    size: int
    movers: IntArray  # the blocks that may change their domain
    home: IntArray  # shape [blocks], the domain of each block before
    lost: IntArray  # shape [blocks], cells of each block that need a new node wherever it goes
    targets: IntArray  # the domains with room for a mover
    room: IntArray  # shape [targets], movers that each can take
    healthy: IntArray  # shape [targets], cells of movers that each can take without a further slow node

    def __len__(self) -> int:
        return len(self.movers) * len(self.targets)

    @property
    def few(self) -> bool:
        """Whether a model of them all is solved while a user waits."""
        return len(self) <= LARGEST

    def domain_of_cell(self, target_of_mover: IntArray) -> IntArray:
        """Return the domain of each cell, shape [rows, columns], given for each mover an index into ``targets``."""
        domain_of_block = self.home.copy()
        domain_of_block[self.movers] = self.targets[target_of_mover]
        domain_of_cell: IntArray = domain_of_block[self.block_of]
        return domain_of_cell

    def target_of_mover(self, domain_of_cell: IntArray) -> IntArray:
        """Return the index into ``targets`` of the domain each mover is given, shape [movers]; -1 = it has no room."""
        domain_of_block = np.empty_like(self.home)
        domain_of_block[self.block_of] = domain_of_cell
        return self._index(domain_of_block[self.movers])

    @property
    def target_at_home(self) -> IntArray:
        """Shape [movers], the index into ``targets`` of the domain each mover comes from; -1 where it has no room."""
        return self._index(self.home[self.movers])

    def touched_by_fixed(self, term: ObjectiveTerm) -> BoolArray:
        """Return which domains each group touches with cells that cannot move, shape [groups, domains of the level]."""
        level, groups = self.cluster.levels[term.depth], self.job.grid.groups[term.family]
        fixed = groups.of_pairs(~np.isin(self.block_of, self.movers))
        touched = np.zeros((len(groups.sizes), len(level)), dtype=np.bool_)
        touched[groups.group[fixed], groups.of_pairs(level.domain_of[self.old])[fixed]] = True
        return touched

    def _index(self, domains: IntArray) -> IntArray:
        index = np.full(int(max(domains.max(), self.targets.max())) + 1, -1, dtype=np.int32)
        index[self.targets] = np.arange(len(self.targets))
        found: IntArray = index[domains]
        return found


def trimmed(choices: MoveChoices) -> MoveChoices:
    """Leave the roomiest targets alone, enough of them for all movers."""
    most = LARGEST // len(choices.movers)
    order = np.argsort(-choices.room, kind="stable")
    enough = int(np.searchsorted(np.cumsum(choices.room[order]), len(choices.movers))) + 1
    kept = np.sort(order[: max(most, enough)])
    return replace(choices, targets=choices.targets[kept], room=choices.room[kept], healthy=choices.healthy[kept])


@dataclass(frozen=True, slots=True)
class ObjectiveTerm:
    """A part of the objective: ``weight`` times the spread of a family at the level of a depth."""

    depth: int
    family: Family
    weight: float


def terms_of(cluster: Cluster, job: Job) -> tuple[ObjectiveTerm, ...]:
    """Return the terms of the objective: Eq. 2 and the soft terms."""
    terms = objective_terms(cluster, job)
    return tuple(ObjectiveTerm(cluster.level_index(one.level), one.family, one.weight) for one in terms)


def closest_depth(cluster: Cluster, job: Job) -> int:
    """Return the depth of the closest level that the objective or a hold looks at."""
    held = (cluster.level_index(hold.level) for hold in job.holds_on(cluster))
    return max(*(term.depth for term in terms_of(cluster, job)), *held)


def ancestors(cluster: Cluster, depth: int, above: int) -> IntArray:
    """Return for each domain of one level its domain at a broader one (or itself), shape [domains]."""
    found = np.arange(len(cluster.levels[depth]), dtype=np.int32)
    for closer in range(depth, above, -1):
        found = cluster.levels[closer].parent_of[found]
    return found


def integer_weights(terms: Sequence[ObjectiveTerm | Count]) -> tuple[list[int], int]:
    """Return the weights times a common scale: exact for plain decimals, within half a billionth elsewhere."""
    scale = lcm(*(Fraction(term.weight).limit_denominator(10**6).denominator for term in terms))
    scale = min(scale, _LARGEST_SCALE)
    return [round(term.weight * scale) for term in terms], scale


def greedy_targets(choices: MoveChoices) -> IntArray:
    """Give each mover the target that raises the objective least, then adds fewest domains, then is roomiest.

    The answer is a start for the search, no more: holds at broader levels are not looked at.

    :returns: shape [movers], index into the targets; no target is given more movers than it has room for.
    """
    cluster, job = choices.cluster, choices.job
    room = choices.room.copy()
    answer = np.empty(len(choices.movers), dtype=np.int32)
    tables = []
    for term in terms_of(cluster, job):
        touched = choices.touched_by_fixed(term)
        places = ancestors(cluster, choices.depth, term.depth)[choices.targets]
        tables.append((term.weight, job.grid.groups[term.family], touched, places, touched.sum(axis=1)))
    for i, mover in enumerate(choices.movers):
        members = choices.block_of == mover
        raised = np.zeros(len(room))
        new = np.zeros(len(room))
        for weight, of_family, touched, places, spread in tables:
            groups = np.unique(of_family.group[of_family.of_pairs(members)])
            added = ~touched[np.ix_(groups, places)]
            # what the largest spread grows by, if it grows at all
            raised += weight * np.maximum((spread[groups, None] + added).max(axis=0) - spread.max(), 0)
            new += added.sum(axis=0)
        answer[i] = np.lexsort((-room, new, raised, room <= 0))[0]
        room[answer[i]] -= 1
        for _, of_family, touched, places, spread in tables:
            groups = np.unique(of_family.group[of_family.of_pairs(members)])
            spread[groups] += ~touched[groups, places[answer[i]]]
            touched[groups, places[answer[i]]] = True
    return answer
