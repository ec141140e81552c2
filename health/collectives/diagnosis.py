"""From a recording or a snapshot to a diagnosis, also in words: what happened, where it began, what is to blame for it.

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
from health.collectives.stalls import Root, Snapshot, Stall, find_roots, stalls_at
from health.collectives.trigger import Alarm, alarms, looks, too_short
from health.collectives.trigger_settings import TriggerSettings

Status = Literal["healthy", "failure", "straggler"]
Certainty = Literal["certain", "likely", "possible"]
Cause = Literal[
    "none",
    "not-launched",
    "not-transmitted",
    "not-delivered",
    "gpu-not-ready",
    "crossed-order",
    "other-size",
    "unreachable",
    "no-record",
    "late",
    "slow-compute",
    "slow-transfer",
    "slow-gpu",
    "unknown",
]

CAUSES: dict[Cause, str] = {
    "none": "nothing is wrong",
    "not-launched": "it never launched a collective that its whole group waits for",
    "not-transmitted": "data are ready and not transmitted: the sender's network card, or a receiver without room",
    "not-delivered": "data are transmitted and not delivered: the receiver's network card, or the way to it",
    "gpu-not-ready": "its GPU has all it needs and makes nothing ready",
    "crossed-order": "ranks entered collectives in different orders and wait for one another: the program's mistake",
    "other-size": "it called a collective with another size or type than its group: the program's mistake",
    "unreachable": "it is dead or does not answer",
    "no-record": "it left no record beside those of the others: it died before them, or its file is missing or broken",
    "late": "it spends far less time in its collectives than the others of its group, so it comes last",
    "slow-compute": "it works longer than its peers before each collective: a slow GPU or host",
    "slow-transfer": "transfers with it take longer, and flows wait at it: its network card, or the GPU behind it",
    "slow-gpu": "its GPU hands over chunks slowly inside collectives",
    "unknown": "the records do not show the cause",
}

PROGRAM: tuple[Cause, ...] = ("crossed-order", "other-size")  # Causes that are mistakes of the program, no node's

MOST_NAMES = 4  # That a sentence has; of the others it says how many
DOUBT = {"certain": "", "likely": "likely ", "possible": "possibly "}

ORDER: dict[Certainty, int] = {"certain": 0, "likely": 1, "possible": 2}

_SLOW_INSIDE: dict[Condition | None, Cause] = {
    "gpu-not-ready": "slow-gpu",
    "not-delivered": "slow-transfer",
    "not-transmitted": "slow-transfer",
}


@dataclass(frozen=True, slots=True)
class Culprit:
    """A member that may be to blame."""

    member: int
    certainty: Certainty
    factor: float | None = None  # by how much it is slow; None = it has stopped


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is known of a job's collectives."""

    members: tuple[Member, ...]
    all_groups: tuple[RankGroup, ...]
    status: Status
    cause: Cause = "none"  # the cause of what came first
    culprits: tuple[Culprit, ...] = ()  # the surest first; empty = none can be named
    groups: tuple[int, ...] = ()  # where it began
    victims: tuple[int, ...] = ()  # groups that wait for those
    alarm: float | None = None  # seconds since the epoch at which it was seen; None = a snapshot, or healthy
    localised: float | None = None  # when the culprits were first named as sure as they are now
    since: float | None = None  # the last instant at which all was well; None = unknown
    stalls: tuple[Stall, ...] = ()
    # flows of the collective that everything waits for, and what each waits for itself
    flows: tuple[tuple[Flow, Condition], ...] = ()
    settled: bool = True  # whether the records show that the stalls stand still, and are not merely under way
    looks: int = 0
    notes: tuple[str, ...] = ()

    @property
    def certainty(self) -> Certainty | None:
        """How sure the surest culprit is; ``None`` = there is none."""
        return self.culprits[0].certainty if self.culprits else None


def diagnose(recording: CollectiveRecording, settings: TriggerSettings | None = None) -> Diagnosis:
    """Watch a recording as it was written: the first alarm, and the surest answer that follows it.  Looks after the
    first alarm go on until a member is named with certainty, or the recording ends.
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
    found = _from_root(base, snapshot, roots[0]) if roots else replace(base, stalls=())
    return found if found.culprits else _without_records(found, snapshot)


def _without_records(found: Diagnosis, snapshot: Snapshot) -> Diagnosis:
    """Return the diagnosis with the few members that left no record as suspects, where nobody else is one.

    A file that is missing among those of the others is evidence: a process that dies writes none.  It is never certain,
    as files get lost, and says nothing where half of the members or more have none.
    """
    silent = sorted(snapshot.unseen)
    if found.groups:
        members = {member for group in found.groups for member in snapshot.groups[group].members}
        silent = [member for member in silent if member in members]
    if not silent or 2 * len(snapshot.unseen) >= len(snapshot.members):
        return found
    certainty = _certainty(silent, snapshot.unseen, unique=len(silent) == 1)
    return replace(
        found,
        status="failure",
        cause="no-record",
        culprits=tuple(Culprit(member, certainty) for member in silent),
        groups=found.groups or tuple(g for g, group in enumerate(snapshot.groups) if {*silent} & {*group.members}),
    )


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
    sure = snapshot.settled and root.kind not in PROGRAM
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


def verdict(diagnosis: Diagnosis) -> str:
    """Return what happened and what is to blame, in one or two sentences."""
    if diagnosis.status == "healthy":
        if not diagnosis.settled:
            return "Nothing shows that a collective stands still or that a rank is behind"
        return "No collective stands still and no watched rank has become slow"
    what = "The job stands still" if diagnosis.status == "failure" else "The job has become slow"
    if not diagnosis.settled:
        what = "Some ranks are behind" if diagnosis.status == "failure" else "Some ranks come late"
        if diagnosis.cause in PROGRAM:
            what = "Ranks do not call the same"
        elif diagnosis.status == "failure" and not diagnosis.culprits:
            what = "A collective is not over"
    where = f", first in {_few([diagnosis.all_groups[g].name for g in diagnosis.groups])}" if diagnosis.groups else ""
    if not diagnosis.culprits:
        return f"{what}{where}; no rank can be named: {blame_sentence(diagnosis)}"
    names = _few([_place(diagnosis, culprit.member) for culprit in diagnosis.culprits], last=" or ")
    if diagnosis.cause == "unreachable":
        names = _few([_place(diagnosis, culprit.member) for culprit in diagnosis.culprits])
    if not diagnosis.settled:
        return f"{what}{where}: {DOUBT[diagnosis.certainty or 'possible']}{names}, as {blame_sentence(diagnosis)}"
    return f"{what}{where}; to blame is {DOUBT[diagnosis.certainty or 'possible']}{names}: {blame_sentence(diagnosis)}"


def blame_sentence(diagnosis: Diagnosis) -> str:
    """Return the cause in words, with the factor where there is one."""
    factor = diagnosis.culprits[0].factor if diagnosis.culprits else None
    return CAUSES[diagnosis.cause] + (f" ({factor:.1f} times)" if factor is not None else "")


def _place(diagnosis: Diagnosis, member: int) -> str:
    found = diagnosis.members[member]
    return f"{found.label} on {found.host}" if found.host and found.host not in found.label else found.label


def _few(names: Sequence[str], *, last: str = " and ") -> str:
    shown = [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else list(names)
    return ", ".join(shown[:-1]) + last + shown[-1] if len(shown) > 1 else shown[0]
