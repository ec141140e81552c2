"""The members of one gang, put together: ranks, size, job, and what is missing or wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.gangs.gang_annotations import ANNOTATIONS, hints_of
from extender.gangs.gang_job import Understood, understand
from extender.gangs.pod_rules import check_rules, left_to_scheduler
from extender.gangs.ranks import Ranks, ranks_of
from extender.gangs.types import Asked, Gang, GangKey, GangMember, InvalidGang
from topology.kubernetes.kubernetes_pods import Pod


def assemble(key: GangKey, members: Iterable[GangMember]) -> Gang:
    """Return all that is known of a gang from its members, at least one, whatever their order."""
    everyone = _of_one_run(sorted(members, key=lambda member: (member.pod.name, member.pod.uid)))
    needed = [member for member in everyone if member.needed]
    problem: InvalidGang | None = None
    understood, ranks = Understood(), Ranks()
    try:
        speakers = needed or everyone
        for member in speakers:
            if member.problem is not None:
                raise member.problem
        # Where the size was changed in between, its pods say several: the largest counts.
        size = max((member.size for member in everyone if member.size), default=None)
        understood = understand(key, _agreed(speakers), _gpus(speakers), size=size)
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
    )


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
        first, other = members[0], next(member for member in members if member.dialect != members[0].dialect)
        groups = f"pod {first.pod.name} ({first.dialect}) and pod {other.pod.name} ({other.dialect})"
        message = f"two groups share the name {first.key.name!r}: {groups}"
        raise InvalidGang(message, reason="NameClash", fix="give one of them another name")
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


def _gpus(members: Sequence[GangMember]) -> int:
    """Return the GPUs that each pod asks for, or raise ``InvalidGang``: not all the same."""
    by = {member.gpus: member.pod.name for member in reversed(members)}
    if len(by) > 1:
        listed = ", ".join(f"{gpus} ({pod})" for gpus, pod in sorted(by.items()))
        message = f"pods of one gang ask for different numbers of GPUs: {listed}"
        fix = "make all pods of a gang alike: each takes one whole node, or the same share of one"
        raise InvalidGang(message, reason="UnequalPods", fix=fix)
    return next(iter(by))
