"""From a recording or a snapshot to a diagnosis, also in words: what happened, where it began, what is to blame for it.

A recording is watched as it was written.  The trigger looks at a few ranks again and again: has the job stopped, or
become slow?  At an alarm it is seen what stands still (:mod:`health.collectives.stalls`), and where nothing does, what
makes the job slow: before a collective, or inside it.

*Certain* means: the evidence leaves one member alone.  *Likely*: it points there, and something else could have made
the same records.  *Possible*: one of several.  Only what is certain becomes a flag.

The trigger is after Mycroft (arXiv 2509.03018): every 10 s, on at most 10 ranks, one of each data-parallel group.  A
rank that completed nothing in the window while it stands in a collective: failure.  Throughput halved, or the mean
interval between completions doubled: straggler.  Each look judges the window and its second half: the half sees what
stopped a moment ago, the whole what became slower.  Four guards keep a healthy job quiet.  A rank must have been silent
for twice the longest pause it has had before, so that steps longer than the window are no failure.  A rate must have
halved against its median and lie below all that was seen before, so that a window which happens to hold one step less
than others is no straggler.  And a rhythm must be known before anything can break it: until the rank has been through
the collective of its group a few times, no rate is judged, and a failure takes several windows of silence.  The half is
too short for a rate where it holds less than most of a round.

Slow *before* a collective: a member's own time is what passes between its last completion, of any collective, and its
next launch, by its own clock.  A member that waits for others waits inside a collective; own time is work.  It is
compared with what its peers take before the same collective of theirs: members of the same groups, with the same work
(those of a pipeline do not, and are no peers).  A member is blamed if it exceeds the median of its peers persistently,
by more than it used to, and by enough to explain a good part of what was lost.

Slow *inside* it: the transfer time of a collective is the least time that any of its members spent in it: that of the
last to come.  Where it has grown, the flows' samples say what they wait for.  The flows that wait far more than the
others have one end in common.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Literal, NamedTuple

import numpy as np

from ground.groups import grouped
from health.collectives.recording import (
    CollectiveRecording,
    Completions,
    Member,
    RankGroup,
    Seconds,
    align_clocks,
    note_gaps,
)
from health.collectives.stalls import (
    Condition,
    Flow,
    Root,
    Snapshot,
    Stall,
    blame,
    conditions,
    cover,
    find_roots,
    flows_at,
    shares,
    stalls_at,
)
from health.collectives.trigger_settings import TriggerSettings

MOST_RANKS = 10

ROUND = 2 / 3  # How much of a round the second half of a window must hold for a rate
PAUSE = 1.2  # A pause of so many windows holds a whole empty window, wherever the grid of a tenth of a window lies
FORGOTTEN = 3.0
"""Windows without any record after which a look raises no alarm: the pause is then one that the rate had before, and a
failure needs a rank that stands in a collective now."""

AlarmKind = Literal["failure", "straggler"]


@dataclass(frozen=True, slots=True)
class Alarm:
    """A rank that is worth a closer look."""

    time: float
    kind: AlarmKind
    member: int
    ratio: float  # by how much its interval has grown, or its rate has fallen; inf for a failure
    since: float  # the last instant at which all was well, as far as this rank shows


@dataclass(frozen=True, slots=True)
class _Life:
    """What a watched rank did: completions, and when it stood in a collective."""

    member: int
    rhythm: Seconds  # its completions in the group by which it is watched
    ends: Seconds
    bytes: Seconds
    standing: Seconds


def watched_members(recording: CollectiveRecording) -> dict[int, int]:
    """Return one member of each data-parallel group (without such groups, of the groups there are) -> that group.

    Members, at most :data:`MOST_RANKS`, are from the middle of their groups, evenly over the groups where there are
    more.
    """
    numbered = list(enumerate(recording.groups))
    kinds = [[i for i, group in numbered if group.kind == "dp" and len(group.members) > 1], [i for i, _ in numbered]]
    groups = next((kind for kind in kinds if kind), [])
    chosen: dict[int, int] = {}
    for i in groups:
        members = recording.groups[i].members
        chosen.setdefault(members[len(members) // 2], i)
    distinct = list(chosen.items())
    if len(distinct) <= MOST_RANKS:
        return chosen
    return dict(distinct[round(i * (len(distinct) - 1) / (MOST_RANKS - 1))] for i in range(MOST_RANKS))


class Look(NamedTuple):
    """A look that raised alarms."""

    time: float
    number: int  # how many looks there were up to this one, itself included
    alarms: list[Alarm]


def looks(recording: CollectiveRecording, settings: TriggerSettings) -> int:
    """Return how many looks the whole recording takes; the last one is at its end."""
    return max(1, ceil((recording.end - recording.start) / settings.period - 1e-9))


def alarms(recording: CollectiveRecording, settings: TriggerSettings) -> Iterator[Look]:
    """Yield the looks that raise alarms, in order of time."""
    lives = [_life(recording, member, group) for member, group in watched_members(recording).items()]
    events = np.sort(
        np.concatenate([np.zeros(0), *(column for life in lives for column in (life.ends, life.standing))])
    )
    reach = max(FORGOTTEN * settings.window, settings.quiet)
    last, number = looks(recording, settings), 1
    while number <= last:
        time = recording.end if number == last else recording.start + settings.period * number
        past = int(np.searchsorted(events, time, side="right"))
        if past == 0 or time - events[past - 1] > reach:
            if past == len(events):
                return
            # One less than the quotient, as it is rounded.
            ahead = int((events[past] - recording.start) / settings.period) - 1
            number = max(number + 1, min(ahead, last))
            continue
        raised = [alarm for life in lives if (alarm := _judge(life, time, settings)) is not None]
        if raised:
            yield Look(time, number, raised)
        number += 1


def _life(recording: CollectiveRecording, member: int, group: int) -> _Life:
    ends = recording.completions.where(recording.completions.member == member)
    standing = recording.states.time[recording.states.member == member]
    return _Life(member, ends.end[ends.group == group], ends.end, ends.bytes.astype(np.float64), standing)


def _judge(life: _Life, time: float, settings: TriggerSettings) -> Alarm | None:
    completed = int(np.searchsorted(life.ends, time, side="right"))
    ends = life.ends[:completed]
    first = min((column[0] for column in (ends, life.standing) if len(column)), default=time)
    if first >= time:
        return None
    pauses = np.diff(ends)
    longest = float(pauses.max()) if len(pauses) else 0.0
    last = float(ends[-1]) if completed else float(first)
    rhythm = life.rhythm[: int(np.searchsorted(life.rhythm, time, side="right"))]
    regular = len(rhythm) >= max(settings.history, 2)
    patience = settings.window / 2 if regular else settings.window * settings.history
    in_collective = life.standing[: int(np.searchsorted(life.standing, time, side="right"))]
    stands = len(in_collective) > 0 and time - float(in_collective[-1]) < settings.quiet
    if time - last >= max(patience, 2 * longest) and stands:
        return Alarm(time, "failure", life.member, np.inf, last)
    if not regular:
        return None
    alarm = _slower(life, ends, time, settings.window, settings)
    if alarm is None and ROUND * float(np.median(np.diff(rhythm))) <= settings.window / 2:
        alarm = _slower(life, ends, time, settings.window / 2, settings)
    return alarm


def _slower(life: _Life, ends: Seconds, time: float, window: float, settings: TriggerSettings) -> Alarm | None:
    # whether a rate of nothing is one that the rank had before, so that no rate is below all of them
    pauses = np.diff(ends, append=time)
    if bool(np.any((pauses > PAUSE * window) & (ends + PAUSE * window <= time - window))):
        return None
    starts = np.arange(float(ends[0]) if len(ends) else time, time - 2 * window, window / 10)
    if len(starts) < 10 * (settings.history - 1) + 1:
        return None
    total = np.concatenate([[0.0], np.cumsum(life.bytes[: len(ends)])])
    ratios = []
    for amount in (total, np.arange(len(total), dtype=np.float64)):
        before = _amount_within(ends, amount, starts, window)
        now = float(_amount_within(ends, amount, np.array([time - window]), window)[0])
        usual = float(np.median(before))
        if usual > 0 and now * settings.factor <= usual and now < 0.9 * float(before.min()):
            ratios.append(usual / now if now else np.inf)
    if not ratios:
        return None
    return Alarm(time, "straggler", life.member, max(ratios), time - window)


def _amount_within(ends: Seconds, amount: Seconds, starts: Seconds, window: float) -> Seconds:
    """Return how much of a running total falls into each window."""
    first, last = (np.searchsorted(ends, edge, side="right") for edge in (starts, starts + window))
    return np.asarray(amount[last] - amount[first])


SlowCause = Literal["slow-before", "slow-inside"]

PERSISTENT = 0.75  # Share of the times in which a member must take noticeably longer than its peers
NOTICEABLE = 1.25  # What is noticeably longer
TRIFLE = 0.001  # Seconds; work that takes its peers less is none: the launch of one collective right after another
MOST_PEERS = 64  # Peers that a member is compared with: their median is settled by then
PARTS = (1.0, 0.5, 0.25)
"""Parts of the time in question, its end, in which a member must be slow: it may have begun in the middle."""

FEWEST = 3  # Times or collectives that a judgement needs
GROWN = 1.5  # Growth of a transfer time that makes a group an affected one
EXPLAINS = 0.3  # Share of the lost time that a member's own time must explain
WAITING = 0.5  # Share of its samples that a flow which holds up the others spends waiting for the network or the GPU
APART = 2.0  # By how much it must exceed the flows that do not hold up any rank


@dataclass(frozen=True, slots=True)
class Slow:
    """Members that make the job slow."""

    cause: SlowCause
    suspects: tuple[int, ...]  # none = it is not known which
    groups: tuple[int, ...]
    factor: float  # by how much the suspects' work, or the transfer, takes longer
    unique: bool
    waiting: Condition | None = None  # for slow-inside: what the flows wait for


def find_slow(recording: CollectiveRecording, since: float, time: float) -> list[Slow]:
    """Return what has become slow between ``since`` and ``time``, the best explained first; empty = nothing is."""
    completions = recording.completions.until(time)
    completions = completions.where(~np.isnan(completions.start))
    # own work: the time to each launch from the end of whatever the same member launched before
    work = []
    for member in np.unique(completions.member).tolist():
        mine = completions.where(completions.member == member)
        mine = mine.where(np.lexsort((mine.seq, mine.start)))
        own = np.maximum(mine.start[1:] - np.maximum.accumulate(mine.end)[:-1], 0.0)
        # the first launch has no end before it
        for (end, _, group, _, seq, op, size), seconds in zip(
            mine.where(slice(1, None)).rows(), own.tolist(), strict=True
        ):
            work.append(_Work(member, group, (recording.groups[group].kind, op, size, seq), seconds, end))
    old = [piece for piece in work if piece.end <= since]
    late = completions.end > since
    explained = _inside(recording, completions.where(~late), completions.where(late), since, time)
    for part in PARTS:
        span = (time - since) * part
        slow = _before(recording, old, [piece for piece in work if piece.end > time - span], span)
        if slow:
            explained += slow
            break
    return sorted(explained, key=lambda slow: (not slow.unique, slow.cause != "slow-before"))


Task = tuple[str, int, int, int]


class _Work(NamedTuple):
    """What a member did by itself before a collective."""

    member: int
    group: int
    # what tells one piece of work from another: kind of group, operation, size and number of the collective that
    # follows; peers count theirs alike
    task: Task
    seconds: float
    end: float


@dataclass(slots=True)
class _Excess:
    """How much longer than its peers a member works."""

    seconds: float = 0.0  # by which it worked longer than its peers
    own: float = 0.0  # seconds that it worked, where its peers took usual
    usual: float = 0.0
    above: int = 0  # how often it took noticeably longer, of count times
    count: int = 0
    groups: set[int] = field(default_factory=set)


def _before(recording: CollectiveRecording, old: Sequence[_Work], new: Sequence[_Work], span: float) -> list[Slow]:
    """Return members that hold up the others by their own time."""
    before, after = _excess(recording, old), _excess(recording, new)
    ends = [work.end for work in old]
    length = max(ends) - min(ends) if ends else 0.0
    lost: dict[int, float] = {}
    for member, excess in after.items():
        usual = before[member].seconds / length * span if member in before and length > 0 else 0.0
        persistent = excess.count >= FEWEST and excess.above >= PERSISTENT * excess.count
        if persistent and excess.seconds - usual >= EXPLAINS * span:
            lost[member] = excess.seconds - usual
    if not lost:
        return []
    # what loses at least half of what the worst does is a suspect too
    suspects = tuple(sorted(member for member, seconds in lost.items() if seconds >= max(lost.values()) / 2))
    groups = set().union(*(after[member].groups for member in suspects))
    factor = max(1.0, *(after[member].own / after[member].usual for member in suspects))
    return [Slow("slow-before", suspects, tuple(sorted(groups)), factor, len(suspects) == 1)]


def _excess(recording: CollectiveRecording, work: Sequence[_Work]) -> dict[int, _Excess]:
    """Of each member, over all tasks that take it time; the yardstick is the median of its peers in the same task."""
    times: dict[Task, dict[int, list[_Work]]] = defaultdict(lambda: defaultdict(list))
    for piece in work:
        times[piece.task][piece.member].append(piece)
    excess_of: dict[int, _Excess] = defaultdict(_Excess)
    # those that share a group do the same work, pipelines left out; of many peers, a few of all
    sharing: dict[int, set[int]] = defaultdict(set)
    for group in recording.groups:
        if group.kind != "pp":
            for member in group.members:
                sharing[member].update(group.members)
    peers = {
        member: sorted(peer - {member})[:: max(1, -(-(len(peer) - 1) // MOST_PEERS))]
        for member, peer in sharing.items()
    }
    for members in times.values():
        for member, mine in members.items():
            others = [piece.seconds for peer in peers.get(member, ()) for piece in members.get(peer, ())]
            usual = float(np.median(others)) if others else 0.0
            if usual <= TRIFLE:
                continue
            entry = excess_of[member]
            entry.count += len(mine)
            entry.usual += usual * len(mine)
            entry.groups.update(piece.group for piece in mine)
            for piece in mine:
                entry.own += piece.seconds
                entry.seconds += max(piece.seconds - usual, 0.0)
                entry.above += piece.seconds > NOTICEABLE * usual
    return excess_of


def _inside(
    recording: CollectiveRecording, old: Completions, new: Completions, since: float, time: float
) -> list[Slow]:
    """Return members that hold up transfers."""
    # Group -> by how much its transfers of the same operation and size take longer, at the median
    usual, now = _transfers(recording, old), _transfers(recording, new)
    growth: dict[int, float] = {}
    for key, seconds in now.items():
        usual_seconds = usual.get(key, [])
        before = float(np.median(usual_seconds)) if len(usual_seconds) >= FEWEST else 0.0
        if before > 0:
            growth[key[0]] = max(growth.get(key[0], 0.0), float(np.median(seconds)) / before)
    affected = tuple(sorted(group for group, ratio in growth.items() if ratio >= GROWN))
    if not affected:
        return []
    factor = max(growth[group] for group in affected)
    common = set.intersection(*(set(recording.groups[group].members) for group in affected))
    rows = recording.states.between(since, time)
    rows = rows.where(np.isin(rows.group, affected))
    waits: tuple[Condition, ...] = ("not-delivered", "not-transmitted", "gpu-not-ready")
    for condition in waits:
        # the common ends of the flows that wait far more than all others
        share = shares(rows, recording.groups, condition)
        limit = max(WAITING, max(share.values(), default=0.0) / APART)
        pairs = [pair for pair, value in share.items() if value >= limit]
        if 0 < len(pairs) < len(share):
            suspects = cover(pairs)
            shared = tuple(member for member in suspects if member in common)
            unique = len(shared) == 1 and (len(suspects) == 1 or len(common) == 1)
            return [Slow("slow-inside", shared or suspects, affected, factor, unique, condition)]
    if len(common) == len(recording.groups[affected[0]].members):
        return [Slow("slow-inside", (), affected, factor, unique=False)]
    clear = {m for group, ratio in growth.items() if ratio < GROWN for m in recording.groups[group].members}
    return [Slow("slow-inside", tuple(sorted(common - clear or common)), affected, factor, unique=False)]


def _transfers(recording: CollectiveRecording, completions: Completions) -> dict[tuple[int, int, int], list[float]]:
    """Return (group, operation, size) -> transfer time of each collective that all members completed."""
    inside = completions.end - completions.start
    transfers: dict[tuple[int, int, int], list[float]] = defaultdict(list)
    for rows in completions.by_collective():
        first = int(rows[0])
        number = int(completions.group[first])
        if len(rows) == len(recording.groups[number].members):
            transfers[number, int(completions.op[first]), int(completions.bytes[rows].max())].append(
                float(inside[rows].min())
            )
    return transfers


Status = Literal["healthy", "failure", "straggler"]
Certainty = Literal["certain", "likely", "possible"]
Cause = Literal[
    "none",
    "not-launched",
    "not-completed",
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
    "not-completed": "it stands in a collective that the others of its group have completed: its GPU, or its network",
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
EACH: tuple[Cause, ...] = ("not-launched", "not-completed", "no-record", "unreachable")
"""Causes of which each suspect is one by itself, whatever others are."""

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
    cause: Cause | None = None  # None = that of the diagnosis


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
        diagnosis = _at_alarm(recording, raised, time, settings)
        first = first or diagnosis
        if best.status == "healthy" or _rank(diagnosis) < _rank(best):
            best = diagnosis
        if best.certainty == "certain":
            made = number
            break
    if first is not None:
        since = first.since if best.status == "straggler" else best.since
        return replace(best, alarm=first.localised, since=since, looks=made)
    # without a known rhythm of any watched rank only a long silence could have been noticed
    watched = watched_members(recording).items()
    if any(len(_life(recording, *of_group).rhythm) >= settings.history for of_group in watched):
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
    diagnosis = _from_root(base, snapshot, roots[0]) if roots else replace(base, stalls=())
    if diagnosis.cause in EACH:
        for root in roots[1:]:
            if root.kind not in EACH:
                continue
            also = _from_root(base, snapshot, root)
            known = {culprit.member for culprit in diagnosis.culprits}
            groups = tuple(dict.fromkeys((*diagnosis.groups, *also.groups)))
            diagnosis = replace(
                diagnosis,
                culprits=(*diagnosis.culprits, *(c for c in also.culprits if c.member not in known)),
                groups=groups,
                victims=tuple(sorted({*diagnosis.victims, *also.victims} - {*groups})),
            )
        if len(diagnosis.culprits) > 1:
            culprits = tuple(
                replace(c, certainty="likely") if c.certainty == "certain" else c for c in diagnosis.culprits
            )
            diagnosis = replace(diagnosis, culprits=culprits)
    undecided = snapshot.idle - {culprit.member for culprit in diagnosis.culprits} if snapshot.unrecorded else ()
    if undecided:
        names = _few([snapshot.members[member].label for member in sorted(undecided)])
        note = f"others wait for {names}, whose transfers are not recorded: one may wait for another, or for a dead one"
        diagnosis = replace(diagnosis, notes=(*diagnosis.notes, note))
    if diagnosis.culprits or not snapshot.missing:
        return diagnosis
    # A file that is missing among those of the others is evidence: a process that dies writes none.  It is never
    # certain, as files get lost.
    silent = sorted(snapshot.missing)
    certainty = _certainty(silent, snapshot.unseen, unique=len(silent) == 1)
    return replace(
        diagnosis,
        status="failure",
        cause="no-record",
        culprits=tuple(Culprit(member, certainty) for member in silent),
        groups=diagnosis.groups or tuple(g for g, group in enumerate(snapshot.groups) if {*silent} & {*group.members}),
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
        failure = _from_root(base, snapshot, roots[0], recording)
        return replace(failure, since=max(since, failure.since or since))
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
        counters = flows_at(recording.states, stall.group, stall.seq)
        waits_for = conditions(counters)
        flows = tuple(zip(counters, waits_for, strict=True))
        blamed = blame(counters, waits_for)
        if snapshot.gone:
            cause, suspects = "unreachable", tuple(sorted(snapshot.gone))
        elif blamed.cause == "complete" and len(stall.standing) == 1:
            cause, suspects = "gpu-not-ready", tuple(stall.standing)
        elif blamed.cause != "complete" and blamed.cause != "starved":  # noqa: PLR1714 - so that the type is narrowed
            cause, suspects = blamed.cause, blamed.suspects
    doubtful = snapshot.unseen | (frozenset() if recording is None else recording.tainted)
    sure = snapshot.settled and root.kind not in PROGRAM
    certainty = _certainty(suspects, doubtful, unique=len(suspects) == 1, sure=sure)
    if certainty == "possible" and root.kind in ("not-launched", "not-completed"):
        certainty = "likely"
    return replace(
        base,
        status="failure",
        cause=cause,
        culprits=tuple(Culprit(member, certainty, cause=cause) for member in suspects),
        groups=tuple(stall.group for stall in root.stalls),
        victims=root.victims,
        since=stall.since,
        flows=flows,
    )


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
        return f"{what}{where}; no rank can be named: {CAUSES[diagnosis.cause]}"
    by_cause = grouped((culprit.cause or diagnosis.cause, culprit) for culprit in diagnosis.culprits)
    told = []
    for cause, (first, *_) in by_cause.items():
        places, doubt = [], ""
        for culprit in by_cause[cause]:
            member, before, doubt = diagnosis.members[culprit.member], doubt, DOUBT[culprit.certainty]
            host = f" on {member.host}" if member.host and member.host not in member.label else ""
            places.append(f"{doubt if doubt != before else ''}{member.label}{host}")
        names = _few(places, last=" and " if cause in EACH and first.certainty != "possible" else " or ")
        told.append(f"{names}{': ' if diagnosis.settled else ', as '}{blame_sentence(cause, first)}")
    return f"{what}{where}{'; to blame is ' if diagnosis.settled else ': '}{'; '.join(told)}"


def blame_sentence(cause: Cause, culprit: Culprit) -> str:
    """Return a cause in words, with the culprit's factor where there is one."""
    return CAUSES[cause] + (f" ({culprit.factor:.1f} times)" if culprit.factor is not None else "")


def _few(names: Sequence[str], *, last: str = " and ") -> str:
    shown = [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else list(names)
    return ", ".join(shown[:-1]) + last + shown[-1] if len(shown) > 1 else shown[0]
