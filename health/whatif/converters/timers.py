"""Megatron-LM's timers, as logged, as an op trace: totals of a rank, laid out along the schedule that is known.

With ``--timing-log-option all`` a block is ``times across ranks (ms):`` after the line of its iteration, then a line
with the name of a timer and one line a rank for each timer (megatron/core/timers.py), means over ``--log-interval``
iterations.  The default, ``minmax``, does not say which rank the maximum is of: of no use here, and refused.

A timer says how long a rank computed in a step, not when and not on which microbatch.  The order is that of 1F1B, each
microbatch takes the mean, and a transfer takes no time once both sides are there.  What depends on compute time per
worker survives this (S_w, M_W, M_S); what depends on single microbatches or on transfers does not, and is listed.
"""

import re
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Self

from ground.errors import InvalidInput, TooLarge, TraceFormatError
from ground.formats import NEARLY, FileFormat, begins_as_json
from ground.quantities import plural
from health.whatif import optypes
from health.whatif.analysis_result import Cause
from health.whatif.conversion import DISABLES, Conversion, ConversionSettings, Missing, Op, missing_types
from health.whatif.converters.chrome_json import open_text
from health.whatif.converters.degrees import degrees_of_log
from health.whatif.optypes import ALL_GATHER, BACKWARD, CLIP, FORWARD, GC, REDUCE_SCATTER, one_forward_one_backward
from health.whatif.trace import JobSizes, RankLayout

HEADING_BYTES = b"times across ranks (ms)"
HEADING = re.compile(r"(?<!, max\) )(?<!max )\btimes across ranks \(ms\):\s*\Z")
OTHER_HEADING = re.compile(r"(\(min, max\)|max) time across ranks \(ms\):")
ITERATION = re.compile(r"\biteration\s+(\d{1,15})\s*/\s*\d+\s*\|")
MICROBATCHES = re.compile(r"number of micro-?batches to constant (\d{1,9})\b")
NAME = re.compile(r"(?:\A|\s)([a-z][a-z0-9/-]*):\s*\Z")
RANK = re.compile(r"(?:\A|\s)rank\s+(\d{1,15}):\s+(\S+)\s*\Z")
# torchrun --tee puts the role and the local rank of the process before each line, and mixes those of all processes
PROCESS = re.compile(r"\s*(\[[A-Za-z_]*\d+\]):")
MOST_PASSES = 4_000_000  # Forward passes that are laid out at most
# Equal microbatches of a slower rank look like longer sequences, and a slower forward total like pauses
_UNTOLD: tuple[Cause, ...] = ("sequence-length", "garbage-collection")
# Names that the timer of the gradient reduction has had
_GRADIENTS = ("grads-reduce-scatter", "all-grads-sync", "grads-all-reduce")
# Names that the timer of gradients outside tensor parallelism, those of the layer norms mostly, has had
_LAYERNORMS = (optypes.LAYERNORM, "non-tensor-parallel-grads-all-reduce")


@dataclass(slots=True)
class Block:
    """What was logged at one iteration."""

    iteration: int  # number of the iteration that ended it
    line: int  # of the heading, from 1
    # name -> rank -> milliseconds of one iteration, a mean over the interval
    timers: dict[str, dict[int, float]] = field(default_factory=dict)

    def lacks(self, other: Self) -> bool:
        """Return whether times are missing that another block has."""
        return any(ranks.keys() - self.timers.get(timer, {}).keys() for timer, ranks in other.timers.items())


@dataclass(frozen=True, slots=True)
class TimerLog:
    """A whole log."""

    # by iteration, only those with compute timers; of one that was run twice after a restart, the last
    blocks: tuple[Block, ...]
    microbatches: int | None  # of a step, None = the log does not say
    interval: int  # iterations a block is the mean of
    notes: tuple[str, ...]  # what was left out


