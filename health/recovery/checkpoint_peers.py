"""Checkpoint peers: on which machine each machine of a job keeps the backup of its state.

What is lost together must not be stored together: a PP group is evicted whole, a rack dies with its switch, the members
of a DP group hold each other's shards.  So the peer of a machine shares no PP, DP or TP group with it (ByteRobust,
arXiv 2509.16293) and, ours, no rack.  Every machine keeps the backup of exactly one other, as near as that allows.

Where the rules cannot all be kept, they give way in this order, each in as few pairs as possible: the DP group first
(evicted rarely), then the rack, the PP group last (the usual eviction unit).  A machine never backs up itself.

The peers are a perfect matching of least cost, by shortest augmenting paths with dual prices (Jonker and Volgenant
1987), one row of costs at a time: costs are cheaper to compute than to store, memory grows with the number of rows, not
with its square, and the dual prices prove the answer.
"""

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

from ground.errors import Infeasible, InvalidPlacement, TooLarge
from ground.records import Count
from health.recovery.machines import JobMachine, Machines
from topology.cluster import Cluster, IntArray

Costs = npt.NDArray[np.int64]

FORBIDDEN = 2**60  # Cost of a pair that must not be.  All costs of a matching together stay below an eighth of it
_NEVER = 2**62


def assign(size: int, costs: Callable[[int], Costs]) -> npt.NDArray[np.int64]:
    """Return the column of each row.

    :param costs: of a row, the cost of every column, shape [size], at least 0; a copy that may be kept.
    :returns: shape [size], a permutation; pairs that are :data:`FORBIDDEN` only where there is no other.
    """
    of_row, of_column = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    row_at = np.full(size, -1, dtype=np.int64)
    column_at = np.full(size, -1, dtype=np.int64)
    for start in range(size):
        shortest = np.full(size, _NEVER, dtype=np.int64)
        before = np.full(size, -1, dtype=np.int64)
        scanned = np.zeros(size, dtype=np.bool_)
        rows, length, row = [start], np.int64(0), start
        while True:
            reach = costs(row) - of_column + (length - of_row[row])
            better = (reach < shortest) & ~scanned
            shortest[better] = reach[better]
            before[better] = row
            # the column at the least distance of those not scanned, a free one among equals
            distance = np.where(scanned, _NEVER, shortest)
            least = distance.min()
            ties = np.flatnonzero(distance == least)
            free = ties[row_at[ties] < 0]
            column, length = int(free[0] if len(free) else ties[0]), least
            scanned[column] = True
            if row_at[column] < 0:
                break
            row = int(row_at[column])
            rows.append(row)
        of_row[start] += length
        for other in rows[1:]:
            of_row[other] += length - shortest[column_at[other]]
        of_column[scanned] += shortest[scanned] - length
        while True:
            row = int(before[column])
            row_at[column] = row
            column, column_at[row] = int(column_at[row]), column
            if row == start:
                break
    return column_at


Rule = Literal["dp", "tp", "level", "pp"]
"""What a pair must not share, in the order in which the rules give way; tp where a TP group takes several machines."""


class CheckpointPeer(JobMachine):
    """A machine and the one that keeps its backup."""

    peer: Count
    """Node rank of the machine that keeps its backup; rank for rank, in the same order on both."""
    peer_node: str
    """Name of its node."""
    shares: tuple[Rule, ...]
    """What the two share and should not: dp, tp, level (the rack), pp; empty = nothing."""
    distance: Count
    """Levels broader than that of the rule at which the two are in different domains; 0 = as near as can be."""


