"""The eviction unit, and the decision to evict it: the parallel group that ranks out of place have in common.

Ranks that wait for a faulty machine are out of place too, so a rank alone says little; the group that all outliers
share does.  It is evicted whole, which takes more machines than are faulty and far less time than to find those
(ByteRobust, arXiv 2509.16293: in practice a PP group of about 8 machines, of which 1 or 2 are bad).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import numpy as np

from ground.records import AtLeastOne, Count, JsonRecord, checked
from health.recovery.machines import UNIT_FAMILIES, Machines, UnitFamily
from health.recovery.stacks import Dumps, StackGroup, StackView, group_stacks, outliers_of
from topology.cluster import IntArray
from topology.flags import FAULTY, NodeFlag

_Key = tuple[UnitFamily, int]


class Unit(JsonRecord):
    """A parallel group, as a candidate for eviction."""

    family: UnitFamily
    """tp: one machine, or the machines of a TP group that takes several; pp: a PP group; dp: a DP group."""
    group: Count
    """Node rank of a machine, or number of a TP group that takes several; row of a PP group in the grid, and stage of a
    DP group, each with all machines of its TP groups."""
    outliers: Count
    """Outlier ranks on its machines, over all rounds."""
    rounds: AtLeastOne
    """Rounds in which it had the most outliers of its family."""
    node_ranks: tuple[int, ...]
    """Its machines, ascending."""

    @property
    def alone(self) -> bool:
        """Whether it is one machine with whole TP groups."""
        return self.family == "tp" and len(self.node_ranks) == 1


def shared_groups(machines: Machines, outliers: Sequence[int]) -> tuple[Unit, ...]:
    """Return groups short of the whole job that all outliers share, the smallest first, of equals a PP group first."""
    out = np.flatnonzero(machines.outlier_counts(outliers))
    shared = []
    for family in UNIT_FAMILIES if outliers else ():
        groups = machines.unit_of(family)
        if (groups[out] == groups[out[0]]).all():
            shared.append(_unit(machines, (family, int(groups[out[0]])), len(outliers)))
    return tuple(sorted(_proper(machines, shared), key=lambda unit: len(unit.node_ranks)))


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
        for member_family in UNIT_FAMILIES if family is None else (family,):
            of_group = np.bincount(machines.unit_of(member_family), weights=counts)
            total.update({(member_family, int(group)): int(of_group[group]) for group in np.flatnonzero(of_group)})
            flagged.update((member_family, int(group)) for group in np.flatnonzero(of_group == of_group.max()))
    units = (_unit(machines, key, total[key], times) for key, times in flagged.items())
    return tuple(sorted(_proper(machines, units), key=_worth))


def looks_like_a_role(machines: Machines, outliers: Sequence[int], seen: Sequence[int]) -> bool:
    """Return whether the outliers are all ranks seen of one or more stages, in a job of several stages.

    That is what a stage looks like that does other work than the rest, as the last one does, with every machine sound.
    """
    out, of_stage = (np.bincount(machines.column, machines.outlier_counts(ranks)) for ranks in (outliers, seen))
    whole = bool((out == of_stage)[out > 0].all())
    grid = machines.job.grid
    # of a single replica a stage is one TP group, which may well be at fault
    return bool(outliers) and whole and grid.columns > 1 and grid.rows > machines.job.nodes_of_tp


def _proper(machines: Machines, units: Iterable[Unit]) -> list[Unit]:
    """Return the groups that are less than the whole job."""
    return [unit for unit in units if len(unit.node_ranks) < len(machines)]


def _worth(unit: Unit) -> tuple[int, int, int]:
    return -unit.rounds, -unit.outliers, len(unit.node_ranks)


def _unit(machines: Machines, key: _Key, outliers: int, rounds: int = 1) -> Unit:
    family, group = key
    members = np.flatnonzero(machines.unit_of(family) == group)
    return Unit(family, group, outliers, rounds, tuple(members.tolist()))


SOURCE = "recover-evict"

Doubt = Literal["no-outliers", "no-shared-group", "level", "role", "minority"]
"""Why nothing is evicted (the first three), or nobody flagged: see :attr:`Eviction.doubt`."""


@dataclass(frozen=True, slots=True)
class StackLook:
    """A job at one moment."""

    seen: tuple[int, ...]  # ranks with a dump, ascending
    groups: tuple[StackGroup, ...]
    outliers: tuple[int, ...]  # ranks out of place, ascending


@dataclass(frozen=True)
class Eviction:
    """What to do."""

    machines: Machines
    looks: tuple[StackLook, ...]
    units: tuple[Unit, ...]
    unit: Unit | None  # the one to evict; None = none, see doubt
    # None = the evidence points at the machines with outliers.  no-outliers; no-shared-group: the outliers have nothing
    # in common short of the whole job; level: several groups lead the rounds; role: the outliers are whole stages, as
    # when these do other work than the rest; minority: the group that leads was flagged in half of the rounds at most
    doubt: Doubt | None
    hits: IntArray  # shape [machines], rounds in which a machine had outliers

    def flags(self, now: datetime, *, hold: timedelta) -> tuple[NodeFlag, ...]:
        """Return flags of machines that had outliers in more than half of the rounds; none in doubt, or without names.

        The rest of the unit is evicted as a precaution: nothing is known against it.  By the end of the hold a machine
        has been diagnosed.
        """
        if self.unit is None or self.doubt is not None or not self.machines.names:
            return ()
        company = "evicted" if self.unit.alone else f"evicted with {group_name(self.unit)}"
        worst = np.max([self.machines.outlier_counts(look.outliers) for look in self.looks], axis=0)
        return tuple(
            NodeFlag(
                node=self.machines.name(machine),
                kind="faulty",
                slowdown=FAULTY,
                score=float(worst[machine]) / self.machines.ranks_on(machine),
                source=SOURCE,
                since=now,
                until=now + hold,
                evidence=f"{worst[machine]} of {self.machines.ranks_on(machine)} ranks out of place"
                f"{f' in {self.hits[machine]} of {len(self.looks)} looks' if len(self.looks) > 1 else ''}; "
                f"{company}, to be diagnosed",
                hardware=False,
            )
            for machine in self.unit.node_ranks
            if 2 * self.hits[machine] > len(self.looks)
        )


def look_at(dumps: Dumps, machines: Machines, *, view: StackView) -> StackLook:
    """Find the ranks out of place."""
    signatures = {rank: view.signature(processes) for rank, processes in dumps.by_rank.items()}
    kin = machines.stage_of_rank if view.compare == "stage" else None
    groups = group_stacks(signatures, dominant=view.dominant, kin=kin)
    return StackLook(tuple(signatures), groups, outliers_of(groups))


@checked
def decide(machines: Machines, looks: Sequence[StackLook], *, family: UnitFamily | None = None) -> Eviction:
    """Choose the eviction unit: of one look the group that all outliers share, of several the group flagged most."""
    counts = np.stack([machines.outlier_counts(look.outliers) for look in looks])
    hits = np.asarray((counts > 0).sum(axis=0), dtype=np.int32)
    doubt: Doubt | None = None
    if len(looks) == 1:
        shared = shared_groups(machines, looks[0].outliers)
        units = tuple(unit for unit in shared if family in (None, unit.family))
        unit = units[0] if units else None
    else:
        units = tally_rounds(machines, [look.outliers for look in looks], family=family)
        level = len(units) > 1 and _worth(units[0]) == _worth(units[1])
        unit = units[0] if units and not level else None
    if not any(look.outliers for look in looks):
        doubt = "no-outliers"
    elif unit is None:
        doubt = "level" if units else "no-shared-group"
    elif all(looks_like_a_role(machines, look.outliers, look.seen) for look in looks if look.outliers):
        doubt = "role"
    elif len(looks) > 1 and 2 * unit.rounds <= len(looks):
        doubt = "minority"
    return Eviction(machines, tuple(looks), units, unit, doubt, hits)


def group_name(unit: Unit) -> str:
    """Return a group in words: ``PP group 3``."""
    return f"machine {unit.group}" if unit.alone else f"{unit.family.upper()} group {unit.group}"


def evict_sentence(eviction: Eviction) -> str:
    """Return a decision in a sentence or two."""
    unit, looks = eviction.unit, eviction.looks
    out = sum(len(look.outliers) for look in looks)
    seen = sum(len(look.seen) for look in looks)
    amount = f"{out:,} of {seen:,} ranks are out of place" if len(looks) == 1 else f"{len(looks)} looks"
    if unit is None:
        match eviction.doubt:
            case "no-outliers":
                stacks = max(len(look.groups) for look in looks)
                ranks = max(len(look.seen) for look in looks)
                if stacks == 1:
                    return f"Evict nothing: all {ranks:,} ranks stand in the same stack."
                return f"Evict nothing: {ranks:,} ranks stand in {stacks} stacks, all of them large."
            case "level":
                names = " and ".join(group_name(level) for level in eviction.units[:2])
                return f"Evict nothing yet: {amount}, and {names} are level. Take more looks."
            case _:
                return f"Evict nothing: {amount}, and they share no group smaller than the job."
    machines = eviction.machines
    size = len(unit.node_ranks)
    what = f"Evict {group_name(unit)}" if size == 1 else f"Evict {group_name(unit)}, {size:,} machines"
    names = machines.spelled(unit.node_ranks)
    if len(looks) == 1:
        why = f"{amount} and all of them are in it"
    else:
        why = f"it had the most ranks out of place in {unit.rounds} of {len(looks)} looks"
    doubts = {
        "role": " Doubtful: these are whole stages, which is what other work looks like, not what a fault does.",
        "minority": " Doubtful: that is not more than half of the looks.",
    }
    return f"{what}: {why} ({names}).{doubts.get(eviction.doubt or '', '')}"


def evict_notes(eviction: Eviction, view: StackView) -> tuple[str, ...]:
    """Return what is worth knowing about a decision."""
    machines, notes = eviction.machines, []
    fewest = min(len(look.seen) for look in eviction.looks)
    if fewest < machines.ranks:
        notes.append(
            f"{machines.ranks - fewest:,} of {machines.ranks:,} ranks have no dump. That is no evidence here: see "
            "whether their processes are alive."
        )
    if eviction.doubt == "no-outliers" and not view.lines:
        notes.append("Line numbers were left out; --lines compares them, --threads all looks at helper threads too.")
    if eviction.doubt == "role" and view.compare == "job":
        notes.append("--compare stage compares each rank with those of its own stage only.")
    if eviction.doubt == "no-shared-group" and machines.job.grid.columns > 1 and view.compare == "job":
        notes.append("Stages may do different work: --compare stage compares each rank with those of its own stage.")
    if eviction.unit is not None and len(eviction.unit.node_ranks) > 1:
        notes.append(
            "A group is evicted whole, as whoever waits for a faulty machine is out of place too; usually 1 or 2 of "
            "its machines are at fault. Diagnose them all before they come back."
        )
    if eviction.unit is not None and not machines.names:
        notes.append("Machines are node ranks: --placement FILE gives their nodes, and flags.")
    return tuple(notes)
