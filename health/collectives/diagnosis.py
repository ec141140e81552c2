"""From a recording or a snapshot to a diagnosis: what happened, where it began, who is to blame and how sure that is.

*Certain* means: the evidence leaves one member alone.  *Likely*: it points there, and something else could have made
the same records.  *Possible*: one of several.  Only what is certain becomes a flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from health.collectives.clocks import align_clocks, note_gaps
from health.collectives.flow_progress import Blame, Condition, Flow, blame, conditions, flows_at
from health.collectives.recording import CollectiveRecording, Member, RankGroup
from health.collectives.slow_ranks import find_slow
from health.collectives.stalls import Snapshot, Stall, stalls_at
from health.collectives.trigger import Alarm, alarms, looks, too_short
from health.collectives.trigger_settings import TriggerSettings
from health.collectives.wait_chains import Root, find_roots

Status = Literal["healthy", "failure", "straggler"]
Certainty = Literal["certain", "likely", "possible"]
Cause = Literal[
    "none",
    "not-launched",
    "not-transmitted",
    "not-delivered",
    "gpu-not-ready",
    "crossed-order",
    "unreachable",
    "late",
    "slow-compute",
    "slow-transfer",
    "slow-gpu",
    "unknown",
]

ORDER: dict[Certainty, int] = {"certain": 0, "likely": 1, "possible": 2}

_SLOW_INSIDE: dict[Condition | None, Cause] = {
    "gpu-not-ready": "slow-gpu",
    "not-delivered": "slow-transfer",
    "not-transmitted": "slow-transfer",
}


@dataclass(frozen=True, slots=True)
class Culprit:
    """A member that may be to blame.

    :param factor: by how much it is slow; ``None`` = it has stopped.
    """

    member: int
    certainty: Certainty
    factor: float | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is known of a job's collectives.

    :param settled: whether the records show that the stalls stand still, and are not merely under way.
    :param cause: the cause of what came first.
    :param culprits: the surest first; empty = none can be named.
    :param groups: where it began.
    :param victims: groups that wait for those.
    :param alarm: seconds since the epoch at which it was seen; ``None`` = a snapshot, or healthy.
    :param localised: when the culprits were first named as sure as they are now.
    :param since: the last instant at which all was well; ``None`` = unknown.
    :param stalls: all stalls at that instant.
    :param flows: flows of the collective that everything waits for, and what each waits for itself.
    :param looks: how many times the job was looked at.
    """

    members: tuple[Member, ...]
    all_groups: tuple[RankGroup, ...]
    status: Status
    cause: Cause = "none"
    culprits: tuple[Culprit, ...] = ()
    groups: tuple[int, ...] = ()
    victims: tuple[int, ...] = ()
    alarm: float | None = None
    localised: float | None = None
    since: float | None = None
    stalls: tuple[Stall, ...] = ()
    flows: tuple[tuple[Flow, Condition], ...] = ()
    settled: bool = True
    looks: int = 0
    notes: tuple[str, ...] = ()

    @property
    def certainty(self) -> Certainty | None:
        """How sure the surest culprit is; ``None`` = there is none."""
        return self.culprits[0].certainty if self.culprits else None


def diagnose(recording: CollectiveRecording, settings: TriggerSettings | None = None) -> Diagnosis:
    """Watch a recording as it was written: the first alarm, and the surest answer that follows it.

    Looks after the first alarm go on until a member is named with certainty, or the recording ends.
    """
    settings = settings or TriggerSettings()
    recording = note_gaps(align_clocks(recording))
    best = Diagnosis(recording.members, recording.groups, "healthy", notes=recording.notes)
    first: Diagnosis | None = None
    made = looks(recording, settings)
    for time, number, raised in alarms(recording, settings):
        found = _at_alarm(recording, raised, time, settings)
        first = first or found
        if best.status == "healthy" or _rank(found) < _rank(best):
            best = found
        if best.certainty == "certain":
            made = number
            break
    if first is not None:
        since = first.since if best.status == "straggler" else best.since
        return replace(best, alarm=first.localised, since=since, looks=made)
    if not too_short(recording, settings):
        return replace(best, looks=made)
    doubt = (
        f"no watched rank completed its group's collective {settings.history} times: too little to tell a slow job, "
        f"and a hang only after {settings.history * settings.window:g} s of silence; record more steps"
    )
    return replace(best, looks=made, notes=(*best.notes, doubt))


