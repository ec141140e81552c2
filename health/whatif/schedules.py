"""The order in which a pipeline stage computes, by the two schedules of Megatron-LM (arXiv 2104.04473).

Without virtual stages: one forward, one backward (1F1B, figure 4).  With them, microbatches go through the chunks of a
stage in groups as large as the pipeline is deep (interleaved 1F1B).
"""

from __future__ import annotations

from collections.abc import Iterator


def one_forward_one_backward(
    *, stage: int, stages: int, microbatches: int, chunks: int = 1
) -> Iterator[tuple[bool, int, int]]:
    """Yield the passes of a stage in order, warm-up, steady state, cool-down: (is it a forward, chunk, microbatch)."""
    total, later = microbatches * chunks, stages - stage - 1
    warm_up = min(later if chunks == 1 else 2 * later + (chunks - 1) * stages, total)
    for k in range(total + warm_up):
        if k < total:
            yield True, *interleaved(k, stages=stages, chunks=chunks, forward=True)
        if k >= warm_up:
            yield False, *interleaved(k - warm_up, stages=stages, chunks=chunks, forward=False)


def interleaved(index: int, *, stages: int, chunks: int, forward: bool) -> tuple[int, int]:
    """Return chunk and microbatch of the index-th forward (or backward) of a stage."""
    group, inside = divmod(index, stages * chunks)
    chunk = inside // stages
    return chunk if forward else chunks - 1 - chunk, group * stages + inside % stages
