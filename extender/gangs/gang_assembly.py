"""The members of one gang, put together: ranks, size, job, and what is missing or wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from extender.gangs.gang_annotations import ANNOTATIONS, hints_of
from extender.gangs.gang_job import Understood, understand
from extender.gangs.types import Asked, Gang, GangKey, GangMember, InvalidGang
from extender.kubernetes_names import GANG_SIZE, RANK
from topology.readers.kubernetes_pods import Pod

_SHOWN = 5  # ranks or pods named in a sentence


def assemble(key: GangKey, members: Iterable[GangMember]) -> Gang:
    """Return all that is known of a gang from its members, at least one, whatever their order."""
    everyone = _of_one_run(sorted(members, key=lambda member: (member.pod.name, member.pod.uid)))
    needed = [member for member in everyone if member.needed]
    problem: InvalidGang | None = None
    understood, ranks = Understood(), _Ranks()
    try:
        speakers = needed or everyone
        for member in speakers:
            if member.problem is not None:
                raise member.problem
        # Where the size was changed in between, its pods say several: the largest counts.
        size = max((member.size for member in everyone if member.size), default=None)
        understood = understand(key, _agreed(speakers), _gpus(speakers), size=size)
        ranks = _ranks(everyone, understood.size)
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
        doubts=hints.doubts,
        waits="" if problem is not None else ranks.waits,
        problem=problem,
    )


@dataclass(frozen=True, slots=True)
class _Ranks:
    """Members by rank."""

    members: tuple[GangMember | None, ...] = ()
    done: frozenset[int] = frozenset()
    waits: str = ""


def _of_one_run(members: Sequence[GangMember]) -> Sequence[GangMember]:
    """Leave out the ended pods of earlier runs under the same name, which say nothing about this run.

    A controller that numbers its pods makes one run.  Other pods are told apart by time: a gang starts when all its
    ranks are there, so no pod of a run has ended before the run's first pod was made.  A pod that is made anew counts
    from the first pod of its controller; times are in whole seconds, and nothing is made, placed, started and ended
    within one.  A pod of which it is not known when it ended is of this run.
    """
    needed = [member for member in members if member.needed]
    if not needed:
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
    for field, key in ANNOTATIONS.items():
        by: dict[str, str] = {}
        for member in members:
            if (text := getattr(member.asked, field)) is not None:
                by.setdefault(text, member.pod.name)
        if len(by) > 1:
            (one, pod), (two, other_pod) = list(by.items())[:2]
            message = f"pods disagree: {one[:40]!r} ({pod}) and {two[:40]!r} ({other_pod})"
            fix = "give all pods of a gang the same annotations"
            raise InvalidGang(message, reason="Disagreement", where=key, fix=fix)
        if by:
            said[field] = next(iter(by))
    requests = {request: None for member in members for request in member.asked.requests}
    return Asked(**said, requests=tuple(requests))


def _gpus(members: Sequence[GangMember]) -> int:
    """Return the GPUs that each pod asks for, or raise ``InvalidGang``: not all the same."""
    by = {member.pod.gpus: member.pod.name for member in reversed(members)}
    if len(by) > 1:
        listed = ", ".join(f"{gpus} ({pod})" for gpus, pod in sorted(by.items()))
        message = f"pods of one gang ask for different numbers of GPUs: {listed}"
        fix = "make all pods of a gang alike: each takes one whole node"
        raise InvalidGang(message, reason="UnequalPods", fix=fix)
    return next(iter(by))


def _ranks(members: Sequence[GangMember], size: int | None) -> _Ranks:
    """Make ranks of indices.

    :raises InvalidGang: a pod without an index, two with the same, one out of range, more pods than the gang has.
    """
    needed = [member for member in members if member.needed]
    taken: dict[tuple[int, ...], GangMember] = {}
    for member in needed:
        if member.index is None:
            fix = f"number the pods from 0 with the label {RANK}, or use a controller that numbers its pods"
            raise InvalidGang.of_pod(member.pod, f"pod {member.pod.name} has no rank", reason="MissingRank", fix=fix)
        if (first := taken.setdefault(member.index, member)) is not member:
            index = ".".join(map(str, member.index))
            message = f"pods {first.pod.name} and {member.pod.name} have the same rank, {index}"
            fix = "give every pod of a gang a rank of its own"
            raise InvalidGang.of_pod(member.pod, message, reason="DuplicateRank", fix=fix)
    ended = (member.index for member in members if member.pod.status.phase == "Succeeded")
    finished = {index for index in ended if index is not None} - taken.keys()
    if len({len(index) for index in (*taken, *finished)}) > 1:
        message = "some pods of the gang are numbered by one label and some by another"
        raise InvalidGang(message, reason="MixedRanks", fix=f"number all of them with the label {RANK}, or none")
    if size is None:
        return _Ranks(waits=f"nobody says how many pods the gang has: add the annotation {GANG_SIZE}")
    if len(taken) + len(finished) > size:
        raise InvalidGang(
            f"the gang has {len(taken) + len(finished)} pods, more than its size, {size}",
            reason="TooManyPods",
            where=GANG_SIZE,
            fix=f"say with {GANG_SIZE} how many pods start together (where nothing says it, a PodGroup's minimum is "
            "read as the size), or give the others another gang name",
        )
    if any(len(index) > 1 for index in (*taken, *finished)):
        parts = {member.parts for member in needed}
        count = next(iter(parts)) if len(parts) == 1 else None
        if count is None or size % count:
            return _dense(taken, finished, size)
        taken = {(_in_parts(member, size // count),): member for member in taken.values()}
        finished = {(job * (size // count) + completion,) for job, completion in finished}
    return _direct(
        {index[0]: member for index, member in taken.items()}, {index[0] for index in finished if index[0] < size}, size
    )


def _in_parts(member: GangMember, pods: int) -> int:
    """Return the rank of a pod of one of several jobs that have so many pods each, or raise ``InvalidGang``: fewer."""
    assert member.index is not None
    job, completion = member.index
    if completion >= pods:
        has = f"completion index {completion}, its job has {pods} pods of the gang"
        raise _out_of_range(member.pod, has, f"set {GANG_SIZE} to the pods of all jobs together")
    return job * pods + completion


def _out_of_range(pod: Pod, has: str, fix: str) -> InvalidGang:
    return InvalidGang.of_pod(pod, f"pod {pod.name} has {has}", reason="RankOutOfRange", fix=fix)


def _direct(taken: dict[int, GangMember], finished: set[int], size: int) -> _Ranks:
    """Return ranks where the index is the rank."""
    for rank, member in taken.items():
        if rank >= size:
            has = f"rank {rank}, the gang has ranks 0 to {size - 1}"
            raise _out_of_range(member.pod, has, f"number the pods from 0, or raise {GANG_SIZE}")
    missing = [rank for rank in range(size) if rank not in taken and rank not in finished]
    waits = ""
    if missing:
        ranks = ", ".join(map(str, missing[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
        waits = f"{len(missing)} of {size} pods are missing: rank {ranks}"
    return _Ranks(tuple(taken.get(rank) for rank in range(size)), frozenset(finished), waits)


def _dense(taken: dict[tuple[int, ...], GangMember], finished: set[tuple[int, ...]], size: int) -> _Ranks:
    """Return ranks in the order of the indices, known when all pods are there."""
    order = sorted((*taken, *finished))
    if len(order) < size:
        return _Ranks(waits=f"{size - len(order)} of {size} pods are missing")
    done = frozenset(rank for rank, index in enumerate(order) if index in finished)
    return _Ranks(tuple(taken.get(index) for index in order), done)
