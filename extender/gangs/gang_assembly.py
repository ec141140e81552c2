"""The members of one gang, put together: ranks, size, job, and what is missing or wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from extender.gangs.gang_annotations import ANNOTATIONS, hints_of
from extender.gangs.gang_job import Understood, understand
from extender.gangs.pod_rules import check_rules, left_to_scheduler
from extender.gangs.ranks import Ranks, ranks_of, seats_of
from extender.gangs.types import Asked, Gang, GangKey, GangMember, InvalidGang
from topology.kubernetes.pods import Pod

_NO_SEATS: Mapping[str, int] = MappingProxyType({})


def assemble(
    key: GangKey, members: Iterable[GangMember], *, seats: Mapping[str, int] = _NO_SEATS, size: int | None = None
) -> Gang:
    """Return all that is known of a gang from its members, at least one, whatever their order.

    A gang that waits is one thing: what one of its pods contradicts stops all.  One of which pods have started goes on
    as it was planned, whatever its pods say by then: only those that fit no rank of it wait.

    :param seats: UID -> rank of the pods that its plan names; empty where no plan has nodes.
    :param size: ranks of that plan.
    """
    everyone = _of_one_run(sorted(members, key=lambda member: (member.pod.name, member.pod.uid)))
    needed = [member for member in everyone if member.needed]
    problem: InvalidGang | None = None
    understood, ranks = Understood(), Ranks()
    disputes: tuple[InvalidGang, ...] = ()
    try:
        if started := _started(needed, seats):
            understood, ranks, disputes = _going_on(key, everyone, started, seats=seats, size=size)
        else:
            speakers = needed or everyone
            for member in speakers:
                if member.problem is not None:
                    raise member.problem
            understood = understand(key, _agreed(speakers), _gpus(speakers), size=_size_said(everyone))
            ranks = ranks_of(everyone, understood.size)
            check_rules([member.pod for member in speakers])
    except InvalidGang as error:
        problem = error
    hints = hints_of(member.pod for member in needed or everyone)
    return Gang(
        key=key,
        dialect=everyone[0].dialect,
        size=understood.size,
        members=ranks.members,
        pods=tuple(member.pod for member in everyone),
        job=None if problem is not None else understood.job,
        tiers=understood.tiers,
        done=ranks.done,
        notes=understood.notes,
        priority=max(member.pod.spec.priority or 0 for member in everyone),
        created=min(member.pod.created for member in everyone),
        seconds=hints.seconds,
        preemptible=hints.preemptible,
        doubts=(*understood.doubts, *hints.doubts),
        unchecked=left_to_scheduler([member.pod for member in needed or everyone]),
        waits="" if problem is not None else ranks.waits,
        problem=problem,
        disputes=disputes,
    )


def _size_said(members: Iterable[GangMember]) -> int | None:
    """Return the size as controllers say it; where it was changed in between, its pods say several: the largest."""
    return max((member.size for member in members if member.size), default=None)


def _started(needed: Iterable[GangMember], seats: Mapping[str, int]) -> list[GangMember]:
    """Return the members that have started as the plan says, the eldest first; where the plan is lost, as marks say."""
    if seats:
        named = (member for member in needed if member.pod.uid in seats)
        started = [member for member in named if member.pod.released or member.pod.node is not None]
    else:
        started = [member for member in needed if member.pod.released]
    return sorted(started, key=lambda member: member.pod.created)


def _going_on(
    key: GangKey,
    everyone: Sequence[GangMember],
    started: Sequence[GangMember],
    *,
    seats: Mapping[str, int],
    size: int | None,
) -> tuple[Understood, Ranks, tuple[InvalidGang, ...]]:
    """Return what the eldest of a gang's started pods ask, the ranks of all that fit one, and what the others dispute.

    :raises InvalidGang: no plan says how many ranks it has, and what those pods ask cannot be understood.
    """
    readable = [member for member in started if member.problem is None]
    eldest, understood = (readable or started)[0], Understood()
    disputes: list[InvalidGang] = []
    try:
        if eldest.problem is not None:
            raise eldest.problem
        words = {field: _first_said(readable, field) for field in ANNOTATIONS}
        requests = {request: None for member in readable for request in member.asked.requests}
        asked = Asked(**words, requests=tuple(requests))
        understood = understand(key, asked, eldest.gpus, size=_size_said(readable))
    except InvalidGang as error:
        if size is None:
            raise
        disputes.append(error)
    entitled = {member.pod.uid for member in started} | seats.keys()
    fitting = [member for member in everyone if member.pod.uid in entitled]
    others = [member for member in everyone if member.pod.uid not in entitled]
    for member in sorted(others, key=lambda member: member.pod.created):
        if member.needed and (why := _why_apart(member, eldest)) is not None:
            disputes.append(why)
        else:
            fitting.append(member)
    count = size or understood.size
    ranks = ranks_of(everyone, None) if count is None else seats_of(fitting, count, seats)
    alike = [member for member in fitting if member.needed]
    return replace(understood, size=count), ranks, (*disputes, *ranks.misfits, *_contradictions(alike))


def _first_said(members: Iterable[GangMember], field: str) -> str | None:
    """Return what the first of some members says that says anything about a field of :class:`Asked`."""
    texts = (getattr(member.asked, field) for member in members)
    return next((text for text in texts if text is not None), None)


def _contradictions(members: Sequence[GangMember]) -> Iterator[InvalidGang]:
    """Yield what would keep members from being planned together."""
    yield from (member.problem for member in members if member.problem is not None)
    for check in (_agreed, _gpus, lambda them: check_rules([member.pod for member in them])):
        try:
            check(members)
        except InvalidGang as error:
            yield error


def _why_apart(member: GangMember, eldest: GangMember) -> InvalidGang | None:
    """Return why a pod is no part of a gang that has started, whatever its rank; ``None`` = it may be."""
    if member.problem is not None:
        return member.problem
    if member.dialect != eldest.dialect:
        return _name_clash(eldest, member)
    if member.gpus > eldest.gpus:
        return _unequal([member, eldest])
    return None


def _of_one_run(members: Sequence[GangMember]) -> Sequence[GangMember]:
    """Leave out the ended pods of earlier runs under the same name, which say nothing about this run.

    A controller that numbers its pods makes one run.  Other pods are told apart by time: a gang starts when all its
    ranks are there, so no pod of a run has ended before the run's first pod was made.  A pod that is made anew counts
    from the first pod of its controller; times are in whole seconds, and nothing is made, placed, started and ended
    within one.  A pod of which it is not known when it ended is of this run.
    """
    needed = [member for member in members if member.needed]
    if not needed or not any(member.pod.terminal for member in members):
        return members
    controllers = {member.numbered_by for member in needed}
    makers = {_maker(member.pod) for member in needed}
    began = min(member.pod.created for member in members if member.needed or _maker(member.pod) in makers)

    def belongs(member: GangMember) -> bool:
        if not member.pod.terminal:
            return True
        finished = member.pod.finished if not member.numbered_by else None
        return member.numbered_by in controllers and (finished is None or finished > began)

    return [member for member in members if belongs(member)]


def _maker(pod: Pod) -> str:
    """Return the UID of a pod's controller; its own where it has none."""
    return pod.owner.uid if pod.owner is not None else pod.uid


