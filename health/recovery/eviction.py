"""The eviction unit: the parallel group that ranks out of place have in common.

Ranks that wait for a faulty machine are out of place too, so a rank alone says little; the group that all outliers
share does.  It is evicted whole, which takes more machines than are faulty and far less time than to find those
(ByteRobust, arXiv 2509.16293: in practice a PP group of about 8 machines, of which 1 or 2 are bad).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from health.recovery.machines import UNIT_FAMILIES, Machines, UnitFamily
from topology.field_types import AtLeastOne, Count
from topology.json_record import JsonRecord

_Key = tuple[UnitFamily, int]


@dataclass(frozen=True, slots=True)
class Unit(JsonRecord):
    """A parallel group, as a candidate for eviction."""

    family: UnitFamily
    """tp: one machine; pp: a PP group; dp: a DP group."""
    group: Count
    """Node rank of a machine; row of a PP group; stage of a DP group."""
    outliers: Count
    """Outlier ranks on its machines, over all rounds."""
    rounds: AtLeastOne
    """Rounds in which it had the most outliers of its family."""
    node_ranks: tuple[int, ...]
    """Its machines, ascending."""


def shared_groups(machines: Machines, outliers: Sequence[int]) -> tuple[Unit, ...]:
    """Return groups short of the whole job that all outliers share, the smallest first, of equals a PP group first."""
    out = np.flatnonzero(machines.outlier_counts(outliers))
    found = []
    for family in UNIT_FAMILIES if outliers else ():
        groups = machines.group_of(family)
        if (groups[out] == groups[out[0]]).all():
            found.append(_unit(machines, (family, int(groups[out[0]])), len(outliers)))
    return tuple(sorted(_proper(machines, found), key=lambda unit: len(unit.node_ranks)))


def tally_rounds(
    machines: Machines, rounds: Sequence[Sequence[int]], *, family: UnitFamily | None = None
) -> tuple[Unit, ...]:
    """Flag in each round, of outlier ranks, the groups of a family with most outliers; return them, likeliest first.

    Groups come by how often they were flagged.  Between groups flagged equally often, that with more outliers over all
    rounds comes first, then the smaller one: a machine before the PP group that it belongs to, unless others of that
    group are out of place as well.
    """
    flagged: Counter[_Key] = Counter()
    total: Counter[_Key] = Counter()
    for outliers in filter(None, rounds):
        counts = machines.outlier_counts(outliers)
        for each in UNIT_FAMILIES if family is None else (family,):
            of_group = np.bincount(machines.group_of(each), weights=counts)
            total.update({(each, int(group)): int(of_group[group]) for group in np.flatnonzero(of_group)})
            flagged.update((each, int(group)) for group in np.flatnonzero(of_group == of_group.max()))
    units = (_unit(machines, key, total[key], times) for key, times in flagged.items())
    return tuple(sorted(_proper(machines, units), key=_worth))


def leader(units: Sequence[Unit]) -> Unit | None:
    """Return the one group that leads a tally; ``None`` = there is none, or several are level."""
    level = len(units) > 1 and _worth(units[0]) == _worth(units[1])
    return units[0] if units and not level else None


def looks_like_a_role(machines: Machines, outliers: Sequence[int], seen: Sequence[int]) -> bool:
    """Return whether the outliers are all ranks seen of one or more stages, in a job of several stages.

    That is what a stage looks like that does other work than the rest, as the last one does, with every machine sound.
    """
    out, of_stage = (np.bincount(machines.column, machines.outlier_counts(ranks)) for ranks in (outliers, seen))
    whole = bool((out == of_stage)[out > 0].all())
    return bool(outliers) and whole and machines.job.grid.columns > 1 and machines.job.grid.rows > 1


def _proper(machines: Machines, units: Iterable[Unit]) -> list[Unit]:
    """Return the groups that are less than the whole job."""
    return [unit for unit in units if len(unit.node_ranks) < len(machines)]


def _worth(unit: Unit) -> tuple[int, int, int]:
    return -unit.rounds, -unit.outliers, len(unit.node_ranks)


def _unit(machines: Machines, key: _Key, outliers: int, rounds: int = 1) -> Unit:
    family, group = key
    members = np.flatnonzero(machines.group_of(family) == group)
    return Unit(family, group, outliers, rounds, tuple(members.tolist()))
