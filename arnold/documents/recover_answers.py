"""Answers of ``arnold health evict``, ``backups`` and ``isolate``."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import takewhile
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from arnold.console.output import BAD, GOOD, SO_SO, Console, print_rows, print_sentences
from ground.records import AtLeastOne, Count, JsonRecord, Share, record_of
from health.collectives.diagnosis import Certainty
from health.recovery.checkpoint_peers import CheckpointPeer, Peers, Rule, peer_notes, peer_sentence
from health.recovery.eviction import Doubt, Eviction, Unit, evict_notes, evict_sentence
from health.recovery.machines import JobMachine, Machines
from health.recovery.stacks import Dropped, Dumps, StackView
from health.recovery.two_phase_replay import Answer, ReplayRun, Replays, chance_text, replay_notes, replay_sentence
from topology.cluster import Cluster
from topology.flags import NodeFlag
from topology.summary import ClusterSummary, summarise_cluster

AtLeastTwo = Annotated[int, Ge(2)]
CALLS = 3  # Innermost calls of a stack that are shown
LONGEST, LONGEST_OF_STACKS = 40, 20  # Most rows of a table on a terminal


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


class EvictedMachine(JobMachine):
    """A machine to evict."""

    outliers: Count
    """Its ranks that were out of place in the last look in which any was; 0 = evicted as a precaution."""
    rounds: Count
    """Looks in which ranks of it were out of place."""


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


class ReplaySuspect(JobMachine):
    """A machine that may compute wrongly."""

    probability: Share
    """How likely it is at fault."""
    sure: Certainty
    """certain: it is named; likely: from 0.9 on; possible."""


class IsolateDocument(JsonRecord):
    """How to cut the job in runs, and which machines are suspected where groups have failed."""

    verdict: str
    """The plan, or who is at fault, in a sentence or two."""
    answer: Answer
    """plan: no run was made; culprit: a machine is named, almost surely at fault; suspects: it cannot be told yet;
    none: nobody is at fault, likely."""
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
    third: tuple[tuple[int, ...], ...]
    """Node ranks of each group of the third run, in which suspects are apart; empty before two were made."""
    runs: tuple[ReplayRun, ...]
    """The runs that were made, with what failed in each."""
    repeats: AtLeastOne
    """How many times each group of a run was run."""
    next: tuple[tuple[int, ...], ...]
    """Node ranks of each group of the next run; empty = another says nothing more."""
    failed_horizontal: tuple[int, ...]
    """Groups of the first run that failed, as often as they did."""
    failed_vertical: tuple[int, ...]
    """Groups of the second run that failed."""
    failed_third: tuple[int, ...]
    """Groups of the third run that failed."""
    suspects: tuple[ReplaySuspect, ...]
    """Machines that may be at fault, the likeliest first; empty where no run was made."""
    nobody: Share
    """How likely it is that no machine is at fault."""
    notes: tuple[str, ...]
    """What is worth knowing, one sentence each."""


def evict_document(
    eviction: Eviction, rounds: Sequence[Dumps], *, view: StackView, flags: Sequence[NodeFlag]
) -> EvictDocument:
    """Return the document of a decision."""
    machines, looks = eviction.machines, eviction.looks
    outliers = machines.outlier_counts(next((look.outliers for look in reversed(looks) if look.outliers), ()))
    seen = set(looks[0].seen).intersection(*(look.seen for look in looks))
    return record_of(
        EvictDocument,
        eviction,
        view,
        verdict=evict_sentence(eviction),
        machines=tuple(
            EvictedMachine(**asdict(machines.machine(i)), outliers=int(outliers[i]), rounds=int(eviction.hits[i]))
            for i in (eviction.unit.node_ranks if eviction.unit else ())
        ),
        candidates=eviction.units,
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


def print_eviction(out: Console, document: EvictDocument) -> None:
    """Print the decision, the stacks that led to it, and the machines."""
    out.print(document.verdict, style=GOOD if document.unit is None else SO_SO if document.doubt else BAD)
    last = max(stack.round for stack in document.stacks)
    shown = [stack for stack in document.stacks if stack.round == last]
    title = "Stacks" if document.looks == 1 else f"Stacks of the last of {document.looks} looks"
    calls = _telling_calls([stack.stacks for stack in shown[:LONGEST_OF_STACKS]])
    calls += [""] * (len(shown) - len(calls))
    rows = [
        (f"{len(stack.ranks):,}", f"{len(stack.outliers):,}", innermost)
        for stack, innermost in zip(shown, calls, strict=True)
    ]
    headers = ["ranks", "out of place", "innermost calls"]
    print_rows(out, headers, rows, title=title, left=headers[2:], most=LONGEST_OF_STACKS)
    headers = ["machine", "node rank", "row (dp)", "stage (pp)", "out of place", "looks"]
    evicted = [
        (
            machine.node or f"machine{machine.node_rank}",
            machine.node_rank,
            machine.dp,
            machine.pp,
            machine.outliers,
            machine.rounds,
        )
        for machine in document.machines
    ]
    print_rows(out, headers, evicted, title="Evicted", most=LONGEST_OF_STACKS)
    print_sentences(out, "Left out", [drop.reason for drop in document.dropped])
    print_sentences(out, "Flags", [f"{flag.node}: {flag.kind}; {flag.evidence}" for flag in document.flags])
    print_sentences(out, "Notes", document.notes)


def _telling_calls(signatures: Sequence[Sequence[Sequence[str]]]) -> list[str]:
    """Of each group the innermost calls of a thread that is elsewhere in the first group; of that, than in the second.

    Calls that all of them begin with, as the system call they all wait in, are left out.
    """
    threads = []
    for i, stacks in enumerate(signatures):
        other = signatures[min(1, len(signatures) - 1)] if i == 0 else signatures[0]
        threads.append(next((stack for stack in stacks if stack not in other), stacks[0]))
    alike = sum(1 for _ in takewhile(lambda calls: len(set(calls)) == 1, zip(*threads, strict=False)))
    start = max(0, min(alike, *(len(calls) - 1 for calls in threads))) if len(threads) > 1 else 0
    lead = "... < " if start else ""
    return [lead + " < ".join(calls[start:][:CALLS]) if calls else "(no Python)" for calls in threads]


def peers_document(
    peers: Peers, cluster: Cluster, *, source: str, level: str | None, notes: Sequence[str]
) -> CheckpointPeersDocument:
    """Return the document of an assignment."""
    return record_of(
        CheckpointPeersDocument,
        peers,
        verdict=peer_sentence(peers, level),
        level=level,
        relaxed_in_order=tuple(peers.shared),
        distances=tuple(np.bincount(peers.distance).tolist()),
        peers=peers.rows(),
        notes=(*notes, *peer_notes(peers, level)),
        cluster=summarise_cluster(cluster, source),
    )


def print_peers(out: Console, document: CheckpointPeersDocument) -> None:
    """Print the assignment, a row for each machine."""
    out.print(document.verdict, style=SO_SO if document.conflict else GOOD)
    headers = ("node", "rank", "row (dp)", "stage (pp)", "backup on", "rank", "shares")
    rows = [
        (peer.node or "", peer.node_rank, peer.dp, peer.pp, peer.peer_node, peer.peer, ", ".join(peer.shares) or "-")
        for peer in document.peers
    ]
    print_rows(out, headers, rows, title="Checkpoint peers", left=["backup on", "shares"], most=LONGEST)
    print_sentences(out, "Notes", document.notes)


def isolate_document(replays: Replays, machines: Machines) -> IsolateDocument:
    """Return the document of a plan and of what came of it."""
    following, made = () if replays.settled else replays.next_groups, len(replays.runs)
    failed = [
        tuple(group for group, times in enumerate(run.failed) for _ in range(times)) for run in replays.runs[:3]
    ] + [()] * 3
    suspects = (
        record_of(ReplaySuspect, machines.machine(x), probability=float(replays.chances[x]), sure=replays.sure(x))
        for x in replays.suspects
    )
    return record_of(
        IsolateDocument,
        replays.plan,
        replays,
        verdict=replay_sentence(replays, machines),
        horizontal=replays.plan.cut("horizontal"),
        vertical=replays.plan.cut("vertical"),
        third=replays.runs[2].groups if made > 2 else following if made == 2 else (),
        next=following,
        failed_horizontal=failed[0],
        failed_vertical=failed[1],
        failed_third=failed[2],
        suspects=tuple(suspects),
        notes=replay_notes(replays),
    )


def print_isolation(out: Console, document: IsolateDocument, machines: Machines) -> None:
    """Print the plan, or who is suspected, the parts that failed, and those to run next."""
    good = document.answer in ("culprit", "none") or (document.answer == "plan" and document.unique)
    out.print(document.verdict, style=GOOD if good else SO_SO)
    suspects = [
        (machines.name(suspect.node_rank), suspect.sure, chance_text(suspect.probability))
        for suspect in document.suspects
    ]
    if suspects:
        print_rows(out, ("machine", "sure", "probability"), suspects, title="Suspects", left=("sure",), most=LONGEST)
    failed = [
        (number, group, times, machines.spelled(run.groups[group]))
        for number, run in enumerate(document.runs, 1)
        for group, times in enumerate(run.failed)
        if times
    ]
    if failed:
        print_rows(out, ("run", "group", "times", "machines"), failed, title="Failed", left=("machines",), most=LONGEST)
    if document.next:
        made = len(document.runs)
        cuts = (document.horizontal, document.vertical)[made:] or (document.next,)
        runs = [f"run {number}" for number in range(made + 1, made + 1 + len(cuts))]
        rows = [(group, *(machines.spelled(cut[group]) for cut in cuts)) for group in range(document.groups)]
        title = f"{document.groups} groups of {document.group_size} machines, DP {document.k} each"
        print_rows(out, ("group", *runs), rows, title=title, left=runs, most=LONGEST)
    print_sentences(out, "Notes", document.notes)
