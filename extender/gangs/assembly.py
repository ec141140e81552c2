"""The members of one gang, put together: ranks, size, job, and what is missing or wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from extender.dialect_names import RAY_CLUSTER
from extender.gangs.annotations import ANNOTATIONS, hints_of
from extender.gangs.job import Understood, understand
from extender.gangs.pod_rules import check_rules, left_to_scheduler
from extender.gangs.types import Gang, GangKey, GangMember, GangRequest, InvalidGang
from extender.kubernetes_names import GANG_SIZE, RANK
from ground.errors import few
from ground.records import record_of
from topology.kubernetes.pods import Pod

_NO_SEATS: Mapping[str, int] = MappingProxyType({})


def assemble(
    key: GangKey,
    members: Iterable[GangMember],
    *,
    seats: Mapping[str, int] = _NO_SEATS,
    size: int | None = None,
    ended: Collection[int] = (),
) -> Gang:
    """Return all that is known of a gang from its members, at least one, whatever their order.

    A gang that waits is one thing: what one of its pods contradicts stops all.  One of which pods have started goes on
    as it was planned, whatever its pods say by then: only those that fit no rank of it wait.

    :param seats: UID -> rank of the pods that its plan names; empty where no plan has nodes.
    :param size: ranks of that plan.
    :param ended: those of them that need no pod any more, even if the one that ended is gone.
    """
    everyone = _of_one_run(sorted(members, key=lambda member: (member.pod.name, member.pod.uid)))
    needed = [member for member in everyone if member.needed]
    problem: InvalidGang | None = None
    understood, ranks = Understood(), Ranks()
    disputes: tuple[InvalidGang, ...] = ()
    started: Sequence[GangMember] = ()
    try:
        # those that have started as the plan says, the eldest first; where the plan is lost, as marks say
        started = [member for member in needed if member.pod.released]
        if seats:
            named = (member for member in needed if member.pod.uid in seats)
            started = [member for member in named if member.pod.released or member.pod.node is not None]
        if started := sorted(started, key=lambda member: member.pod.created):
            understood, ranks, disputes = _going_on(key, everyone, started, seats=seats, size=size, ended=ended)
        else:
            speakers = needed or everyone
            for member in speakers:
                if member.problem is not None:
                    raise member.problem
            understood = understand(key, _agreed(speakers), _gpus(speakers), size=_size_of(everyone))
            ranks = ranks_of(everyone, understood.size)
            check_rules([member.pod for member in speakers])
    except InvalidGang as error:
        problem = error
    hints = hints_of(member.pod for member in needed or everyone)
    waits = "" if problem is not None else ranks.waits
    stalls = next((member.stalls for member in needed if member.stalls), "")
    return record_of(
        Gang,
        understood,
        ranks,
        hints,
        key=key,
        dialect=everyone[0].dialect,
        pods=tuple(member.pod for member in everyone),
        job=None if problem is not None else understood.job,
        planned=(size or 0) if started else 0,
        priority=max(member.pod.spec.priority or 0 for member in everyone),
        created=min(member.pod.created for member in everyone),
        doubts=(*understood.doubts, *hints.doubts),
        unchecked=left_to_scheduler([member.pod for member in needed or everyone]),
        waits=f"{waits}; {stalls}" if waits and stalls else waits,
        problem=problem,
        disputes=disputes,
    )


def _size_of(members: Iterable[GangMember]) -> int | None:
    """Return the size as controllers say it; where it was changed in between, its pods say several: the largest."""
    return max((member.size for member in members if member.size), default=None)


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


def _agreed(members: Sequence[GangMember]) -> GangRequest:
    """Return what the members ask in one voice, or raise ``InvalidGang``: two say different things."""
    if len({member.dialect for member in members}) > 1:
        raise _name_clash(members[0], next(member for member in members if member.dialect != members[0].dialect))
    words: dict[str, str] = {}
    speakers: dict[GangRequest, GangMember] = {}  # of pods that ask the same, mostly all, the first
    for member in members:
        speakers.setdefault(member.asked, member)
    for field, key in ANNOTATIONS.items():
        by: dict[str, str] = {}
        for member in speakers.values():
            if (text := getattr(member.asked, field)) is not None:
                by.setdefault(text, member.pod.name)
        if len(by) > 1:
            (text, pod), (other_text, other_pod) = list(by.items())[:2]
            message = f"pods disagree: {text[:40]!r} ({pod}) and {other_text[:40]!r} ({other_pod})"
            fix = "give all pods of a gang the same annotations"
            raise InvalidGang(message, reason="Disagreement", where=key, fix=fix)
        if by:
            words[field] = next(iter(by))
    requests = {topology: None for request in speakers for topology in request.requests}
    return GangRequest(**words, requests=tuple(requests))


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


def _going_on(
    key: GangKey,
    everyone: Sequence[GangMember],
    started: Sequence[GangMember],
    *,
    seats: Mapping[str, int],
    size: int | None,
    ended: Collection[int],
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
        words: dict[str, str] = {}  # of what several say about a field, the first
        for member in readable:
            texts = ((field, getattr(member.asked, field)) for field in ANNOTATIONS)
            words = {field: text for field, text in texts if text is not None} | words
        requests = {topology: None for member in readable for topology in member.asked.requests}
        request = GangRequest(**words, requests=tuple(requests))
        understood = understand(key, request, eldest.gpus, size=_size_of(readable))
    except InvalidGang as error:
        if size is None:
            raise
        disputes.append(error)
    entitled = {member.pod.uid for member in started} | seats.keys()
    fitting = [member for member in everyone if member.pod.uid in entitled]
    others = [member for member in everyone if member.pod.uid not in entitled]
    for member in sorted(others, key=lambda member: member.pod.created):
        why = member.problem
        if why is None and member.dialect != eldest.dialect:
            why = _name_clash(eldest, member)
        elif why is None and member.gpus > eldest.gpus:
            why = _unequal([member, eldest])
        if member.needed and why is not None:
            disputes.append(why)
        else:
            fitting.append(member)
    count = understood.size or size
    if count is None:
        ranks = ranks_of(everyone, None)
    else:
        ranks = seats_of(fitting, count, seats, planned=size or 0, ended=ended)
    disputes += ranks.misfits
    # what would keep the others from being planned together
    alike = [member for member in fitting if member.needed]
    disputes += (member.problem for member in alike if member.problem is not None)
    for check in (_agreed, _gpus, lambda members: check_rules([member.pod for member in members])):
        try:
            check(alike)
        except InvalidGang as error:
            disputes.append(error)
    return replace(understood, size=count), ranks, tuple(disputes)


class Ranks(NamedTuple):
    """Members by rank."""

    members: tuple[GangMember | None, ...] = ()
    done: Mapping[int, str | None] = MappingProxyType({})  # and the node that each was on
    waits: str = ""
    misfits: tuple[InvalidGang, ...] = ()  # of a gang that has started: what is wrong with pods that fit no rank


def ranks_of(members: Sequence[GangMember], size: int | None) -> Ranks:
    """Make ranks of indices.

    :raises InvalidGang: a pod without an index, two with the same, one out of range, more pods than the gang has.
    """
    needed = [member for member in members if member.needed]
    taken: dict[tuple[int, ...], GangMember] = {}
    for member in needed:
        if member.index is None:
            raise _without_rank(member.pod)
        if (first := taken.setdefault(member.index, member)) is not member:
            raise _taken_rank(first.pod, member)
    ended = ((member.index, member.pod.node) for member in members if member.done)
    finished = {index: node for index, node in ended if index is not None and index not in taken}
    if len({len(index) for index in (*taken, *finished)}) > 1:
        raise InvalidGang(
            "some pods of the gang are numbered by one label and some by another",
            reason="MixedRanks",
            fix=f"number all of them with the label {RANK}, or none",
        )
    if size is None:
        return Ranks(waits=f"nobody says how many pods the gang has: add the annotation {GANG_SIZE}")
    finished |= {(rank,): None for rank in _ended(needed, size) if (rank,) not in taken and (rank,) not in finished}
    # pods that ended stay when their controller is to make fewer
    finished = {index: node for index, node in finished.items() if len(index) > 1 or index < (size,)}
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
            # ranks in the order of the indices, known when all pods are there
            order = sorted((*taken, *finished))
            if len(order) < size:
                return Ranks(waits=f"{size - len(order)} of {size} pods are missing")
            done = {rank: finished[index] for rank, index in enumerate(order) if index in finished}
            return Ranks(tuple(taken.get(index) for index in order), done)
        taken = {(_in_parts(member, size // count),): member for member in taken.values()}
        finished = {(job * (size // count) + completion,): node for (job, completion), node in finished.items()}
    # the index is the rank
    for (rank,), member in taken.items():
        if rank >= size:
            raise _beyond(member.pod, rank, size)
    by_rank = {rank: member for (rank,), member in taken.items()}
    return _seated(by_rank, {rank: node for (rank,), node in finished.items()}, size, size)


def seats_of(
    members: Sequence[GangMember], size: int, seats: Mapping[str, int], *, planned: int, ended: Collection[int] = ()
) -> Ranks:
    """Return the ranks of a gang of which pods have started: they keep theirs, others get vacant ones by their index.

    Of two pods for one rank the first in the order of ``members`` has it.  Where indices are several numbers, pods
    without a seat get the vacant ranks in the order of their indices, once there are as many as those.

    :param size: ranks that it is to have; where that is fewer than planned, those beyond are not missed.
    :param seats: UID -> rank of the pods that the plan names; empty where the plan is lost.
    :param planned: ranks of the plan.
    :param ended: those of them that need no pod any more.
    """
    everyone = max(size, planned)
    taken = {seats[member.pod.uid]: member for member in members if member.needed and member.pod.uid in seats}
    misfits: list[InvalidGang] = []
    ranks = dict(seats)
    order: dict[tuple[int, ...], int] = {}  # rank of each index of several numbers
    if any(member.index is not None and len(member.index) > 1 for member in members):
        counted = [(member.index, member.pod.uid) for member in members if member.needed or member.done]
        order = {index: seats[uid] for index, uid in counted if index is not None and uid in seats}
        new = sorted({index for index, _ in counted if index is not None} - order.keys())
        vacant = sorted({*range(everyone)} - {*order.values(), *ended})[: max(0, size - len(order))]
        if len(new) >= len(vacant):
            order |= zip(new, [*vacant, *range(everyone, everyone + len(new))], strict=False)
    for member in members:
        pod, seat = member.pod, seats.get(member.pod.uid)
        if member.index is not None and member.index == (seat,):
            continue
        try:
            rank = _rank_meant(member, members[0], size, everyone, order)
        except InvalidGang as error:
            misfits += [error] * member.needed
            continue
        if seat is not None and rank not in (None, seat) and member.needed:
            fix = "leave the number of a pod that runs as it is"
            message = f"pod {pod.name} says that it is rank {rank}, it was planned as rank {seat}"
            misfits.append(InvalidGang.of_pod(pod, message, reason="RankChanged", fix=fix))
        elif seat is None and rank is not None:
            ranks[pod.uid] = rank
            if member.needed and (first := taken.setdefault(rank, member)) is not member:
                misfits.append(_taken_rank(first.pod, member))
    done: dict[int, str | None] = dict.fromkeys((*ended, *_ended(members, everyone)))
    done |= {ranks[member.pod.uid]: member.pod.node for member in members if member.done and member.pod.uid in ranks}
    done = {rank: node for rank, node in done.items() if rank not in taken}
    return _seated(taken, done, everyone, size, misfits)


def _ended(members: Iterable[GangMember], size: int) -> set[int]:
    """Return the ranks, of so many, of which the members' controllers make no pod any more."""
    said = {member.ended for member in members if member.needed}
    return {rank for ranges in said for ranks in ranges for rank in range(ranks.start, min(ranks.stop, size))}