def read_timers(name: str, lines: Iterable[str], layout: RankLayout) -> TimerLog:
    """Read a log, which errors call by this name."""
    blocks: list[Block] = []
    open_blocks: dict[str, tuple[Block, str]] = {}  # process -> the block it is in the middle of, and the timer
    iteration, microbatches, summaries = -1, None, 0
    for number, line in enumerate(lines, 1):
        match = PROCESS.match(line)
        process = match[1] if match else ""
        block, timer = open_blocks.pop(process, (None, ""))
        if match := MICROBATCHES.search(line):
            microbatches = int(match[1])
        if match := ITERATION.search(line):
            iteration = int(match[1])
        if OTHER_HEADING.search(line):
            summaries += 1
        elif HEADING.search(line):
            block = Block(iteration if iteration >= 0 else len(blocks) + 1, number)
            blocks.append(block)
            open_blocks[process] = block, ""
        elif block is not None and timer and (match := RANK.search(line)):
            rank = int(match[1])
            text = match[2]
            where = f"{name}:{number}"
            try:
                value = float(text)
            except ValueError:
                value = -1.0
            if not 0.0 <= value < float("inf"):
                fix = "correct the line, or log again"
                raise TraceFormatError(f"{text[:40]!r} is not a time", where=where, fix=fix)
            if rank >= layout.world_size:
                problem = f"rank {rank} does not exist: the metadata describes {layout.world_size} ranks"
                raise TraceFormatError(problem, where=where, fix="give the metadata of this job")
            block.timers[timer][rank] = value
            open_blocks[process] = block, timer
        elif block is not None and (match := NAME.search(line)):
            block.timers.setdefault(match[1], {})
            open_blocks[process] = block, match[1]
    computed = [block for block in blocks if FORWARD in block.timers]
    notes = []
    if len(computed) > 1 and computed[-1].lacks(computed[-2]):
        notes.append(f"the log ends within iteration {computed.pop().iteration}, which is left out")
    latest = {block.iteration: block for block in computed}
    compute = tuple(latest[step] for step in sorted(latest))
    if again := len(computed) - len(compute):
        notes.append(f"{plural(again, 'step')} run again after a restart: the last time counts")
    if not compute:
        why = "has no timers of Megatron-LM"
        if blocks:
            why = "has timers of all ranks, but not forward-compute: the level of timing is too low"
        elif summaries:
            why = "has timers only as minimum and maximum over ranks, which do not say whose they are"
        fix = "log with --timing-log-level 2 --timing-log-option all --log-interval 1"
        raise TraceFormatError(why, where=name, fix=fix)
    gaps = [after - before for before, after in pairwise(sorted(latest))]
    return TimerLog(compute, microbatches, min(gaps, default=1), tuple(notes))