def _agreed(members: Sequence[GangMember]) -> Asked:
    """Return what the members ask in one voice, or raise ``InvalidGang``: two say different things."""
    if len({member.dialect for member in members}) > 1:
        raise _name_clash(members[0], next(member for member in members if member.dialect != members[0].dialect))
    said: dict[str, str] = {}
    speakers: dict[Asked, GangMember] = {}  # of pods that ask the same, mostly all, the first
    for member in members:
        speakers.setdefault(member.asked, member)
    for field, key in ANNOTATIONS.items():
        by: dict[str, str] = {}
        for member in speakers.values():
            if (text := getattr(member.asked, field)) is not None:
                by.setdefault(text, member.pod.name)
        if len(by) > 1:
            (one, pod), (two, other_pod) = list(by.items())[:2]
            message = f"pods disagree: {one[:40]!r} ({pod}) and {two[:40]!r} ({other_pod})"
            fix = "give all pods of a gang the same annotations"
            raise InvalidGang(message, reason="Disagreement", where=key, fix=fix)
        if by:
            said[field] = next(iter(by))
    requests = {request: None for asked in speakers for request in asked.requests}
    return Asked(**said, requests=tuple(requests))


def _name_clash(first: GangMember, other: GangMember) -> InvalidGang:
    groups = f"pod {first.pod.name} ({first.dialect}) and pod {other.pod.name} ({other.dialect})"
    message = f"two groups share the name {first.key.name!r}: {groups}"
    return InvalidGang(message, reason="NameClash", fix="give one of them another name")


def _gpus(members: Sequence[GangMember]) -> int:
    """Return the GPUs that each pod asks for, or raise ``InvalidGang``: not all the same."""
    if len({member.gpus for member in members}) > 1:
        raise _unequal(members)
    return members[0].gpus


def _unequal(members: Sequence[GangMember]) -> InvalidGang:
    by = {member.gpus: member.pod.name for member in reversed(members)}
    listed = ", ".join(f"{gpus} ({pod})" for gpus, pod in sorted(by.items()))
    message = f"pods of one gang ask for different numbers of GPUs: {listed}"
    fix = "make all pods of a gang alike: each takes one whole node, or the same share of one"
    return InvalidGang(message, reason="UnequalPods", fix=fix)