def diagnose_snapshot(snapshot: Snapshot, notes: Sequence[str] = ()) -> Diagnosis:
    """Return the diagnosis of one instant, from records without counters."""
    base = replace(_of_snapshot(snapshot), notes=tuple(notes))
    if snapshot.gone:
        hosts = {snapshot.members[member].host for member in snapshot.gone}
        sure: Certainty = "certain" if len(hosts) == 1 and None not in hosts else "likely"
        return replace(
            base,
            status="failure",
            cause="unreachable",
            culprits=tuple(Culprit(member, sure) for member in sorted(snapshot.gone)),
            groups=tuple(g for g, group in enumerate(snapshot.groups) if snapshot.gone & set(group.members)),
        )
    roots = find_roots(snapshot)
    return _from_root(base, snapshot, roots[0]) if roots else replace(base, stalls=())


def _of_snapshot(snapshot: Snapshot) -> Diagnosis:
    """Return a healthy diagnosis of the members, groups and stalls of a snapshot."""
    return Diagnosis(snapshot.members, snapshot.groups, "healthy", stalls=snapshot.stalls, settled=snapshot.settled)


def _at_alarm(
    recording: CollectiveRecording, raised: Sequence[Alarm], time: float, settings: TriggerSettings
) -> Diagnosis:
    """Return what an alarm is about.  A straggler's alarm on a job that stands still is a failure seen early."""
    snapshot = stalls_at(recording, time, quiet=settings.quiet, back=max(settings.window, 2 * settings.quiet))
    failed = any(alarm.kind == "failure" for alarm in raised)
    since = min(alarm.since for alarm in raised)
    base = replace(_of_snapshot(snapshot), localised=time, since=since, notes=recording.notes)
    roots = find_roots(snapshot)
    if roots:
        found = _from_root(base, snapshot, roots[0], recording)
        return replace(found, since=max(since, found.since or since))
    base = replace(base, status="failure" if failed else "straggler", cause="unknown")
    slow = [] if failed else find_slow(recording, since, time)
    if not slow:
        return base
    worst = slow[0]
    cause: Cause = "slow-compute" if worst.cause == "slow-before" else _SLOW_INSIDE.get(worst.waiting, "slow-transfer")
    certainty = _certainty(worst.suspects, recording.tainted, unique=worst.unique)
    culprits = tuple(Culprit(member, certainty, worst.factor) for member in worst.suspects)
    return replace(base, cause=cause, culprits=culprits, groups=worst.groups)


def _rank(diagnosis: Diagnosis) -> tuple[int, int]:
    """Return what is less for a surer diagnosis; of equally sure ones, for the one with fewer suspects."""
    certainty = diagnosis.certainty
    return (ORDER[certainty] if certainty else len(ORDER)), len(diagnosis.culprits)


def _from_root(
    base: Diagnosis, snapshot: Snapshot, root: Root, recording: CollectiveRecording | None = None
) -> Diagnosis:
    """Return a failure that began in the stalls of a root."""
    stall = root.stalls[0]
    flows: tuple[tuple[Flow, Condition], ...] = ()
    cause: Cause = "unknown"
    suspects: tuple[int, ...] = ()
    if root.kind != "transfer":
        cause, suspects = root.kind, root.suspects
    elif recording is not None:
        known = flows_at(recording.states, stall.group, stall.seq)
        found = conditions(known)
        flows = tuple(zip(known, found, strict=True))
        cause, suspects = _of_transfer(snapshot, stall, blame(known, found))
    doubtful = snapshot.unseen | (frozenset() if recording is None else recording.tainted)
    sure = snapshot.settled and root.kind != "crossed-order"
    certainty = _certainty(suspects, doubtful, unique=len(suspects) == 1, sure=sure)
    return replace(
        base,
        status="failure",
        cause=cause,
        culprits=tuple(Culprit(member, certainty) for member in suspects),
        groups=tuple(stall.group for stall in root.stalls),
        victims=root.victims,
        since=stall.since,
        flows=flows,
    )


def _of_transfer(snapshot: Snapshot, stall: Stall, found: Blame) -> tuple[Cause, tuple[int, ...]]:
    if snapshot.gone:
        return "unreachable", tuple(sorted(snapshot.gone))
    if found.cause == "complete" and len(stall.standing) == 1:
        return "gpu-not-ready", tuple(stall.standing)
    if found.cause == "complete" or found.cause == "starved":  # noqa: PLR1714 - so that the type is narrowed
        return "unknown", ()
    return found.cause, found.suspects


def _certainty(members: Sequence[int], doubtful: frozenset[int], *, unique: bool, sure: bool = True) -> Certainty:
    if unique and sure and doubtful.isdisjoint(members):
        return "certain"
    return "likely" if unique or len(members) == 2 else "possible"
