"""Megatron-LM's timers, as logged, read block by block.

With ``--timing-log-option all`` a block is ``times across ranks (ms):``, then a line with the name of a timer and one
line a rank for each timer (megatron/core/timers.py).  The default, ``minmax``, prints ``(min, max) time across ranks
(ms):`` and does not say which rank the maximum is of: of no use here, and refused.  A timer adds up what it measured
over ``--log-interval`` iterations and is printed divided by their number; level 2 has the compute and pipeline timers.
The line of the iteration stands before its block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from health.whatif.converters.rank_layout import RankLayout
from topology.errors import TraceFormatError

HEADING = re.compile(r"(?<!, max\) )(?<!max )\btimes across ranks \(ms\):\s*\Z")
OTHER_HEADING = re.compile(r"(\(min, max\)|max) time across ranks \(ms\):")
ITERATION = re.compile(r"\biteration\s+(\d{1,15})\s*/\s*\d+\s*\|")
MICROBATCHES = re.compile(r"number of micro-?batches to constant (\d{1,9})\b")
NAME = re.compile(r"(?:\A|\s)([a-z][a-z0-9/-]*):\s*\Z")
RANK = re.compile(r"(?:\A|\s)rank\s+(\d{1,15}):\s+(\S+)\s*\Z")


@dataclass(slots=True)
class Block:
    """What was logged at one iteration."""

    iteration: int  # number of the iteration that ended it
    line: int  # of the heading, from 1
    # name -> rank -> milliseconds of one iteration, a mean over the interval
    timers: dict[str, dict[int, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimerLog:
    """A whole log."""

    # by iteration, only those with compute timers; of one that was run twice after a restart, the last
    blocks: tuple[Block, ...]
    microbatches: int | None  # of a step, None = the log does not say
    interval: int  # iterations a block is the mean of


def read_timers(name: str, lines: Iterable[str], layout: RankLayout) -> TimerLog:
    """Read a log.

    :param name: what errors call it.
    :raises TraceFormatError: no block of all ranks, a rank beyond the job, a number that is none.
    """
    blocks: list[Block] = []
    open_block: Block | None = None
    timer = ""
    iteration, microbatches, summaries = -1, None, 0
    for number, line in enumerate(lines, 1):
        if found := MICROBATCHES.search(line):
            microbatches = int(found[1])
        if found := ITERATION.search(line):
            iteration = int(found[1])
        if OTHER_HEADING.search(line):
            summaries += 1
            open_block = None
        elif HEADING.search(line):
            open_block, timer = Block(iteration if iteration >= 0 else len(blocks) + 1, number), ""
            blocks.append(open_block)
        elif open_block is not None and (found := RANK.search(line)) and timer:
            rank = int(found[1])
            open_block.timers[timer][rank] = _milliseconds(found[2], rank, layout, f"{name}:{number}")
        elif open_block is not None and (found := NAME.search(line)):
            timer = found[1]
            open_block.timers.setdefault(timer, {})
        else:
            open_block = None
    latest = {block.iteration: block for block in blocks if "forward-compute" in block.timers}
    compute = tuple(latest[step] for step in sorted(latest))
    if not compute:
        why = "has no timers of Megatron-LM"
        if blocks:
            why = "has timers of all ranks, but not forward-compute: the level of timing is too low"
        elif summaries:
            why = "has timers only as minimum and maximum over ranks, which do not say whose they are"
        fix = "log with --timing-log-level 2 --timing-log-option all --log-interval 1"
        raise TraceFormatError(why, where=name, fix=fix)
    gaps = [after - before for before, after in pairwise(sorted(latest))]
    return TimerLog(compute, microbatches, min(gaps, default=1))


def _milliseconds(text: str, rank: int, layout: RankLayout, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < float("inf"):
        raise TraceFormatError(f"{text[:40]!r} is not a time", where=where, fix="correct the line, or log again")
    if rank >= layout.world_size:
        raise TraceFormatError(
            f"rank {rank} does not exist: the metadata describes {layout.world_size} ranks",
            where=where,
            fix="give the metadata of this job",
        )
    return value
