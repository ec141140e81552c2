"""The end of a step: from the last backward pass to the optimizer, with and without overlap of the reduce-scatters."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from health.whatif.optypes import GC, OPTIMIZER
from health.whatif.stage import StageOperations

Edge = tuple[int, int]


def tail_edges(stage: StageOperations) -> Iterable[Edge]:
    """Edges of the end of a step.

    Overlap of gradient reduction with the backward pass shows by ``separate-grads-all-reduce``:

    - with it, a chunk's reduce-scatter waits for the chunk's last backward pass, and the tail is
      {last reduce-scatter, gc} -> layer-norm -> embedding -> separate -> clip -> optimizer;
    - without it, last compute -> gc -> layer-norm -> embedding -> reduce-scatters -> clip -> optimizer.

    Operations that a trace does not have are passed over.
    """
    compute = [i for i in stage.streams.get("compute", ()) if stage.operations[i].optype != OPTIMIZER]
    if stage.separates:
        yield from _scatter_edges(stage)
        passes = stage.directions[1].computes[-1:] or tuple(compute[-1:])
        pauses = [i for i in compute if stage.operations[i].optype == GC]
        heads = (*stage.scatters[-1:], *(pauses[-1:] or passes))
        links = (stage.layernorms, stage.embeddings, stage.separates, stage.clips, stage.optimizers)
    else:
        heads = tuple(compute[-1:])
        links = (stage.layernorms, stage.embeddings, stage.scatters, stage.clips, stage.optimizers)
    for link in links:
        yield from ((head, link[0]) for head in heads if link)
        yield from pairwise(link)
        heads = link[-1:] or heads


def _scatter_edges(stage: StageOperations) -> Iterable[Edge]:
    scatters = stage.by_chunk(stage.scatters)
    for chunk, passes in stage.by_chunk(stage.directions[1].computes).items():
        for scatter in scatters.get(chunk, scatters.get(-1, ())):
            yield passes[-1], scatter
