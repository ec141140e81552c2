"""Which global rank does what, and in which order: Megatron's order of ranks and its schedules.

One representative rank stands for those that do the same; the op trace keeps its rows.  The
schedules are what the sources leave out.
Without virtual stages: one forward, one backward (1F1B, "Efficient Large-Scale Language Model Training on GPU Clusters
Using Megatron-LM", arXiv 2104.04473, figure 4).  With them, microbatches go through the chunks of a stage in groups as
large as the pipeline is deep (interleaved 1F1B, the same paper).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from health.whatif.metadata import JobSizes
from topology.errors import TooLarge

MOST_RANKS = 1 << 20

Family = Literal["self", "tp", "cp", "dp", "pp", "tail"]
"""What a set of ranks is to the job; ``tail`` spans stages and more: the groups of the end of a step."""


@dataclass(frozen=True, slots=True)
class RankLayout:
    """The grid of a job, in Megatron's order tp-cp-dp-pp: tensor-parallel ranks vary fastest, stages slowest.

    The op trace keeps one rank of each worker, the one with tensor- and sequence-parallel rank 0; what the others do
    inside a compute operation is part of its duration.

    :param dp: data-parallel ranks.
    :param dsp: ranks that share one sequence (context parallelism); called so in the metadata of the public traces.
    :param pp: pipeline stages.
    :param tp: tensor-parallel ranks.
    :param vpp: model chunks of a stage.
    """

    dp: int
    dsp: int
    pp: int
    tp: int
    vpp: int

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
        return list(range(0, self.world_size, self.dsp * self.tp))

    def family(self, ranks: Sequence[int]) -> Family:
        """Return what a process group is, from its members."""
        if len(ranks) < 2:
            return "self"
        workers = {self.worker(rank) for rank in ranks}
        replicas, stages = _distinct(workers)
        if len(workers) == 1:
            return "tp" if len({rank // self.tp for rank in ranks}) == 1 else "cp"
        if stages == 1:
            return "dp"
        if replicas == 1 and len(ranks) == len(workers):
            return "pp"
        return "tail"


def layout_of(sizes: JobSizes) -> RankLayout:
    """Return the grid that the metadata describe; a ``world_size`` of dp x pp x tp counts sequence ranks among those of
    dp.

    :raises TooLarge: more than :data:`MOST_RANKS`.
    """
    if sizes.dp * sizes.dsp * sizes.pp * sizes.tp > MOST_RANKS:
        raise TooLarge(
            f"describes more than {MOST_RANKS:,} ranks", where=sizes.source, fix="give the sizes of a job that exists"
        )
    inside = sizes.world == sizes.dp * sizes.pp * sizes.tp
    return RankLayout(dp=sizes.dp, dsp=1 if inside else sizes.dsp, pp=sizes.pp, tp=sizes.tp, vpp=sizes.vpp)


def _distinct(workers: Iterable[tuple[int, int]]) -> tuple[int, int]:
    replicas, stages = zip(*workers, strict=True)
    return len(set(replicas)), len(set(stages))


def one_forward_one_backward(*, stage: int, stages: int, microbatches: int) -> Iterator[tuple[bool, int]]:
    """Compute operations of a stage in order: (is it a forward, which microbatch)."""
    warm_up = min(stages - stage - 1, microbatches)
    yield from ((True, i) for i in range(warm_up))
    for i in range(microbatches - warm_up):
        yield True, warm_up + i
        yield False, i
    yield from ((False, i) for i in range(microbatches - warm_up, microbatches))


def interleaved(index: int, *, stages: int, chunks: int, forward: bool) -> tuple[int, int]:
    """Return chunk and microbatch of the index-th forward (or backward) of a stage with virtual stages."""
    group, inside = divmod(index, stages * chunks)
    chunk = inside // stages
    return chunk if forward else chunks - 1 - chunk, group * stages + inside % stages