@dataclass(frozen=True)
class Peers:
    """The machine that keeps the backup of each."""

    machines: Machines
    peer: npt.NDArray[np.int64]  # shape [machines], the machine that keeps the backup of each; a permutation
    # rule, in the order in which they give way -> shape [machines], true where a machine shares it with its peer
    shared: dict[Rule, npt.NDArray[np.bool_]]
    distance: IntArray  # shape [machines], how many levels broader than the level of the rule separate the two
    conflict: tuple[Rule, ...]  # rules that cannot all be kept, as few as say so; empty = all are
    domain: IntArray

    @property
    def mutual(self) -> int:
        """Machines that keep the backup of their own peer."""
        return int((self.peer[self.peer] == np.arange(len(self.peer))).sum())

    @property
    def broken(self) -> dict[Rule, int]:
        """Rule -> pairs that break it."""
        return {rule: int(shared.sum()) for rule, shared in self.shared.items()}

    @property
    def fatal_pairs(self) -> int:
        """Pairs of machines that lose a state and its backup, if both are lost."""
        return len(self.peer) - self.mutual // 2

    def rows(self) -> tuple[CheckpointPeer, ...]:
        """Return each machine with its peer, by node rank."""
        return tuple(
            CheckpointPeer(
                **asdict(self.machines.machine(machine)),
                peer=peer,
                peer_node=self.machines.name(peer),
                shares=tuple(rule for rule, shared in self.shared.items() if shared[machine]),
                distance=int(self.distance[machine]),
            )
            for machine, peer in enumerate(self.peer.tolist())
        )


def checkpoint_peers(cluster: Cluster, machines: Machines, nodes: IntArray, *, level: str | None) -> Peers:
    """Return peers that break as few rules as possible, in the order of :data:`Rule`, and are then as near as can be.

    Both are proved least (:mod:`health.recovery.checkpoint_peers`).  Pairs are made mutual where that costs nothing:
    two machines that back up each other are one pair that must not be lost, a ring of n has n such pairs (as GEMINI's
    group placement, SOSP 2023).

    :param nodes: shape [machines], index of the node of each machine, by node rank.
    :param level: the level of the rack; ``None`` = the closest; a cluster without levels has no such rule.
    :raises Infeasible: the job has one machine.
    :raises InvalidPlacement: a node is there twice.
    :raises TooLarge: more machines than the costs can be told apart for.
    """
    if len(machines) < 2:
        problem = "the job has one machine: there is no other to keep its backup"
        raise Infeasible(problem, where="--placement", fix="write its checkpoints to storage")
    used, times = np.unique(nodes, return_counts=True)
    if (times > 1).any():
        problem = f"node {cluster.names[int(used[times > 1][0])]!r} has more than one cell of the job"
        raise InvalidPlacement(problem, where="--placement", fix="give the placement that `arnold place` saved")
    # of each machine the domain of the level, and those of all broader levels
    depth = len(cluster.levels) - 1 if level is None else cluster.level_index(level)
    domains = [domain_level.domain_of[nodes] for domain_level in cluster.levels[: depth + 1]]
    domain = domains.pop() if domains else np.arange(len(nodes), dtype=np.int32)
    ground = _Ground(machines, domain, np.array(domains, dtype=np.int32).reshape(len(domains), len(nodes)).T)
    matching = assign(len(machines), ground.costs)
    # A ring of even length is cut into mutual pairs: every other link, whichever half costs less, which is at most what
    # the ring does, as a link costs the same both ways.
    peer = matching.copy()
    seen = np.zeros(len(matching), dtype=np.bool_)
    for start in range(len(matching)):
        ring: list[int] = []
        machine = start
        while not seen[machine]:
            seen[machine] = True
            ring.append(machine)
            machine = int(matching[machine])
        if not ring or len(ring) % 2:
            continue
        links = [int(ground.costs(a)[b]) for a, b in zip(ring, ring[1:] + ring[:1], strict=True)]
        turned = ring if sum(links[::2]) <= sum(links[1::2]) else ring[1:] + ring[:1]
        first, second = turned[::2], turned[1::2]
        peer[first], peer[second] = second, first
    shared = {rule: same == same[peer] for rule, same in ground.of.items()}
    conflict = ground.conflict() if any(broken.any() for broken in shared.values()) else ()
    return Peers(machines, peer, shared, _apart(ground.broader, ground.broader[peer]), conflict, ground.domain)


