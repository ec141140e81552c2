"""Which rank comes last to collectives, from the profiles of ranks, and where the step of each rank goes.

All ranks leave a collective together, so the rank that spends least time in it came last, whatever the clocks say.
The others waited from their start until it came; what they computed meanwhile is no loss.  Collectives overlap, and a
rank that waits in two of them at once waits once: what a rank waits in a step is never longer than the step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from health.whatif import optypes
from health.whatif.converters.covered_time import CoveredTime
from health.whatif.converters.names import OTHER
from health.whatif.converters.op_trace_output import Op
from health.whatif.converters.rank_ops import RankOps
from health.whatif.step_findings import Arrivals, Latecomer, StepBreakdown

TRIFLE = 20e-6  # Seconds; ranks that come closer together come together
Key = tuple[int, str, str, int]  # step, group, collective, its number among those


class _Inside(NamedTuple):
    """A rank inside one collective."""

    rank: int
    start: float
    end: float
    computing: CoveredTime


class ArrivalOrder:
    """Collects the collectives of ranks, one rank after the other."""

    def __init__(self) -> None:
        self._inside: dict[Key, list[_Inside]] = defaultdict(list)
        self._counts: dict[tuple[int, str, str], set[int]] = defaultdict(set)
        self._lengths: dict[int, list[float]] = defaultdict(list)

    def add(self, rank: RankOps) -> None:
        """Add the collectives of one rank."""
        profile = rank.profile
        for step, begin, end in rank.steps:
            self._lengths[step].append(end - begin)
            numbers: dict[tuple[str, str], int] = defaultdict(int)
            for group, collective, start, stop in sorted(_collectives(rank, begin, end), key=lambda one: one[2]):
                number = numbers[group, collective]
                numbers[group, collective] += 1
                inside = _Inside(profile.rank, start, stop, rank.computing)
                self._inside[step, group, collective, number].append(inside)
            for (group, collective), count in numbers.items():
                self._counts[step, group, collective].add(count)

    def found(self, workers: int) -> Arrivals | None:
        """Return which rank comes last, of a job of so many workers; ``None`` = no collective was seen on two ranks."""
        last: dict[int, int] = defaultdict(int)
        waits: dict[int, dict[int, list[_Inside]]] = defaultdict(lambda: defaultdict(list))
        compared, ranks, steps = 0, set(), set()
        for (step, group, collective, _), members in self._inside.items():
            # ranks that called a collective of a group more often than others may count them differently
            if len(members) < 2 or len(self._counts[step, group, collective]) > 1:
                continue
            compared += 1
            steps.add(step)
            ranks |= {member.rank for member in members}
            latest = min(members, key=lambda one: one.end - one.start)
            least = latest.end - latest.start
            waited = [
                one._replace(end=one.start + max(one.end - one.start - least, 0.0))
                for one in members
                if one is not latest
            ]
            if float(np.median([_idle([one]) for one in waited])) > TRIFLE:
                last[latest.rank] += 1
                for one in waited:
                    waits[latest.rank][one.rank].append(one)
        if not compared:
            return None
        length = float(np.mean([np.mean(self._lengths[step]) for step in steps]))
        latecomers = [
            Latecomer(rank, last[rank], each, min(each / length, 1.0) if length else 0.0)
            for rank in last
            for each in [float(np.median([_idle(own) for own in waits[rank].values()])) / len(steps)]
        ]
        latecomers.sort(key=lambda one: (-one.seconds, one.rank))
        return Arrivals(compared, len(ranks), workers, len(steps), length, tuple(latecomers))


def _idle(waits: Sequence[_Inside]) -> float:
    """Return seconds in which one rank waited, in collectives that may overlap, and computed nothing."""
    covered = CoveredTime.of(np.array([one.start for one in waits]), np.array([one.end for one in waits]))
    return covered.total - float(np.sum(waits[0].computing.within(covered.start, covered.end)))


def _collectives(rank: RankOps, begin: float, end: float) -> Iterable[tuple[str, str, float, float]]:
    """Yield group, collective, start and end of what a rank's step launched; of a CPU the calls themselves."""
    profile = rank.profile
    if profile.on_cpu and not len(profile.launch):
        for one in profile.calls:
            if one.call.collective != OTHER and begin <= one.start < end:
                yield one.call.backend, one.call.collective, one.start, one.end
        return
    kernels = rank.launched(begin, end)
    for kernel in kernels[rank.communicates[kernels]]:
        kind = profile.kinds[profile.kind[kernel]]
        if kind.collective != OTHER:
            yield kind.group, kind.collective, float(profile.start[kernel]), float(profile.end[kernel])


def breakdown_of(rank: RankOps) -> StepBreakdown:
    """Return where the mean step of a rank goes, as far as its device tells; :func:`with_passes_of` adds the passes."""
    profile, steps = rank.profile, rank.steps
    count = max(len(steps), 1)
    length = sum(end - start for _, start, end in steps) / count
    waiting = idle = None
    if len(profile.launch):
        kernels = np.concatenate([rank.launched(start, end) for _, start, end in steps])
        own = kernels[~rank.communicates[kernels]]
        computing = CoveredTime.of(profile.start[own], profile.end[own]).total / count
        busy = CoveredTime.of(profile.start[kernels], profile.end[kernels]).total / count
        # a device runs on when the host has launched all, and at first with what was launched before
        last = max(end for _, _, end in steps)
        over = max(float(profile.end[kernels].max(initial=0.0)), last)
        length += (over - last) / count
        ran = float(profile.busy.within(min(start for _, start, _ in steps), over)) / count
        waiting, idle = busy - computing, max(length - ran, 0.0)
    return StepBreakdown(profile.rank, len(steps), length, 0.0, 0.0, 0.0, waiting, idle)


def with_passes_of(breakdown: Iterable[StepBreakdown], ops: Sequence[Op]) -> Iterator[StepBreakdown]:
    """Yield where steps go, with the passes and the update of the operations, without waits."""
    spent: dict[tuple[int, str], float] = defaultdict(float)
    steps: dict[int, set[int]] = defaultdict(set)
    for op in ops:
        spent[op.rank, op.optype] += op.end - op.start
        if op.optype == optypes.FORWARD:
            steps[op.rank].add(op.step)
    for one in breakdown:
        count = max(len(steps[one.rank]), 1)
        forward, backward, update = (
            spent[one.rank, optype] / count for optype in (optypes.FORWARD, optypes.BACKWARD, optypes.OPTIMIZER)
        )
        yield replace(one, forward=forward, backward=backward, optimizer=update)
