"""Collectives that stand still: which stall came first, and inside it which flow holds up the others.

A stalled collective waits for each member that has not launched it, or launched it behind another in which it stands
first.  If that member stands in another stalled collective, the first waits for the second.  The strongly connected
parts of this graph that wait for nothing else are the roots: all other stalls follow from them.  So is each stall that
waits for a member that stands nowhere.  Where all came, and most of them have completed what some still stand in, it is
those that hold up the job; where one of them left no record, it is that one.

Inside a collective that all have launched, the counters of its flows say which flow holds up the others (arXiv
2509.03018).  GPU_ready > RDMA_transmitted, not transmitted: the sender's network, or a receiver that is not ready;
RDMA_transmitted > RDMA_done, not delivered; all equal, the GPU has made nothing ready.  The last is blamed only where
the GPU had all it needed: in a ring what has come in, plus the lead that every member has; in a tree what its children
sent up, or its parent down.  Otherwise the flow is starved, a victim, as is one whose target cannot pass on what it
has.  A blocked flow has two ends and does not say which is at fault.  The end that all blocked flows share does.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ground.groups import grouped
from health.collectives.recording import WAYS, CollectiveRecording, Member, RankGroup, States, runs
from topology.cluster import IntArray

Disagreement = Literal["crossed-order", "other-size"]  # Mistakes of the program: other operations, other sizes
RootKind = Literal["not-launched", "not-completed", "no-record", "transfer"] | Disagreement


@dataclass(frozen=True, slots=True)
class Stall:
    """A collective that some members have launched and not all have completed."""

    group: int
    seq: int
    op: str
    standing: frozenset[int]  # members that launched it and did not complete it
    absent: frozenset[int]  # members that did not launch it
    since: float | None = None  # when anything last moved in it; None = unknown
    passed: frozenset[int] = frozenset()  # members that have completed it
    behind: frozenset[int] = frozenset()  # members that launched it, or may have, and stand in something earlier


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Members that launched another operation under a number than most of their group, or one of another size."""

    group: int
    seq: int
    op: str
    others: tuple[tuple[int, str], ...]  # member -> what it launched
    kind: Disagreement = "crossed-order"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A job at one instant."""

    members: tuple[Member, ...]
    groups: tuple[RankGroup, ...]
    stalls: tuple[Stall, ...]
    mismatches: tuple[Mismatch, ...] = ()
    settled: bool = True  # whether the stalls are known to stand still, not merely to be under way
    gone: frozenset[int] = frozenset()  # members that are known to be dead or unreachable
    unseen: frozenset[int] = frozenset()  # members without records: what they did is unknown
    # members in a collective that is under way: what waits for them does not wait for a fault of theirs
    busy: frozenset[int] = frozenset()
    # members whose first open operation of all is one that all others of its group have completed
    late: frozenset[int] = frozenset()
    # members that exchange what the records do not show, so that one of them that stands nowhere may wait for another
    unrecorded: tuple[frozenset[int], ...] = ()

    @property
    def missing(self) -> frozenset[int]:
        """Members whose lack of records is evidence: less than half, else somebody gave a part of the records."""
        return self.unseen if 2 * len(self.unseen) < len(self.members) else frozenset()

    @property
    def idle(self) -> frozenset[int]:
        """Members that others wait for, and that stand nowhere."""
        standing = frozenset[int]().union(*(stall.standing for stall in self.stalls))
        return frozenset[int]().union(*(stall.absent for stall in self.stalls)) - standing - self.busy


@dataclass(frozen=True, slots=True)
class Root:
    """Stalls that explain others."""

    # a member never came; all came and some have not completed what the others have; a member left no record; all came
    # and the data do not move; members wait for one another in a circle, or called different things
    kind: RootKind
    stalls: tuple[Stall, ...]  # the stalls of the root
    suspects: tuple[int, ...]  # members to blame; empty for a transfer
    victims: tuple[int, ...]


def stalls_at(recording: CollectiveRecording, time: float, *, quiet: float, back: float) -> Snapshot:
    """Return the stalls of a recording at an instant.

    :param quiet: seconds in which nothing moved: less is not a stall.  A member that is in no collective is given twice
        the longest time it ever took between two.
    :param back: seconds of history to look at; state lines come every 100 ms while a collective runs.
    """
    recent = recording.states.between(time - back, time)
    completed = recording.completions.until(time)
    # (group, member) -> number of the last collective it completed
    last: dict[tuple[int, int], int] = {}
    for _, _, group, member, seq, _, _ in completed.rows():
        last[group, member] = max(seq, last.get((group, member), seq))
    stalls: list[Stall] = []
    mismatches: list[Mismatch] = []
    # members that completed something so recently that they may well be computing
    busy = set()
    for member in np.unique(completed.member).tolist():
        ends = completed.end[completed.member == member]
        longest = float(np.diff(ends).max(initial=0.0))
        if time - float(ends[-1]) < max(quiet, 2 * longest):
            busy.add(member)
    for group in np.unique(recent.group).tolist():
        rows = recent.where(recent.group == group)
        members = frozenset(recording.groups[group].members)
        waiting = _waiting(rows, group, members, last)
        if waiting is None:
            continue
        seq, standing, absent = waiting
        rows = rows.where(rows.seq == seq)
        # a stall begins when a counter of its flows last changed
        key = np.stack([rows.member, rows.channel, rows.peer, rows.way], axis=1)
        order = np.lexsort((rows.time, *key.T))
        ordered = rows.where(order)
        same = (key[order][1:] == key[order][:-1]).all(axis=1)
        progress = ordered.ready + ordered.transmitted + ordered.done
        changed = same & (progress[1:] != progress[:-1])
        times = ordered.time[1:][changed]
        since = max(
            (float(times.max()) if len(times) else float(recent.time[0])), *_each(min, rows.member, rows.time).values()
        )
        if time - since < quiet:
            busy |= standing
            continue
        launched = dict(zip(rows.member.tolist(), rows.op.tolist(), strict=True))
        ops = list(launched.values())
        most = max(sorted(set(ops)), key=ops.count)
        stalls.append(Stall(group, seq, recording.ops[most], standing, absent, since))
        if others := tuple((member, recording.ops[op]) for member, op in sorted(launched.items()) if op != most):
            mismatches.append(Mismatch(group, seq, recording.ops[most], others))
    # members that launched a collective, did not complete it, and write no more state lines
    silent: set[int] = set()
    for stall in stalls:
        rows = recent.where((recent.group == stall.group) & (recent.seq == stall.seq))
        newest_of = _each(max, rows.member, rows.time)
        newest = max(newest_of.values())
        if time - newest <= quiet:
            silent |= {member for member, last in newest_of.items() if newest - last > quiet}
    gone, groups = frozenset(silent), recording.groups
    return Snapshot(recording.members, groups, tuple(stalls), tuple(mismatches), gone=gone, busy=frozenset(busy))


def _waiting(
    rows: States, group: int, members: frozenset[int], last: dict[tuple[int, int], int]
) -> tuple[int, frozenset[int], frozenset[int]] | None:
    """Return the first collective that a member launched and did not complete, the members in it and those absent."""
    launched = _each(max, rows.member, rows.seq)
    completed = {member: last.get((group, member), -1) for member in members}
    unfinished = {member: seq for member, seq in launched.items() if seq > completed[member]}
    if not unfinished:
        return None
    first = min(unfinished.values())
    absent = frozenset(m for m in members if max(launched.get(m, -1), completed[m]) < first)
    return first, frozenset(m for m, seq in unfinished.items() if seq == first), absent


def _each(best: Callable[[float, float], float], members: IntArray, values: npt.NDArray[Any]) -> dict[int, Any]:
    """Return the least or greatest value of each member, in the order in which members appear."""
    best_of: dict[int, Any] = {}
    for member, value in zip(members.tolist(), values.tolist(), strict=True):
        best_of[member] = best(value, best_of.get(member, value))
    return best_of


def find_roots(snapshot: Snapshot) -> list[Root]:
    """Return the roots of all stalls, one for the same suspects: those with suspects first, of which those
    with records first, then by victims.
    """
    import networkx as nx

    stalls, idle = snapshot.stalls, snapshot.idle
    odd = {(mismatch.group, mismatch.seq) for mismatch in snapshot.mismatches}
    # places of stalls, and of members that stand nowhere -1 - member
    waiting: nx.DiGraph[int] = nx.DiGraph()
    waiting.add_nodes_from((*range(len(stalls)), *(-1 - member for member in idle)))
    standing = grouped((member, i) for i, stall in enumerate(stalls) for member in stall.standing)
    for i, stall in enumerate(stalls):
        held_up = stall.absent | stall.behind
        waiting.add_edges_from((i, j) for member in held_up for j in standing.get(member, ()) if j != i)
        waiting.add_edges_from((i, -1 - member) for member in held_up & idle)
    for members in snapshot.unrecorded:
        for member in members & idle:
            others = members - {member}
            waiting.add_edges_from((-1 - member, -1 - other) for other in others & (idle | snapshot.unseen))
            waiting.add_edges_from((-1 - member, j) for other in others for j in standing.get(other, ()))
    found: list[tuple[RootKind, frozenset[int], set[int]]] = []
    blamed: set[int] = set()
    for circle in sorted(nx.strongly_connected_components(waiting), key=max):
        if not circle.issuperset(after for node in circle for after in waiting[node]):
            continue
        own, alone = {node for node in circle if node >= 0}, {-1 - node for node in circle if node < 0} & idle
        if len(alone) == 1 and not (own and _crossed(snapshot, [stalls[i] for i in sorted(own)])):
            blamed |= alone
        elif len(alone) > 1:  # who waits for whom is not known
            for_them = own or {i for member in alone for i in waiting.pred[-1 - member] if i >= 0}
            found.append(("transfer", frozenset(), for_them))
        elif own:
            found.append((*_at_the_root(snapshot, [stalls[i] for i in sorted(own)]), own))
    for i, stall in enumerate(stalls):
        if (suspects := stall.absent & blamed) and (stall.group, stall.seq) not in odd:
            found.append(("not-launched", suspects, {i}))
    merged: dict[tuple[RootKind, tuple[int, ...]], tuple[set[int], set[int]]] = {}
    for kind, suspects, own in found:
        if len(own) == 1 and any(stalls[i].absent & snapshot.busy for i in own):
            continue
        causes, explained = merged.setdefault((kind, tuple(sorted(suspects))), (set(), set()))
        causes |= own
        explained |= own.union(*(nx.ancestors(waiting, i) for i in own))
    roots = []
    for (kind, named), (causes, explained) in merged.items():
        first = {i for i in causes if not nx.descendants(waiting, i) & causes} or causes
        victims = {stalls[i].group for i in explained - first if i >= 0}
        roots.append(Root(kind, tuple(stalls[i] for i in sorted(first)), named, tuple(sorted(victims))))
    return sorted(roots, key=lambda root: (not root.suspects, root.kind == "no-record", -len(root.victims)))


def _crossed(snapshot: Snapshot, circle: Sequence[Stall]) -> frozenset[int]:
    """Return who went another way than the others, in stalls that wait for one another; empty = nobody, surely.

    That is those that called alone what most of a group did not, and those without whom there would be no circle; else
    those that stand where fewest of it stand.
    """
    import networkx as nx

    waits: nx.DiGraph[int] = nx.DiGraph()
    waits.add_edges_from((here, there) for stall in circle for here in stall.standing for there in stall.absent)
    if nx.is_directed_acyclic_graph(waits):
        return frozenset().union(*(stall.standing for stall in circle if 2 * len(stall.standing) <= len(stall.absent)))
    waits.add_edges_from((a, b) for m in snapshot.unrecorded for a in m & snapshot.idle for b in m - {a})
    within = {member for member in waits if waits.pred[member] and waits.succ[member]}
    alone = {one for one in within if nx.is_directed_acyclic_graph(waits.subgraph(within - {one}))}
    standing = [stall.standing & within for stall in circle]
    fewest = min(map(len, standing))
    return frozenset(alone or {member for members in standing if len(members) == fewest for member in members})


def _at_the_root(snapshot: Snapshot, circle: Sequence[Stall]) -> tuple[RootKind, frozenset[int]]:
    """Return what is wrong with stalls that wait for no others but one another, and whose fault it is."""
    stall = circle[0]
    members = frozenset(member for stall in circle for member in snapshot.groups[stall.group].members)
    mismatches = (m for m in snapshot.mismatches if (m.group, m.seq) == (stall.group, stall.seq))
    if len(circle) == 1 and (mismatch := next(mismatches, None)):
        return mismatch.kind, frozenset(member for member, _ in mismatch.others)
    if members & snapshot.missing:  # where one has died, others without records have, too
        return "no-record", snapshot.missing
    if len(circle) == 1 and not stall.absent & snapshot.idle:
        few = len(stall.standing) < max(len(stall.passed), 2)
        # of two halves a link between them may be broken, which holds up nothing earlier
        behind = stall.standing if few else stall.standing & snapshot.late
        if behind and stall.passed and stall.standing | stall.passed == members:
            return "not-completed", behind
        return "transfer", frozenset()
    crossed = _crossed(snapshot, circle)
    if not crossed or (any(stall.behind for stall in circle) and not snapshot.unrecorded):
        return "transfer", frozenset()  # which may be under way at the same time
    return "crossed-order", crossed


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
    into: Into = grouped(((flow.channel, flow.way, flow.target), flow) for flow in flows)
    # of each channel, how far the member of its ring that is furthest ahead is of what has come in
    lead: dict[int, int] = defaultdict(int)
    for flow in flows:
        if flow.way == RING:
            arrived = _least(into[flow.channel, RING, flow.source], flow.total)
            lead[flow.channel] = max(lead[flow.channel], flow.ready - arrived)
    return [_condition(flow, into, lead[flow.channel] - slack) for flow in flows]


def blame(flows: Sequence[Flow], waits_for: Sequence[Condition] | None = None) -> Blame:
    """Return which members hold up a collective in which nothing moves."""
    judged = list(zip(flows, conditions(flows) if waits_for is None else waits_for, strict=True))
    idle = {flow.source for flow, condition in judged if condition == "gpu-not-ready"}
    if idle:
        return Blame("gpu-not-ready", tuple(sorted(idle)))
    causes: tuple[Condition, ...] = ("not-delivered", "not-transmitted")
    for cause in causes:
        blocked = [flow for flow, condition in judged if condition == cause]
        if blocked:
            return Blame(cause, cover(flow[:2] for flow in first_blocked(blocked)))
    return Blame("complete" if all(condition == "complete" for _, condition in judged) else "starved")


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
    by_count = grouped((count, member) for member, count in votes.items())
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
    # chunks that the source had the data for; the root of a tree sends down what has come up; a send needs nothing
    channel, source, available = flow.channel, flow.source, flow.total
    if flow.way == RING:
        available = min(flow.total, _least(into[channel, RING, source], flow.total) + lead)
    elif flow.way == DOWN and into[channel, DOWN, source]:
        available = _least(into[channel, DOWN, source], flow.total)
    elif flow.way in (UP, DOWN):
        available = _least(into[channel, UP, source], flow.total)
    return "gpu-not-ready" if flow.ready < available else "starved"


def _least(flows: Sequence[Flow], otherwise: int) -> int:
    return min((flow.done for flow in flows), default=otherwise)


def shares(states: States, groups: Sequence[RankGroup], wanted: Condition) -> dict[tuple[int, int], float]:
    """Return (source, target) -> share of its samples in which a flow was in a condition.  Each sample of each
    collective is looked at by itself, once all of the group have launched it: what waits for a member that has not come
    says nothing of the transfer.
    """
    hit: Counter[tuple[int, int]] = Counter()
    seen: Counter[tuple[int, int]] = Counter()
    instant = np.floor(states.time / SAMPLE + 0.5).astype(np.int64)
    order = np.lexsort((states.group, states.seq, instant))
    for sample in runs(order, instant[order], states.group[order], states.seq[order]):
        rows = states.where(sample)
        group = int(rows.group[0])
        if len(np.unique(rows.member)) < len(groups[group].members):
            continue
        flows = flows_at(rows, group, int(rows.seq[0]))
        judged = list(zip(flows, conditions(flows, slack=SLACK), strict=True))
        first = first_blocked([flow for flow, condition in judged if condition == wanted])
        hit.update(flow[:2] for flow in first)
        seen.update(flow[:2] for flow, condition in judged if condition != "complete")
    return {pair: hit[pair] / count for pair, count in seen.items() if count >= FEWEST_SAMPLES}
