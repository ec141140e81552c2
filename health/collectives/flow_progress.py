"""Inside one collective that all have launched: which flow holds up the others, by its counters (arXiv 2509.03018).

GPU_ready > RDMA_transmitted, not transmitted: the sender's network, or a receiver that is not ready; RDMA_transmitted >
RDMA_done, not delivered; all equal, the GPU has made nothing ready.  The last is blamed only where the GPU had all it
needed: in a ring what has come in, plus the lead that every member has; in a tree what its children sent up, or its
parent down.  Otherwise the flow is starved, a victim, as is one whose target cannot pass on what it has.

A blocked flow has two ends and does not say which is at fault.  The end that all blocked flows share does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from health.collectives.recording import WAYS, RankGroup, States, runs

Condition = Literal["complete", "not-transmitted", "not-delivered", "gpu-not-ready", "starved"]

RING, UP, DOWN, P2P, RECEIVE = range(len(WAYS))

Into = defaultdict[tuple[int, int, int], list["Flow"]]  # (channel, way, target) -> flows that lead there
SAMPLE = 0.1  # Seconds between two state lines of a flow
SLACK = 2  # Chunks that a GPU may be behind while data move: it takes its time with each
FEWEST_SAMPLES = 3  # Samples of a flow that a share needs


class Flow(NamedTuple):
    """The counters of one flow at one instant."""

    source: int
    target: int
    channel: int
    way: int
    total: int
    ready: int
    transmitted: int
    done: int


@dataclass(frozen=True, slots=True)
class Blame:
    """Members that hold a collective up."""

    cause: Condition  # what the flows that show it have in common
    suspects: tuple[int, ...] = ()  # one = the flows agree on it; more = they do not tell them apart

    @property
    def unique(self) -> bool:
        """Whether the evidence leaves one suspect alone."""
        return len(self.suspects) == 1


def flows_at(states: States, group: int, seq: int) -> list[Flow]:
    """Return the last known counters of each flow of a collective."""
    rows = states.where((states.group == group) & (states.seq == seq) & (states.way != RECEIVE))
    columns = (rows.member, rows.peer, rows.channel, rows.way, rows.total, rows.ready, rows.transmitted, rows.done)
    flows = zip(*(column.tolist() for column in columns), strict=True)
    # a later row of the same flow replaces an earlier one
    return list({flow[:4]: Flow(*flow) for flow in flows}.values())


def conditions(flows: Sequence[Flow], *, slack: int = 0) -> list[Condition]:
    """Return what each flow waits for; its GPU may be behind what it has the data for by ``slack`` chunks before it is
    blamed, 0 where nothing moves.
    """
    into: Into = defaultdict(list)
    for flow in flows:
        into[flow.channel, flow.way, flow.target].append(flow)
    # of each channel, how far the member of its ring that is furthest ahead is of what has come in
    lead: dict[int, int] = defaultdict(int)
    for flow in flows:
        if flow.way == RING:
            arrived = _least(into[flow.channel, RING, flow.source], flow.total)
            lead[flow.channel] = max(lead[flow.channel], flow.ready - arrived)
    return [_condition(flow, into, lead[flow.channel] - slack) for flow in flows]


def blame(flows: Sequence[Flow], found: Sequence[Condition] | None = None) -> Blame:
    """Return which members hold up a collective in which nothing moves."""
    known = list(zip(flows, conditions(flows) if found is None else found, strict=True))
    idle = {flow.source for flow, condition in known if condition == "gpu-not-ready"}
    if idle:
        return Blame("gpu-not-ready", tuple(sorted(idle)))
    causes: tuple[Condition, ...] = ("not-delivered", "not-transmitted")
    for cause in causes:
        blocked = [flow for flow, condition in known if condition == cause]
        if blocked:
            return Blame(cause, cover(flow[:2] for flow in first_blocked(blocked)))
    return Blame("complete" if all(condition == "complete" for _, condition in known) else "starved")


def first_blocked(blocked: Sequence[Flow]) -> list[Flow]:
    """Return blocked flows without those that are blocked because their target cannot pass on what it has; all of them
    where all explain one another.
    """
    sources = {(flow.source, flow.channel, flow.way) for flow in blocked}
    roots = {(flow.source, flow.channel) for flow in blocked if flow.way == DOWN}
    first = [
        flow
        for flow in blocked
        if (flow.target, flow.channel, flow.way) not in sources
        and not (flow.way == UP and (flow.target, flow.channel) in roots)
    ]
    return first or list(blocked)


def cover(ends: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Return members that every pair has; if there is none, those that most pairs have.

    A single member with exceptions is not alone: the next best come after it, so that it is never taken for certain.
    """
    pairs = list(ends)
    votes = Counter(member for pair in pairs for member in pair)
    by_count: dict[int, list[int]] = defaultdict(list)
    for member, count in votes.items():
        by_count[count].append(member)
    most, *fewer = sorted(by_count, reverse=True)
    best = sorted(by_count[most])
    alone = len(best) == 1 and most < len(pairs)
    return tuple(best + sorted(by_count[fewer[0]]) if alone and fewer else best)


def _condition(flow: Flow, into: Into, lead: int) -> Condition:
    if flow.done >= flow.total:
        return "complete"
    if flow.transmitted > flow.done:
        return "not-delivered"
    if flow.ready > flow.transmitted:
        return "not-transmitted"
    return "gpu-not-ready" if flow.ready < _available(flow, into, lead) else "starved"


def _available(flow: Flow, into: Into, lead: int) -> int:
    """Return chunks that the source of a flow had the data for."""
    channel, source = flow.channel, flow.source
    if flow.way == RING:
        return min(flow.total, _least(into[channel, RING, source], flow.total) + lead)
    if flow.way == DOWN and into[channel, DOWN, source]:
        return _least(into[channel, DOWN, source], flow.total)
    # the root of a tree sends down what has come up; a send needs nothing
    return _least(into[channel, UP, source], flow.total) if flow.way in (UP, DOWN) else flow.total


def _least(flows: Sequence[Flow], otherwise: int) -> int:
    return min((flow.done for flow in flows), default=otherwise)


def shares(states: States, groups: Sequence[RankGroup], wanted: Condition) -> dict[tuple[int, int], float]:
    """Return (source, target) -> share of its samples in which a flow was in a condition.  Each sample of each
    collective is looked at by itself, once all of the group have launched it: what waits for a member that has not come
    says nothing of the transfer.
    """
    hit: Counter[tuple[int, int]] = Counter()
    seen: Counter[tuple[int, int]] = Counter()
    for rows in _samples(states):
        group = int(rows.group[0])
        if len(np.unique(rows.member)) < len(groups[group].members):
            continue
        flows = flows_at(rows, group, int(rows.seq[0]))
        known = list(zip(flows, conditions(flows, slack=SLACK), strict=True))
        first = first_blocked([flow for flow, condition in known if condition == wanted])
        hit.update(flow[:2] for flow in first)
        seen.update(flow[:2] for flow, condition in known if condition != "complete")
    return {pair: hit[pair] / count for pair, count in seen.items() if count >= FEWEST_SAMPLES}


def _samples(states: States) -> Iterator[States]:
    """Yield the rows of each 100 ms of each collective."""
    instant = np.floor(states.time / SAMPLE + 0.5).astype(np.int64)
    order = np.lexsort((states.group, states.seq, instant))
    for rows in runs(order, instant[order], states.group[order], states.seq[order]):
        yield states.where(rows)