class MegatronTimers:
    """Reads a log and lays its times out."""

    format = FileFormat(
        name="megatron-timers",
        source="log of Megatron-LM, as printed or as torchrun --tee writes it: times across ranks (ms), a line a rank",
        export="--timing-log-level 2 --timing-log-option all --log-interval 1, standard output and error kept",
        read="totals of each timer, rank and iteration, laid out along 1F1B",
        left_out="all other lines; jobs with virtual stages are refused",
        marks=("times across ranks (ms)", "forward-compute:"),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether times of ranks are in it; a log may begin long before them, so that any text may be one."""
        return 1.0 if HEADING_BYTES in head else 0.0 if begins_as_json(head) else NEARLY

    def sizes(self, paths: Sequence[str]) -> JobSizes:
        """Return the sizes that Megatron-LM prints at the beginning."""
        sizes = degrees_of_log(paths[0])
        if sizes is None:
            fix = "add --meta FILE with the lines dp_size: N, pp_size: N, tp_size: N, or keep the beginning of the log"
            problem = "does not say the degrees of the job: it lacks the line `using world size: ...`"
            raise TraceFormatError(problem, where=paths[0], fix=fix)
        return sizes

    def read(self, paths: Sequence[str], layout: RankLayout, settings: ConversionSettings) -> Conversion:
        """Lay the times of one log out.

        :raises TraceFormatError: no timers of all ranks, a worker without times, virtual stages.
        """
        if len(paths) > 1:
            fix = "give the log of the rank that prints it"
            raise InvalidInput("a job has one log of timers", where=paths[1], fix=fix)
        (name,) = paths
        settings.progress(name)
        if layout.vpp > 1:
            problem = "timers of a job with virtual stages cannot be laid out: they add up all chunks of a stage"
            raise TraceFormatError(problem, where=name, fix="convert Kineto traces of this job instead")
        with open_text(name) as lines:
            log = read_timers(name, lines, layout)
        count = settings.microbatches or log.microbatches
        if count is None:
            fix = "give --microbatches NUMBER"
            raise InvalidInput("does not say how many microbatches a step has", where=name, fix=fix)
        if len(log.blocks) * layout.dp * layout.pp * count > MOST_PASSES:
            raise TooLarge(
                f"{len(log.blocks)} steps of {count:,} microbatches on {layout.dp * layout.pp:,} workers make more "
                f"than {MOST_PASSES:,} passes",
                where=name,
                fix="cut the log down to fewer iterations",
            )
        ops = [op for block in log.blocks for op in _Step(name, block, layout, count).ops()]
        notes = (
            f"{len(log.blocks)} steps of {count} microbatches, laid out as 1F1B, each taking the mean of its step",
            "collectives at the end of a step start together, as they do unless --no-barrier-with-level-1-timing is "
            "set",
            *log.notes,
        )
        entries = missing_types(ops, layout, "no timer of it was logged", besides=(GC,))
        if layout.pp > 1:
            reason = "their timers hold the wait for the neighbour; the rows have a transfer time of zero"
            entries.append(Missing(", ".join(optypes.PIPELINE), reason, "their S_t, and what transfers add to S"))
        entries += [
            Missing(
                "single microbatches",
                "a timer adds up all microbatches of a step",
                "the cause 'sequence length'; every microbatch of a step is its mean",
            ),
            Missing(GC, "there is no timer of it", DISABLES[GC]),
        ]
        if log.interval > 1:
            reason = f"a block is the mean of {log.interval} iterations"
            entries.append(Missing("single steps", reason, "the slowdown of single steps; use --log-interval 1"))
        return Conversion(self.format.name, ops, tuple(entries), notes, _UNTOLD)


class _Step:
    """One block laid out over time."""

    def __init__(self, name: str, block: Block, layout: RankLayout, microbatches: int) -> None:
        self._where = f"{name}:{block.line}"
        self._block, self._layout, self._microbatches = block, layout, microbatches
        self._workers = [(dp, stage) for stage in range(layout.pp) for dp in range(layout.dp)]

    def ops(self) -> Iterator[Op]:
        begin = last = yield from self._together(ALL_GATHER, 0.0, (ALL_GATHER,))
        for dp in range(self._layout.dp):
            for op in self._pipeline(dp, begin):
                last = max(last, op.end)
                yield op
        reductions = {
            optypes.LAYERNORM: _LAYERNORMS,
            optypes.EMBEDDING: (optypes.EMBEDDING,),
            REDUCE_SCATTER: _GRADIENTS,
            CLIP: (CLIP,),
        }
        for optype, names in reductions.items():
            last = yield from self._together(optype, last, names)
        for dp, stage in self._workers:
            # the optimizer's timer runs on through those of the clip and of the gather inside it
            nested = (self._seconds((timer,), dp, stage) or 0.0 for timer in (CLIP, ALL_GATHER))
            if (whole := self._seconds((optypes.OPTIMIZER,), dp, stage)) is not None:
                yield self._op(optypes.OPTIMIZER, (dp, stage), (last, last + max(whole - sum(nested), 0.0)))

    def _together(self, optype: str, start: float, names: tuple[str, ...]) -> Generator[Op, None, float]:
        """Yield a collective that starts at once everywhere; returns when the last rank is through."""
        last = start
        for dp, stage in self._workers:
            if optype == optypes.EMBEDDING and 0 < stage < self._layout.pp - 1:
                continue
            if (seconds := self._seconds(names, dp, stage)) is not None:
                chunk = 0 if optype in (ALL_GATHER, REDUCE_SCATTER) else -1
                yield self._op(optype, (dp, stage), (start, start + seconds), chunk=chunk)
                last = max(last, start + seconds)
        return last

    def _pipeline(self, dp: int, begin: float) -> Iterator[Op]:
        """Yield compute and transfers of one data-parallel rank."""
        stages, count = self._layout.pp, self._microbatches
        share: dict[tuple[int, bool], float] = {}
        for stage, forward in product(range(stages), (True, False)):
            timer = FORWARD if forward else BACKWARD
            seconds = self._seconds((timer,), dp, stage)
            if seconds is None:
                rank = self._layout.representative(dp, stage)
                problem, fix = f"has no {timer} of rank {rank}", "give the whole log, and the job's metadata"
                raise TraceFormatError(problem, where=self._where, fix=fix)
            share[stage, forward] = seconds / count
        queues = [
            deque(one_forward_one_backward(stage=stage, stages=stages, microbatches=count)) for stage in range(stages)
        ]
        free = [begin] * stages
        done: dict[tuple[bool, int, int], float] = {}
        ready: dict[tuple[bool, int, int], float] = {}
        while any(queues):
            for stage, queue in enumerate(queues):
                while queue:
                    forward, chunk, i = queue[0]
                    before = stage - 1 if forward else stage + 1
                    inner = 0 <= before < stages
                    if inner and (forward, i, before) not in done:
                        break
                    queue.popleft()
                    ready[forward, i, stage] = free[stage]
                    start = max(free[stage], done[forward, i, before] if inner else begin)
                    free[stage] = done[forward, i, stage] = start + share[stage, forward]
                    optype, span = FORWARD if forward else BACKWARD, (start, free[stage])
                    yield self._op(optype, (dp, stage), span, microbatch=i, chunk=chunk)
        for (forward, i, stage), launched in ready.items():
            before = stage - 1 if forward else stage + 1
            if 0 <= before < stages:
                send, receive = optypes.PIPELINE[:2] if forward else optypes.PIPELINE[2:]
                met = max(done[forward, i, before], launched)
                yield self._op(send, (dp, before), (done[forward, i, before], met))
                yield self._op(receive, (dp, stage), (launched, met))

    def _seconds(self, names: tuple[str, ...], dp: int, stage: int) -> float | None:
        rank = self._layout.representative(dp, stage)
        for timer in names:
            if rank in self._block.timers.get(timer, {}):
                return self._block.timers[timer][rank] / 1e3
        return None

    def _op(self, optype: str, worker: tuple[int, int], span: tuple[float, float], **numbers: int) -> Op:
        return Op(self._layout.representative(*worker), self._block.iteration, optype, *span, **numbers)
