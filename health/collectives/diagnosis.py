"""From a recording or a snapshot to a diagnosis: what happened, where it began, who is to blame and how sure that is.

*Certain* means: the evidence leaves one member alone.  *Likely*: it points there, and something else could have made
the same records.  *Possible*: one of several.  Only what is certain becomes a flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from health.collectives.clocks import align_clocks, told_of_gaps
from health.collectives.flow_progress import Blame, Condition, Flow, blame, conditions, flows_at
from health.collectives.recording import CollectiveRecording, Member, RankGroup
from health.collectives.slow_ranks import Slow, find_slow
from health.collectives.stalls import Snapshot, Stall, stalls_at
from health.collectives.trigger import Alarm, TriggerSettings, alarms, looks, too_short
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
class FlowState:
    """A flow of the stalled collective and what it waits for."""

    group: int
    flow: Flow
    condition: Condition


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is known of a job's collectives.

    :param settled: whether the records show that the stalls stand still, and are not merely under way.
    :param cause: the cause of what came first.
    :param culprits: the surest first; empty = nobody can be named.
    :param groups: where it began.
    :param victims: groups that wait for those.
    :param alarm: seconds since the epoch at which it was seen; ``None`` = a snapshot, or healthy.
    :param localised: when the culprits were first named as sure as they are now.
    :param since: the last instant at which all was well; ``None`` = unknown.
    :param stalls: all stalls at that instant.
    :param flows: flows of the collective that everything waits for.
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
    flows: tuple[FlowState, ...] = ()
    settled: bool = True
    looks: int = 0
    notes: tuple[str, ...] = ()

    @property
    def certainty(self) -> Certainty | None:
        """How sure the surest culprit is; ``None`` = there is none."""
        return self.culprits[0].certainty if self.culprits else None


def diagnose(recording: CollectiveRecording, settings: TriggerSettings | None = None) -> Diagnosis:
    """Watch a recording as it was written: the first alarm, and the surest answer that follows it.

    Looks after the first alarm go on until somebody is named with certainty, or the recording ends.
    """
    settings = settings or TriggerSettings()
    recording = told_of_gaps(align_clocks(recording))
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
    if first is None:
        return replace(best, looks=made, notes=(*best.notes, *_doubts(recording, settings)))
    since = first.since if best.status == "straggler" else best.since
    return replace(best, alarm=first.localised, since=since, looks=made)


def _doubts(recording: CollectiveRecording, settings: TriggerSettings) -> tuple[str, ...]:
    """Return why no alarm may mean little."""
    if not too_short(recording, settings):
        return ()
    return (
        f"no watched rank completed its group's collective {settings.history} times: too little to tell a slow job, "
        f"and a hang only after {settings.history * settings.window:g} s of silence; record more steps",
    )


def diagnose_snapshot(snapshot: Snapshot, notes: Sequence[str] = ()) -> Diagnosis:
    """Return the diagnosis of one instant, from records without counters."""
    healthy = Diagnosis(snapshot.members, snapshot.groups, "healthy", notes=tuple(notes), settled=snapshot.settled)
    roots = find_roots(snapshot)
    if snapshot.gone:
        hosts = {snapshot.members[member].host for member in snapshot.gone}
        sure: Certainty = "certain" if len(hosts) == 1 and None not in hosts else "likely"
        culprits = tuple(Culprit(member, sure) for member in sorted(snapshot.gone))
        groups = tuple(g for g, group in enumerate(snapshot.groups) if snapshot.gone & set(group.members))
        found = replace(healthy, status="failure", cause="unreachable", culprits=culprits, groups=groups)
        return replace(found, stalls=snapshot.stalls)
    if not roots:
        return healthy
    return replace(_from_root(snapshot, roots[0], None, ()), notes=tuple(notes))


def _at_alarm(
    recording: CollectiveRecording, raised: Sequence[Alarm], time: float, settings: TriggerSettings
) -> Diagnosis:
    """What an alarm is about.  A straggler's alarm on a job that stands still is a failure seen early."""
    snapshot = stalls_at(recording, time, quiet=settings.quiet, back=max(settings.window, 2 * settings.quiet))
    failed = any(alarm.kind == "failure" for alarm in raised)
    since = min(alarm.since for alarm in raised)
    roots = find_roots(snapshot)
    if roots:
        since = max(since, roots[0].stalls[0].since or since)
        found = _from_root(snapshot, roots[0], recording, recording.tainted)
        return replace(found, localised=time, since=since, notes=recording.notes)
    healthy = Diagnosis(recording.members, recording.groups, "failure" if failed else "straggler", "unknown")
    base = replace(healthy, localised=time, since=since, notes=recording.notes, stalls=snapshot.stalls)
    return base if failed else _from_slow(base, find_slow(recording, since, time), recording.tainted)


