"""JSON of ``arnold health evict``, ``backups`` and ``isolate``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from ground.records import AtLeastOne, Count, JsonRecord, record_of
from health.recovery.checkpoint_peers import CheckpointPeer, Peers, Rule, peer_notes, peer_sentence
from health.recovery.eviction import Doubt, Eviction, Unit, evict_notes, evict_sentence
from health.recovery.machines import JobMachine, Machines
from health.recovery.stacks import Dropped, Dumps, StackView
from health.recovery.two_phase_replay import (
    PHASES,
    Answer,
    ReplayPlan,
    replay_answer,
    replay_notes,
    replay_sentence,
)
from topology.cluster import Cluster
from topology.flags import NodeFlag
from topology.summary import ClusterSummary, summarise_cluster

AtLeastTwo = Annotated[int, Ge(2)]


@dataclass(frozen=True, slots=True)
class SameStack(JsonRecord):
    """Ranks with the same stack."""

    round: Count
    """The look at the job, from 0."""
    stacks: tuple[tuple[str, ...], ...]
    """One stack for each thread that is compared, innermost call first."""
    ranks: tuple[int, ...]
    """Ranks with this stack, ascending."""
    outliers: tuple[int, ...]
    """Ranks with this stack that are out of place, ascending."""


@dataclass(frozen=True, slots=True)
class EvictedMachine(JobMachine):
    """A machine to evict."""

    outliers: Count
    """Its ranks that were out of place in the last look in which any was; 0 = evicted as a precaution."""
    rounds: Count
    """Looks in which ranks of it were out of place."""


@dataclass(frozen=True, slots=True)
class EvictDocument(JsonRecord):
    """Machines to evict; ``--flags`` of ``arnold place`` reads its flags."""

    verdict: str
    """The decision in a sentence or two."""
    unit: Unit | None
    """The group to evict; null = none, see doubt."""
    doubt: Doubt | None
    """Why nothing is evicted (no-outliers, no-shared-group, level) or nothing is flagged (role, minority); null = the
    evidence points at the machines with outliers."""
    machines: tuple[EvictedMachine, ...]
    """Machines of the group, by node rank."""
    candidates: tuple[Unit, ...]
    """All groups that were considered, the likeliest first."""
    compare: Literal["job", "stage"]
    """Whether each rank was compared with all others or with those of its stage."""
    looks: AtLeastOne
    """Looks at the job: rounds, or one."""
    ranks: AtLeastOne
    """Ranks of the job."""
    missing: tuple[int, ...]
    """Ranks without a dump in some look."""
    outliers: tuple[tuple[int, ...], ...]
    """Ranks out of place, for each look."""
    stacks: tuple[SameStack, ...]
    """Ranks by stack, for each look the largest group first."""
    dropped: tuple[Dropped, ...]
    """Files that could not be used and were left out."""
    flags: tuple[NodeFlag, ...]
    """Flags of machines that the evidence points at; the score is the largest share of its ranks out of place."""
    notes: tuple[str, ...]
    """What is worth knowing, one sentence each."""


@dataclass(frozen=True, slots=True)
class CheckpointPeersDocument(JsonRecord):
    """Checkpoint peers of a job."""

    verdict: str
    """The assignment in a sentence."""
    level: str | None
    """The level of the rack; null = the cluster has no levels."""
    broken: dict[Rule, int]
    """For each rule the pairs that break it; fewer are impossible, in the order in which rules give way."""
    conflict: tuple[Rule, ...]
    """The fewest rules that cannot be kept together; empty = all are kept."""
    relaxed_in_order: tuple[Rule, ...]
    """The order in which rules give way."""
    distances: tuple[int, ...]
    """Pairs by distance: as near as the rules allow."""
    mutual: Count
    """Machines that keep the backup of their own peer."""
    fatal_pairs: AtLeastOne
    """Pairs of machines whose loss together loses a state and its backup."""
    peers: tuple[CheckpointPeer, ...]
    """One row for each machine, by node rank."""
    notes: tuple[str, ...]
    """What is worth knowing, one sentence each."""
    cluster: ClusterSummary
    """The cluster as it was read."""


@dataclass(frozen=True, slots=True)
class IsolateDocument(JsonRecord):
    """How to cut the job in both phases, and which machines are left where groups have failed."""

    verdict: str
    """The plan or the culprit in a sentence or two."""
    answer: Answer
    """plan: no failed group was given; culprit: one machine is left; suspects: several are; none: no machine is in
    all of the failed groups."""
    machines: AtLeastTwo
    """Machines of the job."""
    replica: AtLeastOne
    """Machines of the smallest part that runs on its own: PP at node level, times what context and expert groups
    bind."""
    replicas: AtLeastTwo
    """DP at node level."""
    k: AtLeastOne
    """Replicas of a group: its DP."""
    group_size: AtLeastOne
    """Machines of a group: m = k * replica."""
    groups: AtLeastTwo
    """Groups of each phase: n = replicas / k."""
    unique: bool
    """Whether one failed group of each phase always leaves one machine: m <= n."""
    most_suspects: AtLeastOne
    """Machines that one failed group of each phase leaves at most: m / n, rounded up."""
    horizontal: tuple[tuple[int, ...], ...]
    """Node ranks of each group of the first phase: machine x goes to group floor(x / m)."""
    vertical: tuple[tuple[int, ...], ...]
    """Node ranks of each group of the second phase: machine x goes to group x mod n."""
    failed_horizontal: tuple[int, ...]
    """Groups of the first phase that failed."""
    failed_vertical: tuple[int, ...]
    """Groups of the second phase that failed."""
    suspects: tuple[JobMachine, ...]
    """Machines in a failed group of each phase; empty where no group was given."""
    notes: tuple[str, ...]
    """What is worth knowing, one sentence each."""


def evict_document(
    eviction: Eviction, rounds: Sequence[Dumps], *, view: StackView, flags: Sequence[NodeFlag]
) -> EvictDocument:
    """Return the document of a decision."""
    machines, looks = eviction.machines, eviction.looks
    last = next((look.outliers for look in reversed(looks) if look.outliers), ())
    outliers = machines.outlier_counts(last)
    seen = set(looks[0].seen).intersection(*(look.seen for look in looks))
    return EvictDocument(
        verdict=evict_sentence(eviction),
        unit=eviction.unit,
        doubt=eviction.doubt,
        machines=tuple(
            EvictedMachine(**asdict(machines.machine(i)), outliers=int(outliers[i]), rounds=int(eviction.hits[i]))
            for i in (eviction.unit.node_ranks if eviction.unit else ())
        ),
        candidates=eviction.units,
        compare=view.compare,
        looks=len(looks),
        ranks=machines.ranks,
        missing=tuple(sorted(set(range(machines.ranks)) - seen)),
        outliers=tuple(look.outliers for look in looks),
        stacks=tuple(
            SameStack(i, group.signature, group.ranks, group.outliers)
            for i, look in enumerate(looks)
            for group in look.groups
        ),
        dropped=tuple(drop for dumps in rounds for drop in dumps.dropped),
        flags=tuple(flags),
        notes=evict_notes(eviction, view),
    )


def peers_document(
    peers: Peers, cluster: Cluster, *, source: str, level: str | None, notes: Sequence[str]
) -> CheckpointPeersDocument:
    """Return the document of an assignment."""
    return CheckpointPeersDocument(
        verdict=peer_sentence(peers, level),
        level=level,
        broken=peers.broken,
        conflict=peers.conflict,
        relaxed_in_order=tuple(peers.shared),
        distances=tuple(np.bincount(peers.distance).tolist()),
        mutual=peers.mutual,
        fatal_pairs=peers.fatal_pairs,
        peers=peers.rows(),
        notes=(*notes, *peer_notes(peers, level)),
        cluster=summarise_cluster(cluster, source),
    )


def isolate_document(
    plan: ReplayPlan, machines: Machines, *, horizontal: Sequence[int], vertical: Sequence[int]
) -> IsolateDocument:
    """Return the document of a plan and of what came of it."""
    failed = bool(horizontal or vertical)
    suspects = plan.suspects(horizontal, vertical) if failed else ()
    cut = [tuple(plan.members(phase, group) for group in range(plan.groups)) for phase in PHASES]
    return record_of(
        IsolateDocument,
        plan,
        verdict=replay_sentence(plan, machines, suspects, failed=failed),
        answer=replay_answer(suspects, failed=failed),
        horizontal=cut[0],
        vertical=cut[1],
        failed_horizontal=tuple(horizontal),
        failed_vertical=tuple(vertical),
        suspects=tuple(map(machines.machine, suspects)),
        notes=replay_notes(plan, suspects, horizontal=horizontal, vertical=vertical),
    )
