"""Ranks of pods in their gang: which label numbers a pod, and the ranks that follow when all numbers are known."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extender import dialect_names as d
from extender.gangs.gang_annotations import parse_whole
from extender.gangs.types import GangMember, InvalidGang
from extender.kubernetes_names import GANG_SIZE, RANK
from topology.kubernetes.pods import Pod

_SHOWN = 5  # ranks or pods named in a sentence


def index_of(pod: Pod) -> tuple[int, ...] | None:
    """Return the pod's number, or numbers; ``None`` = nothing numbers it.

    Our label comes first, then the labels of controllers, outer ones before those of the Jobs and StatefulSets that
    they are made of.

    :raises InvalidGang: a label that should be a number is none.
    """
    labels, annotations = pod.labels, pod.annotations
    completion = d.COMPLETION_INDEX
    if RANK in labels:
        return (_number(pod, RANK, labels[RANK]),)
    if d.LWS_WORKER in labels:
        return (_number(pod, d.LWS_WORKER, labels[d.LWS_WORKER]),)
    if (job := labels.get(d.JOBSET_GLOBAL_JOB, labels.get(d.JOBSET_JOB))) is not None:
        inner = labels.get(completion, annotations.get(completion))
        return (_number(pod, d.JOBSET_JOB, job), _number(pod, completion, inner))
    if d.KUBEFLOW_INDEX in labels:
        kind = labels.get(d.KUBEFLOW_TYPE, "").lower()
        return (int(kind not in d.FIRST_ROLES), _number(pod, d.KUBEFLOW_INDEX, labels[d.KUBEFLOW_INDEX]))
    if (task := labels.get(d.VOLCANO_INDEX, annotations.get(d.VOLCANO_INDEX))) is not None:
        role = labels.get(d.VOLCANO_TASK, annotations.get(d.VOLCANO_TASK, "")).lower()
        return (int(role not in d.FIRST_ROLES), _number(pod, d.VOLCANO_INDEX, task))
    if labels.get(d.RAY_TYPE) == "head":
        return (0, 0, 0)
    if d.RAY_REPLICA in labels:
        host = labels.get(d.RAY_HOST, "0")
        return (1, _number(pod, d.RAY_REPLICA, labels[d.RAY_REPLICA]), _number(pod, d.RAY_HOST, host))
    for key in (completion, d.KUEUE_INDEX, d.POD_INDEX):
        if (text := labels.get(key, annotations.get(key))) is not None:
            return (_number(pod, key, text),)
    return None


def equal_parts(pod: Pod) -> int | None:
    """Return how many jobs of one size the gang has: those of a JobSet with one template; ``None`` = unknown."""
    labels = pod.labels
    replicas = labels.get(d.JOBSET_REPLICAS)
    if RANK in labels or replicas is None or labels.get(d.JOBSET_GLOBAL_REPLICAS) != replicas:
        return None
    return parse_whole(replicas) or None


def numbered_by(pod: Pod) -> str:
    """Return the UID of the controller that numbers the pod, and so its run; empty where our label numbers it."""
    if RANK in pod.labels or d.LWS_WORKER in pod.labels or pod.owner is None:
        return ""
    return pod.labels.get(d.JOBSET_UID) or pod.owner.uid


def _number(pod: Pod, key: str, text: str | None) -> int:
    number = parse_whole(text)
    if number is None:
        shown = "missing" if text is None else repr(text[:40])
        fix = f"number the pods of a gang from 0 with the label {RANK}, or use a controller that numbers its pods"
        raise InvalidGang.of_pod(pod, f"pod {pod.name}: {key} is {shown}", reason="InvalidRank", fix=fix)
    return number


@dataclass(frozen=True, slots=True)
class Ranks:
    """Members by rank."""

    members: tuple[GangMember | None, ...] = ()
    done: frozenset[int] = frozenset()
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
            raise _taken_rank(first.pod, member.pod, ".".join(map(str, member.index)))
    ended = (member.index for member in members if member.pod.status.phase == "Succeeded")
    finished = {index for index in ended if index is not None} - taken.keys()
    if len({len(index) for index in (*taken, *finished)}) > 1:
        raise InvalidGang(
            "some pods of the gang are numbered by one label and some by another",
            reason="MixedRanks",
            fix=f"number all of them with the label {RANK}, or none",
        )
    if size is None:
        return Ranks(waits=f"nobody says how many pods the gang has: add the annotation {GANG_SIZE}")
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


def _without_rank(pod: Pod) -> InvalidGang:
    fix = f"number the pods from 0 with the label {RANK}, or use a controller that numbers its pods"
    return InvalidGang.of_pod(pod, f"pod {pod.name} has no rank", reason="MissingRank", fix=fix)


def _taken_rank(first: Pod, second: Pod, rank: str) -> InvalidGang:
    message = f"pods {first.name} and {second.name} have the same rank, {rank}"
    return InvalidGang.of_pod(second, message, reason="DuplicateRank", fix="give every pod of a gang a rank of its own")


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


def _direct(taken: dict[int, GangMember], finished: set[int], size: int) -> Ranks:
    """Return ranks where the index is the rank."""
    for rank, member in taken.items():
        if rank >= size:
            raise _beyond(member.pod, rank, size)
    return _seated(taken, finished, size)


def _beyond(pod: Pod, rank: int, size: int) -> InvalidGang:
    has = f"rank {rank}, the gang has ranks 0 to {size - 1}"
    return _out_of_range(pod, has, f"number the pods from 0, or raise {GANG_SIZE}")


def _seated(
    taken: Mapping[int, GangMember], finished: set[int], size: int, misfits: Sequence[InvalidGang] = ()
) -> Ranks:
    missing = [rank for rank in range(size) if rank not in taken and rank not in finished]
    waits = ""
    if missing:
        ranks = ", ".join(map(str, missing[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
        waits = f"{len(missing)} of {size} pods are missing: rank {ranks}"
    return Ranks(tuple(taken.get(rank) for rank in range(size)), frozenset(finished), waits, tuple(misfits))


def seats_of(members: Sequence[GangMember], size: int, seats: Mapping[str, int]) -> Ranks:
    """Return the ranks of a gang of which pods have started: they keep theirs, others get vacant ones by their index.

    Of two pods for one rank the first in the order of ``members`` has it.  Where indices are ranks only when all are
    there, pods without a seat wait until then.

    :param seats: UID -> rank of the pods that the plan names; empty where the plan is lost.
    """
    taken = {seats[member.pod.uid]: member for member in members if member.needed and member.pod.uid in seats}
    misfits: list[InvalidGang] = []
    ranks = dict(seats)
    order: Sequence[tuple[int, ...]] = ()
    if any(member.index is not None and len(member.index) > 1 for member in members):
        counted = (member for member in members if member.needed or member.pod.status.phase == "Succeeded")
        order = sorted({member.index for member in counted if member.index is not None})
    for member in members:
        pod, seat = member.pod, seats.get(member.pod.uid)
        if member.index is not None and member.index == (seat,):
            continue
        try:
            rank = _rank_meant(member, members[0], size, order)
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
                misfits.append(_taken_rank(first.pod, pod, str(rank)))
    ended = [member for member in members if member.pod.status.phase == "Succeeded"]
    done = {rank for member in ended if (rank := ranks.get(member.pod.uid)) is not None} - taken.keys()
    return _seated(taken, done, size, misfits)


def _rank_meant(member: GangMember, first: GangMember, size: int, order: Sequence[tuple[int, ...]]) -> int | None:
    """Return the rank that a member's index means in a gang of so many; ``None`` = not known until all are there.

    :param order: all indices of the gang.
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
    elif len(order) < size:
        return None
    else:
        rank = bisect_left(order, index)
    if rank >= size:
        raise _beyond(member.pod, rank, size)
    return rank


def _dense(taken: dict[tuple[int, ...], GangMember], finished: set[tuple[int, ...]], size: int) -> Ranks:
    """Return ranks in the order of the indices, known when all pods are there."""
    order = sorted((*taken, *finished))
    if len(order) < size:
        return Ranks(waits=f"{size - len(order)} of {size} pods are missing")
    done = frozenset(rank for rank, index in enumerate(order) if index in finished)
    return Ranks(tuple(taken.get(index) for index in order), done)