def _rank(diagnosis: Diagnosis) -> tuple[int, int]:
    """Surer is less; of equally sure ones, the one with fewer suspects."""
    certainty = diagnosis.certainty
    return (ORDER[certainty] if certainty else len(ORDER)), len(diagnosis.culprits)


def _from_root(
    snapshot: Snapshot, root: Root, recording: CollectiveRecording | None, tainted: frozenset[int] | tuple[int, ...]
) -> Diagnosis:
    stall = root.stalls[0]
    flows: tuple[FlowState, ...] = ()
    cause: Cause
    if root.kind != "transfer":
        cause, suspects, unique = root.kind, root.suspects, len(root.suspects) == 1
    elif recording is None:
        cause, suspects, unique = "unknown", (), False
    else:
        known = flows_at(recording.states, stall.group, stall.seq)
        found = conditions(known)
        flows = tuple(FlowState(stall.group, flow, state) for flow, state in zip(known, found, strict=True))
        cause, suspects, unique = _of_transfer(snapshot, stall, blame(known, found))
    unsure = not snapshot.settled or root.kind == "crossed-order"
    certainty = _certainty(unique=unique, unsure=unsure, members=suspects, doubtful={*tainted, *snapshot.unseen})
    return Diagnosis(
        snapshot.members,
        snapshot.groups,
        "failure",
        cause,
        tuple(Culprit(member, certainty) for member in suspects),
        tuple(stall.group for stall in root.stalls),
        root.victims,
        since=stall.since,
        stalls=snapshot.stalls,
        flows=flows,
        settled=snapshot.settled,
    )


def _of_transfer(snapshot: Snapshot, stall: Stall, found: Blame) -> tuple[Cause, tuple[int, ...], bool]:
    if snapshot.gone:
        return "unreachable", tuple(sorted(snapshot.gone)), len(snapshot.gone) == 1
    if found.cause in ("not-transmitted", "not-delivered", "gpu-not-ready"):
        return found.cause, found.suspects, found.unique
    alone = found.cause == "complete" and len(stall.standing) == 1
    return ("gpu-not-ready", tuple(stall.standing), True) if alone else ("unknown", (), False)


def _from_slow(base: Diagnosis, found: Sequence[Slow], tainted: frozenset[int]) -> Diagnosis:
    if not found:
        return base
    slow = found[0]
    cause: Cause = "slow-compute" if slow.cause == "slow-before" else _SLOW_INSIDE.get(slow.waiting, "slow-transfer")
    certainty = _certainty(unique=slow.unique, unsure=False, members=slow.suspects, doubtful=set(tainted))
    culprits = tuple(Culprit(member, certainty, slow.factor) for member in slow.suspects)
    return replace(base, cause=cause, culprits=culprits, groups=slow.groups)


def _certainty(*, unique: bool, unsure: bool, members: Sequence[int], doubtful: set[int]) -> Certainty:
    if unique and not unsure and not doubtful & set(members):
        return "certain"
    return "likely" if unique or len(members) == 2 else "possible"
