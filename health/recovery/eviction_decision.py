"""From looks at a job to one decision: which machines to evict, which of them the evidence points at, or neither."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import numpy as np

from health.recovery.dumps import Dumps
from health.recovery.eviction import Unit, looks_like_a_role, shared_groups, tally_rounds
from health.recovery.grouping import DOMINANT, StackGroup, group_stacks, outliers_of
from health.recovery.machines import Machines, UnitFamily
from health.recovery.stacks import StackView
from topology.cluster import IntArray
from topology.flags import FAULTY, NodeFlag

SOURCE = "recover-evict"

Doubt = Literal["no-outliers", "no-shared-group", "level", "role", "minority"]
"""Why nothing is evicted (the first three), or nobody flagged: see :attr:`Eviction.doubt`."""


@dataclass(frozen=True, slots=True)
class StackLook:
    """A job at one moment.

    :param seen: ranks with a dump, ascending.
    :param outliers: ranks out of place, ascending.
    """

    seen: tuple[int, ...]
    groups: tuple[StackGroup, ...]
    outliers: tuple[int, ...]


@dataclass(frozen=True)
class Eviction:
    """What to do.

    :param units: candidates, the likeliest first.
    :param unit: the one to evict; ``None`` = none, see ``doubt``.
    :param doubt: ``None`` = the evidence points at the machines with outliers.  ``no-outliers``; ``no-shared-group``:
        the outliers have nothing in common short of the whole job; ``level``: several groups lead the rounds;
        ``role``: the outliers are whole stages, as when these do other work than the rest; ``minority``: the group
        that leads was flagged in half of the rounds at most.
    :param hits: shape [machines], rounds in which a machine had outliers.
    """

    machines: Machines
    looks: tuple[StackLook, ...]
    units: tuple[Unit, ...]
    unit: Unit | None
    doubt: Doubt | None
    hits: IntArray

    def flags(self, now: datetime, *, hold: timedelta) -> tuple[NodeFlag, ...]:
        """Return flags of machines that had outliers in more than half of the rounds; none in doubt, or without names.

        The rest of the unit is evicted as a precaution: nothing is known against it.

        :param now: timezone-aware.
        :param hold: how long a machine is kept out; by then it has been diagnosed.
        """
        if self.unit is None or self.doubt is not None or not self.machines.names:
            return ()
        per_machine = self.machines.job.gpus_per_node
        company = "evicted" if self.unit.family == "tp" else f"evicted with {group_name(self.unit)}"
        worst = np.max([self.machines.outlier_counts(look.outliers) for look in self.looks], axis=0)
        return tuple(
            NodeFlag(
                node=self.machines.name(machine),
                kind="faulty",
                slowdown=FAULTY,
                score=float(worst[machine]) / per_machine,
                source=SOURCE,
                since=now,
                until=now + hold,
                evidence=f"{worst[machine]} of {per_machine} ranks out of place{self._often(machine)}; "
                f"{company}, to be diagnosed",
            )
            for machine in self.unit.node_ranks
            if 2 * self.hits[machine] > len(self.looks)
        )

    def _often(self, machine: int) -> str:
        return f" in {self.hits[machine]} of {len(self.looks)} looks" if len(self.looks) > 1 else ""


def look_at(
    dumps: Dumps,
    machines: Machines,
    *,
    view: StackView,
    compare: Literal["job", "stage"] = "job",
    dominant: float = DOMINANT,
) -> StackLook:
    """Find the ranks out of place.

    :param compare: each rank with all others, or with those of its pipeline stage.
    """
    signatures = {rank: view.signature(processes) for rank, processes in dumps.by_rank.items()}
    if compare == "stage":
        groups = group_stacks(signatures, dominant=dominant, kin=machines.stage_of_rank)
    else:
        groups = group_stacks(signatures, dominant=dominant)
    return StackLook(tuple(signatures), groups, outliers_of(groups))


def decide(machines: Machines, looks: Sequence[StackLook], *, family: UnitFamily | None = None) -> Eviction:
    """Choose the eviction unit: of one look the group that all outliers share, of several the group flagged most.

    :param looks: at least one.
    :param family: consider groups of this family only.
    """
    counts = np.stack([machines.outlier_counts(look.outliers) for look in looks])
    hits = np.asarray((counts > 0).sum(axis=0), dtype=np.int32)
    doubt: Doubt | None = None
    if len(looks) == 1:
        units = _of(family, shared_groups(machines, looks[0].outliers))
        unit = units[0] if units else None
    else:
        tally = tally_rounds(machines, [look.outliers for look in looks], family=family)
        units, unit = tally.units, tally.leader
    if not any(look.outliers for look in looks):
        doubt = "no-outliers"
    elif unit is None:
        doubt = "level" if units else "no-shared-group"
    elif _is_role(machines, looks):
        doubt = "role"
    elif len(looks) > 1 and 2 * unit.rounds <= len(looks):
        doubt = "minority"
    return Eviction(machines, tuple(looks), units, unit, doubt, hits)


def group_name(unit: Unit) -> str:
    """Return a group in words: ``PP group 3``."""
    return f"machine {unit.group}" if unit.family == "tp" else f"{unit.family.upper()} group {unit.group}"


def _of(family: UnitFamily | None, units: Sequence[Unit]) -> tuple[Unit, ...]:
    return tuple(unit for unit in units if family in (None, unit.family))


def _is_role(machines: Machines, looks: Sequence[StackLook]) -> bool:
    with_outliers = [look for look in looks if look.outliers]
    return all(looks_like_a_role(machines, look.outliers, look.seen) for look in with_outliers)