@dataclass(frozen=True)
class _Ground:
    """What of each machine counts."""

    machines: Machines
    domain: IntArray  # shape [machines], its domain of the level; all different where there is no rule
    broader: IntArray  # shape [machines, broader levels]

    @cached_property
    def of(self) -> dict[Rule, IntArray]:
        """Rule -> shape [machines]: machines with the same number must not be a pair."""
        groups: dict[Rule, IntArray] = {"dp": self.machines.group_of("dp")}
        if self.machines.job.nodes_of_tp > 1:
            groups["tp"] = self.machines.group_of("tp")
        return groups | {"level": self.domain, "pp": self.machines.group_of("pp")}

    @cached_property
    def weights(self) -> dict[Rule, int]:
        """Cost of breaking a rule: more than all that can come after it, in all pairs together."""
        size = len(self.machines)
        weights: dict[Rule, int] = {}
        weight = size * self.broader.shape[1] + 1
        for rule in self.of:
            weights[rule] = weight
            weight *= size + 1
        if sum(weights.values()) * size * 8 > FORBIDDEN:
            problem = f"the job has {size:,} machines: too many to assign peers at once"
            raise TooLarge(problem, where="--placement", fix="assign peers within parts of the job")
        return weights

    def costs(self, machine: int) -> Costs:
        """Return what each machine costs as a peer of one."""
        costs = _apart(self.broader, self.broader[machine]).astype(np.int64)
        for rule, weight in self.weights.items():
            costs += weight * (self.of[rule] == self.of[rule][machine])
        costs[machine] = FORBIDDEN
        return costs

    def conflict(self) -> tuple[Rule, ...]:
        """Return the fewest rules that cannot be kept together."""
        choices = (rules for number in range(1, len(self.of) + 1) for rules in combinations(self.of, number))
        return next((rules for rules in choices if not self._can_keep(rules)), ())

    def _can_keep(self, rules: Collection[Rule]) -> bool:
        size = len(self.machines)
        if len(rules) == 1:
            (rule,) = rules
            return 2 * int(np.unique(self.of[rule], return_counts=True)[1].max()) <= size

        def costs(machine: int) -> Costs:
            forbidden = np.zeros(size, dtype=np.int64)
            for rule in rules:
                forbidden |= self.of[rule] == self.of[rule][machine]
            forbidden[machine] = FORBIDDEN
            return forbidden

        peer = assign(size, costs)
        return not any((self.of[rule] == self.of[rule][peer]).any() for rule in rules)


def _apart(domains: IntArray, other: IntArray) -> IntArray:
    """Return how many levels, of those broader than that of the rule, lie in different domains; over the last axis."""
    return np.asarray((domains != other).sum(axis=-1), dtype=np.int32)


def peer_sentence(peers: Peers, level: str | None) -> str:
    """Return the assignment in a sentence."""
    size = len(peers.peer)
    broken = ((rule, number) for rule, number in peers.broken.items() if number)
    parts = [f"{number:,} with a peer in their {_rule_name(rule, level)}" for rule, number in broken]
    if not parts:
        rack = "" if level is None else f" and no {level}"
        return f"Each of {size:,} machines has a peer that shares no PP, DP or TP group{rack} with it."
    return f"Of {size:,} machines {', '.join(parts)}; fewer are impossible."


def peer_notes(peers: Peers, level: str | None) -> tuple[str, ...]:
    """Return which rules are in conflict, how near the peers are, and what must not be lost together."""
    notes = []
    if peers.conflict:
        grid, size = peers.machines.job.grid, len(peers.peer)
        match peers.conflict:
            case ("dp",) if grid.columns == grid.parts == 1:
                why = "the job has one pipeline stage at node level, so that all its machines are in one DP group"
            case ("pp",) if grid.rows == 1:
                why = "the job has one replica at node level, so that all its machines are in one PP group"
            case ("level",):
                largest = int(np.unique(peers.domain, return_counts=True)[1].max())
                why = f"one {level} holds {largest:,} of the {size:,} machines, more than half"
            case rules:
                names = " and ".join(_rule_name(rule, level) for rule in rules)
                why = f"{names} together leave some machine without a peer of its own"
        notes.append(f"Not all rules can be kept: {why}.")
        notes.append(
            f"Rules give way in this order: {', '.join(_rule_name(rule, level) for rule in peers.shared)}; "
            f"no machine backs up itself."
        )
    far = int((peers.distance > 0).sum())
    if far:
        notes.append(f"{far:,} peers are beyond the nearest broader domain; nearer is impossible with these rules.")
    notes.append(
        f"{peers.fatal_pairs:,} pairs of machines must not be lost together; "
        f"{peers.mutual:,} machines keep the backup of their own peer."
    )
    return tuple(notes)


def _rule_name(rule: Rule, level: str | None) -> str:
    """Return what a rule forbids to share."""
    return {"dp": "DP group", "tp": "TP group", "pp": "PP group", "level": level or "rack"}[rule]
