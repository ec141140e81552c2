"""The simulated job: ranks on a grid of data, tensor and pipeline parallelism, its groups, and faults of a rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from health.collectives.recording import Member, RankGroup

FaultKind = Literal[
    "sender-stuck",
    "receiver-stuck",
    "slow-nic",
    "slow-gpu",
    "not-launched",
    "crossed-order",
    "gpu-stuck",
    "receiver-not-posting",
]

FAULTS: tuple[FaultKind, ...] = get_args(FaultKind)
"""The six that matter most, a GPU that stops inside a collective, and a receiver that no longer makes room: on one flow
the last looks exactly as a sender that is stuck.
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault."""

    kind: FaultKind
    rank: int  # The rank that it hits
    # Seconds from the start of the run. What happens at a launch happens at the next one: `not-launched` never
    # launches again, `crossed-order` swaps two collectives of the next step.
    time: float
    factor: float = 8.0  # Of the slow ones: by how much


Algorithm = Literal["ring", "tree"]


@dataclass(frozen=True, slots=True)
class BenchJob:
    """Sizes and speeds."""

    dp: int = 4
    tp: int = 2
    pp: int = 2
    microbatches: int = 2
    algorithm: Algorithm = "ring"
    # Channels of a group; every second one runs against the order of the others, as rings over several network
    # cards do
    rings: int = 2
    compute: float = 0.1  # Seconds of a microbatch's forward pass; a backward pass takes twice that
    noise: float = 0.05  # Spread of the compute times, relative
    gpus_per_node: int = 2  # Ranks on a node; at least `tp`, which never leaves it

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.dp * self.tp * self.pp

    def rank(self, *, d: int, t: int, s: int) -> int:
        """Megatron's order: tensor, data, pipeline, the first fastest."""
        return (s * self.dp + d) * self.tp + t

    def node(self, rank: int) -> int:
        """The node of a rank."""
        return rank // self.gpus_per_node

    def members(self) -> tuple[Member, ...]:
        """All ranks with their hosts."""
        return tuple(Member(f"rank {r}", r, f"n{self.node(r):04}") for r in range(self.ranks))

    def groups(self) -> tuple[RankGroup, ...]:
        """All communicators: two over each data-parallel group, one over each tensor-parallel group, one over each pair
        of neighbouring stages.
        """
        return tuple(group for group, _ in self._numbered())

    def _numbered(self) -> Iterator[tuple[RankGroup, tuple[str, int, int]]]:
        for s in range(self.pp):
            for t in range(self.tp):
                ranks = tuple(self.rank(d=d, t=t, s=s) for d in range(self.dp))
                for name in ("grads", "params") if self.dp > 1 else ():
                    yield RankGroup(f"dp-{name}-s{s}-t{t}", "dp", ranks), (name, s, t)
            for d in range(self.dp if self.tp > 1 else 0):
                ranks = tuple(self.rank(d=d, t=t, s=s) for t in range(self.tp))
                yield RankGroup(f"tp-s{s}-d{d}", "tp", ranks), ("tp", s, d)
        for s in range(self.pp - 1):
            for d in range(self.dp):
                for t in range(self.tp):
                    pair = (self.rank(d=d, t=t, s=s), self.rank(d=d, t=t, s=s + 1))
                    yield RankGroup(f"pp-s{s}-d{d}-t{t}", "pp", pair), ("pp", s, d * self.tp + t)

    def step(self, rank: int) -> list[Act]:
        """What a rank does in one training step, in order."""
        s, d, t = rank // (self.dp * self.tp), rank // self.tp % self.dp, rank % self.tp
        number = {key: i for i, (_, key) in enumerate(self._numbered())}
        before, after = number.get(("pp", s - 1, d * self.tp + t)), number.get(("pp", s, d * self.tp + t))
        tensor = number.get(("tp", s, d))
        acts: list[Act] = []
        for op, work, source, sink in (("forward", 1, before, after), ("backward", 2, after, before)):
            for _ in range(self.microbatches):
                acts += [Act(source, op)] if source is not None else []
                acts += [Act(None, "compute", work * self.compute)]
                acts += [Act(tensor, "AllReduce")] if tensor is not None else []
                acts += [Act(sink, op)] if sink is not None else []
        if self.dp > 1:
            acts += [Act(number["grads", s, t], "ReduceScatter"), Act(number["params", s, t], "AllGather")]
        return acts


class Act(NamedTuple):
    """One thing a rank does.

    :param group: index of the communicator of a collective; ``None`` = compute.
    :param seconds: of compute.
    """

    group: int | None
    op: str
    seconds: float = 0.0
