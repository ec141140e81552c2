"""Training jobs that hang, and their Flight Recorder dumps as ProcessGroupNCCL writes them.

A job of Megatron's kind: tensor and expert parallelism in a stage, transfers between stages, data parallelism at the
end of a step.  Each rank has a host that enqueues operations ahead of its GPU, until it must wait for it, and a GPU
that runs them in order: a collective is over when it has come to the front on all its members, a send at once.
"""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

import numpy as np

from ground.files import Source

FaultKind = Literal["none", "lock", "error", "died", "gpu"]
"""``lock``: the host stops.  ``error``: it stops, and no longer sees the GPU complete what it enqueued last.  ``died``:
both stop, without a dump.  ``gpu``: the GPU stops inside an operation, in which then all stand."""

EPOCH = 1_800_000_000_000_000_000
STEPS, MICROBATCHES = 3, 3


@dataclass(frozen=True, slots=True)
class Shape:
    """Degrees of parallelism; a stage has ``tp * dp`` ranks."""

    tp: int
    pp: int
    dp: int

    @property
    def ranks(self) -> int:
        """How many there are."""
        return self.tp * self.pp * self.dp


@dataclass(slots=True)
class Op:
    """One operation of a rank: the name of its group, what it is, the rank at the other end of a transfer."""

    group: str
    what: str
    peer: int = -1
    waits: bool = False  # whether the host waits for it
    number: int = 0  # of a collective in its group, of a transfer in its pair
    op_id: int = 0  # of all operations of the group on this rank


@dataclass(slots=True)
class HungJob:
    """A job, its ranks' programs, and how far each has come."""

    shape: Shape
    groups: dict[str, tuple[str, list[int]]] = field(default_factory=dict)  # name -> description, ranks
    programs: list[list[Op]] = field(default_factory=list)
    enqueued: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)


def make_job(shape: Shape) -> HungJob:
    """A job that has not begun; ranks are counted by stage, replica, tensor rank."""
    job, names = HungJob(shape), count()

    def rank_of(stage: int, replica: int, part: int) -> int:
        return (stage * shape.dp + replica) * shape.tp + part

    of_rank: list[dict[str, str]] = [{} for _ in range(shape.ranks)]

    def group(kind: str, ranks: list[int]) -> None:
        name = str(next(names))
        job.groups[name] = (kind, ranks)
        for rank in ranks:
            of_rank[rank][kind] = name

    group("default_pg", list(range(shape.ranks)))
    stages, replicas, parts = range(shape.pp), range(shape.dp), range(shape.tp)
    for stage in stages:
        for part in parts:
            group("DATA_PARALLEL_GROUP", [rank_of(stage, replica, part) for replica in replicas])
    for stage in stages:
        for replica in replicas:
            group("TENSOR_MODEL_PARALLEL_GROUP", [rank_of(stage, replica, part) for part in parts])
    for replica in replicas:
        for part in parts:
            group("PIPELINE_MODEL_PARALLEL_GROUP", [rank_of(stage, replica, part) for stage in stages])
    for stage in stages:
        group("EXPERT_MODEL_PARALLEL_GROUP", [rank_of(stage, r, p) for r in replicas for p in parts])
    for rank in range(shape.ranks):
        program = _program(shape, of_rank[rank], rank)
        numbers: dict[tuple[str, ...], int] = defaultdict(int)
        for op in program:
            # transfers of a pair are counted in either direction
            ends = (str(rank), str(op.peer)) if op.what == "send" else (str(op.peer), str(rank))
            key = (op.group, *ends) if op.peer >= 0 else (op.group,)
            numbers[key] += 1
            numbers[(op.group, "all")] += 1
            op.number, op.op_id = numbers[key], numbers[(op.group, "all")]
        job.programs.append(program)
    job.enqueued, job.done = [0] * shape.ranks, [0] * shape.ranks
    return job


def _program(shape: Shape, groups: dict[str, str], rank: int) -> list[Op]:
    per_stage = shape.tp * shape.dp
    stage = rank // per_stage
    pipe, tensor, expert = (groups[f"{kind}_MODEL_PARALLEL_GROUP"] for kind in ("PIPELINE", "TENSOR", "EXPERT"))

    def layer() -> list[Op]:
        inner = [Op(expert, "all_to_all"), Op(expert, "all_to_all", waits=True)]
        return [Op(tensor, "_all_gather_base"), *inner, Op(tensor, "_reduce_scatter_base")]

    before = [] if stage == 0 else [rank - per_stage]
    after = [] if stage == shape.pp - 1 else [rank + per_stage]
    program: list[Op] = []
    for _ in range(STEPS):
        for sources, targets in ((before, after), (after, before)):
            for _ in range(MICROBATCHES):
                program += [Op(pipe, "recv", peer) for peer in sources]
                program += [*layer(), *layer()]
                program += [Op(pipe, "send", peer) for peer in targets]
        program += [Op(groups["DATA_PARALLEL_GROUP"], "_reduce_scatter_base")]
        program += [Op(groups["default_pg"], "all_reduce", waits=True)]
    return program


