"""Decisions in sentences."""

from __future__ import annotations

from collections.abc import Iterable

from health.recovery.eviction_decision import Eviction, group_name
from health.recovery.machines import Machines
from topology.hostlist import spell_names


def machine_names(machines: Machines, which: Iterable[int]) -> str:
    """Return names of machines as a hostlist; one by one where a name is none that a hostlist can carry."""
    return spell_names(machines.name(machine) for machine in which)


def evict_sentence(eviction: Eviction) -> str:
    """Return a decision in a sentence or two."""
    unit, looks = eviction.unit, eviction.looks
    out = sum(len(look.outliers) for look in looks)
    seen = sum(len(look.seen) for look in looks)
    amount = f"{out:,} of {seen:,} ranks are out of place" if len(looks) == 1 else f"{len(looks)} looks"
    if unit is None:
        match eviction.doubt:
            case "no-outliers":
                return f"Evict nothing: {_alike(eviction)}."
            case "level":
                names = " and ".join(group_name(each) for each in eviction.units[:2])
                return f"Evict nothing yet: {amount}, and {names} are level. Take more looks."
            case _:
                return f"Evict nothing: {amount}, and they share no group smaller than the job."
    machines = eviction.machines
    size = len(unit.node_ranks)
    what = f"Evict {group_name(unit)}" if size == 1 else f"Evict {group_name(unit)}, {size:,} machines"
    names = machine_names(machines, unit.node_ranks)
    if len(looks) == 1:
        why = f"{amount} and all of them are in it"
    else:
        why = f"it had the most ranks out of place in {unit.rounds} of {len(looks)} looks"
    doubts = {
        "role": " Doubtful: these are whole stages, which is what other work looks like, not what a fault does.",
        "minority": " Doubtful: that is not more than half of the looks.",
    }
    return f"{what}: {why} ({names}).{doubts.get(eviction.doubt or '', '')}"


def _alike(eviction: Eviction) -> str:
    stacks = max(len(look.groups) for look in eviction.looks)
    ranks = max(len(look.seen) for look in eviction.looks)
    if stacks == 1:
        return f"all {ranks:,} ranks stand in the same stack"
    return f"{ranks:,} ranks stand in {stacks} stacks, all of them large"


def evict_notes(eviction: Eviction, *, compare: str, lines: bool) -> tuple[str, ...]:
    """Return what is worth knowing about a decision."""
    machines, notes = eviction.machines, []
    fewest = min(len(look.seen) for look in eviction.looks)
    if fewest < machines.ranks:
        notes.append(
            f"{machines.ranks - fewest:,} of {machines.ranks:,} ranks have no dump. That is no evidence here: see "
            "whether their processes are alive."
        )
    if eviction.doubt == "no-outliers" and not lines:
        notes.append("Line numbers were left out; --lines compares them, --threads all looks at helper threads too.")
    if eviction.doubt == "role" and compare == "job":
        notes.append("--compare stage compares each rank with those of its own stage only.")
    if eviction.doubt == "no-shared-group" and machines.job.grid.columns > 1 and compare == "job":
        notes.append("Stages may do different work: --compare stage compares each rank with those of its own stage.")
    if eviction.unit is not None and len(eviction.unit.node_ranks) > 1:
        notes.append(
            "A group is evicted whole, as whoever waits for a faulty machine is out of place too; usually 1 or 2 of "
            "its machines are at fault. Diagnose them all before they come back."
        )
    if eviction.unit is not None and not machines.names:
        notes.append("Machines are node ranks: --placement FILE gives their nodes, and flags.")
    return tuple(notes)