def _rank_meant(
    member: GangMember, first: GangMember, size: int, everyone: int, order: Mapping[tuple[int, ...], int]
) -> int | None:
    """Return the rank that a member's index means in a gang of so many; ``None`` = not known until all are there.

    :param everyone: ranks that it has and is to have.
    :param order: rank of each index, as far as known.
    :raises InvalidGang: none of its ranks, or the member is numbered otherwise than the first.
    """
    index = member.index
    if index is None:
        raise _without_rank(member.pod)
    if first.index is not None and len(first.index) != len(index):
        message = f"pod {member.pod.name} is numbered by another label than {first.pod.name}"
        fix = f"number all pods of the gang with the label {RANK}, or none"
        raise InvalidGang.of_pod(member.pod, message, reason="MixedRanks", fix=fix)
    if len(index) == 1:
        (rank,) = index
    elif first.parts is not None and size % first.parts == 0:
        rank = _in_parts(member, size // first.parts)
    elif index not in order:
        return None
    else:
        rank = order[index]
    if rank >= everyone:
        raise _beyond(member.pod, rank, everyone)
    return rank


def _in_parts(member: GangMember, pods: int) -> int:
    """Return the rank of a pod of one of several jobs that have so many pods each, or raise ``InvalidGang``: fewer."""
    assert member.index is not None
    job, completion = member.index
    if completion >= pods:
        has = f"completion index {completion}, its job has {pods} pods of the gang"
        raise _out_of_range(member.pod, has, f"set {GANG_SIZE} to the pods of all jobs together")
    return job * pods + completion


def _seated(
    taken: Mapping[int, GangMember],
    finished: Mapping[int, str | None],
    ranks: int,
    size: int,
    misfits: Sequence[InvalidGang] = (),
) -> Ranks:
    missing = [rank for rank in range(size) if rank not in taken and rank not in finished]
    waits = ""
    if missing:
        waits = f"{len(missing)} of {size} pods are missing: rank {few(missing)}"
    return Ranks(tuple(taken.get(rank) for rank in range(ranks)), finished, waits, tuple(misfits))


def _without_rank(pod: Pod) -> InvalidGang:
    fix = f"number the pods from 0 with the label {RANK}, or use a controller that numbers its pods"
    if RAY_CLUSTER in pod.labels:
        fix = "use KubeRay 1.6, or 1.5 with --feature-gates=RayMultiHostIndexing=true: these number their workers"
    return InvalidGang.of_pod(pod, f"pod {pod.name} has no rank", reason="MissingRank", fix=fix)


def _taken_rank(first: Pod, second: GangMember) -> InvalidGang:
    # of several numbers some stand for names of roles
    rank = f", {second.index[0]}" if second.index is not None and len(second.index) == 1 else ""
    message = f"pods {first.name} and {second.pod.name} have the same rank{rank}"
    return InvalidGang.of_pod(
        second.pod, message, reason="DuplicateRank", fix="give every pod of a gang a rank of its own"
    )


def _out_of_range(pod: Pod, has: str, fix: str) -> InvalidGang:
    return InvalidGang.of_pod(pod, f"pod {pod.name} has {has}", reason="RankOutOfRange", fix=fix)


def _beyond(pod: Pod, rank: int, size: int) -> InvalidGang:
    has = f"rank {rank}, the gang has ranks 0 to {size - 1}"
    return _out_of_range(pod, has, f"number the pods from 0, or raise {GANG_SIZE}")
