"""Which global rank does what, in Megatron's order of ranks; one of those that do the same stands for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from health.whatif.metadata import JobSizes
from topology.errors import TooLarge

MOST_RANKS = 1 << 20

Family = Literal["self", "tp", "cp", "dp", "pp", "tail"]
"""What a set of ranks is to the job; ``tail`` spans stages and more: the groups of the end of a step."""


@dataclass(frozen=True, slots=True)
class RankLayout(JobSizes):
    """The grid of a job, in Megatron's order tp-cp-dp-pp: tensor-parallel ranks vary fastest, stages slowest.

    The op trace keeps one rank of each worker, the one with tensor- and sequence-parallel rank 0; what the others do
    inside a compute operation is part of its duration.  Ranks that share one sequence (``dsp``) are context parallel.
    """

    @property
    def world_size(self) -> int:
        """Ranks of the job."""
        return self.dp * self.dsp * self.pp * self.tp

    def worker(self, rank: int) -> tuple[int, int]:
        """Return data-parallel rank and stage of a global rank."""
        inside = rank // (self.tp * self.dsp)
        return inside % self.dp, inside // self.dp

    def is_representative(self, rank: int) -> bool:
        """Return whether a rank stands for its worker."""
        return rank % (self.tp * self.dsp) == 0

    def representative(self, dp: int, stage: int) -> int:
        """Return the global rank that stands for a worker."""
        return (stage * self.dp + dp) * self.dsp * self.tp

    def representatives(self) -> list[int]:
        """Return one global rank a worker, ascending."""
        return [rank for rank in range(self.world_size) if self.is_representative(rank)]

    def family(self, ranks: Sequence[int]) -> Family:
        """Return what a process group is, from its members."""
        if len(ranks) < 2:
            return "self"
        workers = {self.worker(rank) for rank in ranks}
        replicas, stages = (len(set(part)) for part in zip(*workers, strict=True))
        if len(workers) == 1:
            return "tp" if len({rank // self.tp for rank in ranks}) == 1 else "cp"
        if stages == 1:
            return "dp"
        return "pp" if replicas == 1 and len(ranks) == len(workers) else "tail"


def layout_of(sizes: JobSizes) -> RankLayout:
    """Return the grid that metadata describe; a world of dp x pp x tp ranks has those of sequences among those of dp.

    :raises TooLarge: more than :data:`MOST_RANKS`.
    """
    if sizes.dp * sizes.dsp * sizes.pp * sizes.tp > MOST_RANKS:
        raise TooLarge(
            f"describes more than {MOST_RANKS:,} ranks", where=sizes.source, fix="give the sizes of a job that exists"
        )
    dsp = 1 if sizes.world == sizes.dp * sizes.pp * sizes.tp else sizes.dsp
    return RankLayout(dp=sizes.dp, dsp=dsp, pp=sizes.pp, tp=sizes.tp, vpp=sizes.vpp)
