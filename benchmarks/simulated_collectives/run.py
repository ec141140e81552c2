"""Run the job in discrete time and write down what a tracer would have seen."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.simulated_collectives.fabric import CHUNK_BYTES, Bools, Fabric, Floats, Slot, slots_of
from benchmarks.simulated_collectives.traced_job import Act, BenchJob, Fault
from health.collectives.recording import CollectiveRecording, CompletionRow, Completions, StateRow, States
from health.collectives.stalls import P2P, RECEIVE

TICK = 0.01  # Seconds of a step of time

SAMPLE_TICKS = 10  # Steps between two state lines: 100 ms

EPOCH = 1_800_000_000.0  # Unix time of the start

GPU_RATE = 400.0  # Chunks a second that a GPU hands over

NET_RATE = 200.0  # Chunks a second on a flow

OPS = ("compute", "forward", "backward", "AllReduce", "ReduceScatter", "AllGather")


def simulate(job: BenchJob, seconds: float, *, seed: int = 0, fault: Fault | None = None) -> CollectiveRecording:
    """A recording of a job.

    :param seconds: how long it is watched; steps follow one another until then.
    :param seed: of the noise in compute times.
    """
    run = _Run(job, seed=seed, fault=fault)
    for tick in range(round(seconds / TICK)):
        run.tick(tick)
    return run.recording()


class _Run:
    """The state of a run: what each rank is at, and the fabric."""

    def __init__(self, job: BenchJob, *, seed: int, fault: Fault | None) -> None:
        self.job, self.fault = job, fault
        self.groups = job.groups()
        slots = slots_of(self.groups, algorithm=job.algorithm, rings=job.rings)
        crossing = np.array([job.node(slot.source) != job.node(slot.target) for slot in slots], dtype=np.bool_)
        self.fabric = Fabric(slots, crossing)
        self.pace, self.pace_with_fault = self._pace(None), self._pace(fault)
        self.flows = [{op: _flows(self.fabric, number, op) for op in OPS} for number in range(len(self.groups))]
        self.random = np.random.default_rng(seed)
        self.plans: list[list[Act]] = [job.step(rank) for rank in range(job.ranks)]
        self.at = [0] * job.ranks
        self.wake = [0.0] * job.ranks
        self.launched: list[float | None] = [None] * job.ranks
        self.seq = [0] * len(self.groups)
        self.present: list[set[int]] = [set() for _ in self.groups]
        self.running: dict[int, str] = {}
        self.member_launched = np.zeros((len(self.groups), job.ranks), dtype=np.bool_)
        ends = np.stack([self.fabric.source, self.fabric.target])
        self.launch_of_ends = self.fabric.group * job.ranks + ends  # places of both ends of each flow in the above
        self.ends: list[CompletionRow] = []
        self.samples: list[StateRow] = []
        self.crossed = False
        for rank in range(job.ranks):
            self._enter(rank, 0.0)

    def tick(self, tick: int) -> None:
        """Let one step of time pass."""
        now = tick * TICK
        for rank in range(self.job.ranks):
            if self.launched[rank] is None and now >= self.wake[rank]:
                self._next(rank, now)
        if not self.running:  # no flow is on: nothing moves, nothing ends, nothing is to be seen
            return
        fabric = self.fabric
        launched = self.member_launched.take(self.launch_of_ends)
        faulty = self.fault is not None and now >= self.fault.time
        gpu, outward, inward, posting = self.pace_with_fault if faulty else self.pace
        fabric.tick(launched=launched, gpu=gpu, outward=outward, inward=inward, posting=posting)
        self._complete(now)
        if tick % SAMPLE_TICKS == 0:
            self._sample(now)

    def recording(self) -> CollectiveRecording:
        """What was seen."""
        return CollectiveRecording(
            self.job.members(), self.groups, OPS, Completions.of(self.ends), States.of(self.samples)
        )

    def _hits(self, kinds: Sequence[str], now: float) -> bool:
        return self.fault is not None and self.fault.kind in kinds and now >= self.fault.time

    def _pace(self, fault: Fault | None) -> tuple[Floats, Floats, Floats, Bools]:
        """Return what :meth:`Fabric.tick` needs besides launches: the same in every step until, and from, the fault."""
        fabric = self.fabric
        gpu = np.full(self.job.ranks, GPU_RATE * TICK)
        outward = np.full(len(fabric.slots), NET_RATE * TICK)
        inward = outward.copy()
        posting = np.ones(len(fabric.slots), dtype=np.bool_)
        if fault is None:
            return gpu, outward, inward, posting
        out = fabric.crossing & (fabric.source == fault.rank)
        into = fabric.crossing & (fabric.target == fault.rank)
        match fault.kind:
            case "sender-stuck":
                outward[out] = 0.0
            case "receiver-stuck":
                inward[into] = 0.0
            case "slow-nic":
                outward[out | into] /= fault.factor
            case "slow-gpu":
                gpu[fault.rank] /= fault.factor
            case "gpu-stuck":
                gpu[fault.rank] = 0.0
            case "receiver-not-posting":
                posting[into] = False
            case _:
                pass
        return gpu, outward, inward, posting

    def _next(self, rank: int, now: float) -> None:
        self.at[rank] += 1
        if self.at[rank] == len(self.plans[rank]):
            self.at[rank] = 0
            self._cross(rank, now)
        self._enter(rank, now)

    def _enter(self, rank: int, now: float) -> None:
        act = self.plans[rank][self.at[rank]]
        if act.group is None:
            self.launched[rank] = None
            self.wake[rank] = now + self._compute(rank, act.seconds, now)
        elif self.fault is not None and self.fault.rank == rank and self._hits(["not-launched"], now):
            self.launched[rank], self.wake[rank] = None, np.inf
        else:
            self.launched[rank] = now
            self.member_launched[act.group, rank] = True
            if act.group not in self.running:
                self.running[act.group] = act.op
                self.seq[act.group] += 1
                self.fabric.begin(self.flows[act.group][act.op])

    def _compute(self, rank: int, seconds: float, now: float) -> float:
        drawn = seconds * max(0.1, 1.0 + self.job.noise * float(self.random.standard_normal()))
        if self.fault is not None and self.fault.rank == rank:
            if self._hits(["slow-gpu"], now):
                return drawn * self.fault.factor
            if self._hits(["gpu-stuck"], now):
                return np.inf
        return drawn

    def _cross(self, rank: int, now: float) -> None:
        """Swap the two data-parallel collectives of one step."""
        if self.fault is None or self.fault.rank != rank or self.fault.kind != "crossed-order":
            return
        if self.crossed:
            self.plans[rank] = self.job.step(rank)
        elif now >= self.fault.time:
            self.crossed = True
            *rest, first, second = self.plans[rank]
            self.plans[rank] = [*rest, second, first]

    def _complete(self, now: float) -> None:
        fabric = self.fabric
        open_ = fabric.on & (fabric.consumed < fabric.total - 1e-6)
        busy = set(fabric.group[open_].tolist())
        for group in [group for group in self.running if group not in busy]:
            op = self.running.pop(group)
            flows = self.flows[group][op]
            fabric.on[flows] = False
            size = int(fabric.total[flows].sum()) * CHUNK_BYTES
            members = self.groups[group].members
            for member in members:
                start = self.launched[member]
                begun = EPOCH + (now if start is None else start)
                end = EPOCH + now + TICK
                self.ends.append(CompletionRow(end, begun, group, member, self.seq[group], OPS.index(op), size))
                self.member_launched[group, member] = False
            for member in members:
                self._next(member, now + TICK)

    def _sample(self, now: float) -> None:
        fabric = self.fabric
        whole = [(counter + 1e-6).astype(int).tolist() for counter in (fabric.ready, fabric.transmitted, fabric.done)]
        for i in np.flatnonzero(fabric.on).tolist():
            slot = fabric.slots[i]
            ready, transmitted, done = (counter[i] for counter in whole)
            if self.member_launched[slot.group, slot.source]:
                self._write(now, slot, slot.source, slot.target, slot.way, ready, transmitted, done)
            if slot.way == P2P and self.member_launched[slot.group, slot.target]:
                self._write(now, slot, slot.target, slot.source, RECEIVE, done, done, done)

    def _write(self, now: float, slot: Slot, member: int, peer: int, way: int, *counters: int) -> None:
        op, seq = OPS.index(self.running[slot.group]), self.seq[slot.group]
        self.samples.append(
            StateRow(EPOCH + now, slot.group, member, seq, op, slot.channel, peer, way, slot.total, *counters)
        )


def _flows(fabric: Fabric, group: int, op: str) -> npt.NDArray[np.intp]:
    return np.array(
        [i for i, slot in enumerate(fabric.slots) if slot.group == group and slot.op in ("", op)], dtype=np.intp
    )