def stop(job: HungJob, kind: FaultKind, faulty: dict[int, int]) -> None:
    """Run a job until nothing moves.

    :param faulty: rank -> the number of the operation of its program at which the fault strikes it.
    """
    place = [{(op.group, op.peer, op.what, op.number): i for i, op in enumerate(program)} for program in job.programs]
    moved = True
    while moved:
        moved = False
        for rank, program in enumerate(job.programs):
            last = faulty.get(rank, len(program)) if kind != "gpu" else len(program)
            while job.enqueued[rank] < last:
                i = job.enqueued[rank]
                if any(op.waits for op in program[job.done[rank] : i]):
                    break
                job.enqueued[rank], moved = i + 1, True
            while job.done[rank] < job.enqueued[rank] and _may_end(job, place, rank, faulty if kind == "gpu" else {}):
                op = program[job.done[rank]]
                members = job.groups[op.group][1] if op.peer < 0 else [rank]
                for member in members:
                    job.done[member] += 1
                moved = True


def _may_end(job: HungJob, place: list[dict[tuple[str, int, str, int], int]], rank: int, stuck: dict[int, int]) -> bool:
    op = job.programs[rank][job.done[rank]]
    if op.what == "recv":
        return (
            job.done[op.peer] > place[op.peer][op.group, rank, "send", op.number] and stuck.get(rank) != job.done[rank]
        )
    if op.what == "send":
        return stuck.get(rank) != job.done[rank]
    for member in job.groups[op.group][1]:
        at = place[member][op.group, -1, op.what, op.number]
        if job.done[member] != at or job.enqueued[member] <= at or stuck.get(member) == at:
            return False
    return True


def dump(job: HungJob, rank: int, *, unseen: int = 0, timed: bool = False, start: int = 0) -> Source:
    """The dump of a rank.

    :param unseen: how many of the last operations the host enqueued it did not see complete.
    :param timed: with events of the device: all entries, with their states; else those that are not over, alone.
    """
    program = job.programs[rank][: job.enqueued[rank]]
    done = min(job.done[rank], len(program) - unseen)
    mine = [name for name, (_, ranks) in job.groups.items() if rank in ranks]
    counts: dict[str, list[int]] = {name: [0, -1, 0] for name in mine}  # completed, started, enqueued
    entries = []
    for i, op in enumerate(program):
        number = op.op_id if op.peer >= 0 else op.number
        counts[op.group][2] = number
        if i < done:
            counts[op.group][0] = number
        state = "completed" if i < done else "started" if timed and i == done else "scheduled"
        if timed or i >= done:
            entries.append(_entry(job, rank, op, i, state) | {"pg_id": mine.index(op.group), "retired": i < done})
    for entry in entries:
        entry["time_created_ns"] += start
    if timed and entries and done < len(program):
        entries[done]["retired"] = True  # it has timed out
    keys = ("last_completed_collective", "last_started_collective", "last_enqueued_collective")
    document = {
        "version": "2.9",
        "rank": rank,
        "pg_config": {
            name: {"name": name, "desc": job.groups[name][0], "ranks": str(job.groups[name][1])} for name in mine
        },
        "pg_status": {str(mine.index(name)): dict(zip(keys, of, strict=True)) for name, of in counts.items()},
        "entries": entries,
    }
    return Source(f"dump_{rank}.json", json.dumps(document))


def _entry(job: HungJob, rank: int, op: Op, i: int, state: str) -> dict[str, Any]:
    ranks = job.groups[op.group][1]
    ends = f" {ranks.index(rank)}{'->' if op.what == 'send' else '<-'}{ranks.index(op.peer)}" if op.peer >= 0 else ""
    return {
        "record_id": i,
        "process_group": [op.group, job.groups[op.group][0]],
        "collective_seq_id": 0 if op.peer >= 0 else op.number,
        "p2p_seq_id": op.op_id if op.peer >= 0 else 0,
        "op_id": op.op_id,
        "profiling_name": f"nccl:{op.what}{ends}",
        "time_created_ns": EPOCH + i * 1_000_000,
        "input_sizes": [[1024]],
        "input_dtypes": ["Float"],
        "output_sizes": [[1024]],
        "output_dtypes": ["Float"],
        "state": state,
        "is_p2p": op.peer >= 0,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "timeout_ms": 600_000,
        "frames": [],
    }


def hang(
    shape: Shape, kind: FaultKind, faults: int, random: np.random.Generator, *, timed: bool
) -> tuple[list[int], list[Source]]:
    """Return who is faulty in a random run of a job, and the dumps that it leaves; a healthy job runs to its end."""
    job = make_job(shape)
    chosen = sorted(random.choice(shape.ranks, size=faults, replace=False).tolist()) if kind != "none" else []
    first = len(job.programs[0]) // STEPS
    # close to one another, as a fault that strikes several does
    when = int(random.integers(first, 2 * first))
    stop(job, kind, {rank: when + int(random.integers(0, 6)) for rank in chosen})
    dumps = []
    for rank in range(shape.ranks):
        faulty = rank in chosen
        if kind == "died" and faulty:
            continue
        unseen = int(random.integers(1, 8)) if kind == "error" and faulty else 0
        dumps.append(dump(job, rank, unseen=unseen, timed=timed, start=int(random.integers(0, 2_000_000))))
    return chosen, dumps
