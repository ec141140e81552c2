"""What ``arnold recover evict --json`` prints; ``--flags`` of ``arnold place`` reads its flags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from arnold.documents.common import Document, NodeFlagDoc, flag_doc
from arnold.documents.recover.common import MachineDoc, machine_doc
from health.recovery.dumps import Dumps
from health.recovery.eviction import Unit
from health.recovery.grouping import StackGroup
from health.recovery.machines import UnitFamily
from health.recovery.verdict import Doubt, Eviction
from health.recovery.words import evict_sentence
from topology.flags import NodeFlag


class StackDoc(Document):
    """Ranks with the same stack."""

    round: int = Field(ge=0)
    """The look at the job, from 0."""
    stacks: list[list[str]]
    """One stack for each thread that is compared, innermost call first."""
    ranks: list[int]
    """Ranks with this stack, ascending."""
    outliers: list[int]
    """Those of them that are out of place."""


class UnitDoc(Document):
    """A parallel group, as a candidate for eviction."""

    family: UnitFamily
    """tp: one machine; pp: a PP group; dp: a DP group."""
    group: int = Field(ge=0)
    """Node rank of a machine; row of a PP group; stage of a DP group."""
    outliers: int = Field(ge=0)
    """Outlier ranks on its machines, over all rounds."""
    rounds: int = Field(ge=1)
    """Rounds in which it had the most outliers of its family."""
    node_ranks: list[int]
    """Its machines, ascending."""


class EvictedDoc(MachineDoc):
    """A machine to evict."""

    outliers: int = Field(ge=0)
    """Its ranks that were out of place in the last look in which any was; 0 = evicted as a precaution."""
    rounds: int = Field(ge=0)
    """Looks in which ranks of it were out of place."""


class DroppedDoc(Document):
    """A file that was left out under --lenient."""

    file: str
    """Its path."""
    reason: str
    """Why it could not be used."""


class EvictDocument(Document):
    """Whom to evict."""

    verdict: str
    """The decision in a sentence or two."""
    unit: UnitDoc | None
    """The group to evict; null = none, see doubt."""
    doubt: Doubt | None
    """Why nothing is evicted (no-outliers, no-shared-group, level) or nobody is flagged (role, minority); null = the
    evidence points at the machines with outliers."""
    machines: list[EvictedDoc]
    """Machines of the group, by node rank."""
    candidates: list[UnitDoc]
    """All groups that were considered, the likeliest first."""
    compare: Literal["job", "stage"]
    """Whether each rank was compared with all others or with those of its stage."""
    looks: int = Field(ge=1)
    """Looks at the job: rounds, or one."""
    ranks: int = Field(ge=1)
    """Ranks of the job."""
    missing: list[int]
    """Ranks without a dump in some look."""
    outliers: list[list[int]]
    """Ranks out of place, for each look."""
    stacks: list[StackDoc]
    """Ranks by stack, for each look the largest group first."""
    dropped: list[DroppedDoc]
    """Files that could not be used and were left out."""
    flags: list[NodeFlagDoc]
    """Flags of machines that the evidence points at; the score is the largest share of its ranks out of place."""
    notes: list[str]
    """What is worth knowing, one sentence each."""


def evict_document(
    eviction: Eviction,
    rounds: Sequence[Dumps],
    *,
    compare: Literal["job", "stage"],
    flags: Sequence[NodeFlag],
    notes: Sequence[str],
) -> EvictDocument:
    """The document of a decision.

    :param rounds: dumps of each look.
    """
    machines = eviction.machines
    seen = [set(look.seen) for look in eviction.looks]
    return EvictDocument(
        verdict=evict_sentence(eviction),
        unit=None if eviction.unit is None else _unit_doc(eviction.unit),
        doubt=eviction.doubt,
        machines=_evicted(eviction),
        candidates=[_unit_doc(unit) for unit in eviction.units],
        compare=compare,
        looks=len(eviction.looks),
        ranks=machines.ranks,
        missing=[rank for rank in range(machines.ranks) if not all(rank in ranks for ranks in seen)],
        outliers=[list(look.outliers) for look in eviction.looks],
        stacks=[_stack_doc(i, group) for i, look in enumerate(eviction.looks) for group in look.groups],
        dropped=[DroppedDoc(file=drop.file, reason=drop.reason) for dumps in rounds for drop in dumps.dropped],
        flags=[flag_doc(flag) for flag in flags],
        notes=list(notes),
    )


def _unit_doc(unit: Unit) -> UnitDoc:
    return UnitDoc(
        family=unit.family,
        group=unit.group,
        outliers=unit.outliers,
        rounds=unit.rounds,
        node_ranks=list(unit.machines),
    )


def _stack_doc(look: int, group: StackGroup) -> StackDoc:
    return StackDoc(
        round=look,
        stacks=[list(stack) for stack in group.signature],
        ranks=list(group.ranks),
        outliers=list(group.outliers),
    )


def _evicted(eviction: Eviction) -> list[EvictedDoc]:
    if eviction.unit is None:
        return []
    machines = eviction.machines
    last = next(look for look in reversed(eviction.looks) if look.outliers)
    counts = machines.outlier_counts(last.outliers)
    return [
        EvictedDoc(
            **machine_doc(machines, machine).model_dump(),
            outliers=int(counts[machine]),
            rounds=int(eviction.hits[machine]),
        )
        for machine in eviction.unit.machines
    ]
