"""In which order a stage of a pipeline computes: Megatron-LM's schedules, which the sources leave out.

Without virtual stages: one forward, one backward (1F1B, "Efficient Large-Scale Language Model Training on GPU Clusters
Using Megatron-LM", arXiv 2104.04473, figure 4).  With them, microbatches go through the chunks of a stage in groups as
large as the pipeline is deep (interleaved 1F1B, the same paper).
"""

from __future__ import annotations

from collections.abc import Iterator


def one_forward_one_backward(*, stage: int, stages: int, microbatches: int) -> Iterator[tuple[bool, int]]:
    """Compute operations of a stage in order: (is it a forward, which microbatch)."""
    warm_up = min(stages - stage - 1, microbatches)
    yield from ((True, i) for i in range(warm_up))
    for i in range(microbatches - warm_up):
        yield True, warm_up + i
        yield False, i
    yield from ((False, i) for i in range(microbatches - warm_up, microbatches))


def interleaved(index: int, *, stages: int, chunks: int, forward: bool) -> tuple[int, int]:
    """Chunk and microbatch of the index-th forward (or backward) of a stage with virtual stages."""
    group, inside = divmod(index, stages * chunks)
    chunk = inside // stages
    return chunk if forward else chunks - 1 - chunk, group * stages + inside % stages
