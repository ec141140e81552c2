"""Steps and passes of jobs without a pipeline, whose ranges give passes no numbers, or do not name them at all.

A forward pass is a range around the whole model, its backward pass a range too, or what autograd ran after it and
before the next.  Where no range names the forward pass, it is what lies between the loading of data and the
first node of autograd; without autograd the step infers, and is one forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from health.whatif.converters.names import WHOLE_MODEL, Meaning
from health.whatif.converters.profile import Profile, Range
from health.whatif.optypes import BACKWARD, FORWARD, OPTIMIZER

Steps = tuple[tuple[int, float, float], ...]
TOLD_BY_ORDER = WHOLE_MODEL + 2  # Dialect of passes that no range names
FEWEST_UPDATES = 3  # From so many on, the first step, which began before the file, is not needed


def steps_of(profile: Profile) -> tuple[Steps, str]:
    """Return number, start and end of each step, and a sentence on where they are from; empty = marked as such."""
    if profile.steps:
        return profile.steps, ""
    updates = [each for each in profile.ranges if OPTIMIZER in each.meaning.optypes]
    nodes = profile.autograd[:, 0]
    # several optimizers of one step have no backward pass between them
    ends = [
        before.end
        for before, after in pairwise(updates)
        if not len(nodes) or np.searchsorted(nodes, before.end) < np.searchsorted(nodes, after.start)
    ] + [each.end for each in updates[-1:]]
    begin, end = profile.extent
    end = max(end, float(profile.end.max(initial=end)))
    if not ends:
        return ((0, begin, end),), "no ProfilerStep# range is in it: the whole file is taken as one step"
    found = tuple((number, *span) for number, span in enumerate(pairwise([begin, *ends])))
    why = "no ProfilerStep# range is in it: a step is what ends with an optimizer's"
    return (found[1:] if len(found) >= FEWEST_UPDATES else found), why


def with_passes(profile: Profile, ranges: Sequence[Range], span: tuple[float, float]) -> tuple[list[Range], str]:
    """Return the ranges of one step with forward and backward passes among them, and a sentence on what was assumed."""
    passes = [each for each in ranges if {FORWARD, BACKWARD} & set(each.meaning.optypes)]
    if any(FORWARD in each.meaning.optypes and each.meaning.dialect < WHOLE_MODEL for each in passes):
        return list(ranges), ""
    others = [each for each in ranges if each not in passes]
    forward = _outermost([each for each in passes if FORWARD in each.meaning.optypes])
    backward = _outermost([each for each in passes if BACKWARD in each.meaning.optypes])
    if not backward:
        backward = _autograd_runs(profile, [each.start for each in forward] or [span[0]], span[1])
    if forward:
        return sorted([*others, *forward, *backward], key=lambda each: each.start), ""
    until = min((each.start for each in (*backward, *others) if OPTIMIZER in each.meaning.optypes or each in backward),
                default=span[1])  # fmt: skip
    ready = profile.loaded[(profile.loaded >= span[0]) & (profile.loaded < until)]
    begin = float(ready[-1]) if len(ready) and backward else span[0]  # a step that infers may load many batches
    inferred = Range(begin, until, Meaning(TOLD_BY_ORDER, (FORWARD,)))
    note = (
        "no range names a forward pass: it is taken to lie between the data and the first backward operation"
        if backward
        else "no range and no autograd tells its passes: a step is taken as one forward pass, as inference has it"
    )
    return sorted([inferred, *others, *backward], key=lambda each: each.start), note


def _outermost(ranges: Sequence[Range]) -> list[Range]:
    """Return ranges that lie in no other."""
    found: list[Range] = []
    for each in sorted(ranges, key=lambda each: (each.start, -each.end)):
        if not found or each.start >= found[-1].end:
            found.append(each)
    return found


def _autograd_runs(profile: Profile, begins: Sequence[float], end: float) -> list[Range]:
    """Return what autograd ran from the start of each forward pass to that of the next."""
    nodes, found = profile.autograd, []
    for start, stop in pairwise([*begins, end]):
        first, last = np.searchsorted(nodes[:, 0], (start, stop))
        if first < last:
            run = nodes[first:last]
            found.append(Range(float(run[0, 0]), float(run[:, 1].max()), Meaning(TOLD_BY_ORDER, (BACKWARD,))))
    return found
