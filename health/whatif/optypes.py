"""The operations of a training step, by the names of the trace format (arXiv 2505.05713), and the order of its passes.

Schedules are those of Megatron-LM (arXiv 2104.04473).  Without virtual stages: one forward, one backward (1F1B,
figure 4).  With them, microbatches go through the chunks of a stage in groups as large as the pipeline is deep.  In a V
schedule (ZB-V, arXiv 2405.15362; DualPipeV) every second chunk runs back: the last rank hands over to itself.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from health.whatif.analysis_result import Stream

FORWARD, BACKWARD = "forward-compute", "backward-compute"
GC, OPTIMIZER = "gc", "optimizer"
# The half of a backward pass, for its weights, that a zero-bubble schedule puts off (arXiv 2401.10241)
WEIGHT = "weight-grad-compute"
FORWARD_SEND, FORWARD_RECV = "forward-send", "forward-recv"
BACKWARD_SEND, BACKWARD_RECV = "backward-send", "backward-recv"
ALL_GATHER, REDUCE_SCATTER = "params-all-gather", "grads-reduce-scatter"
LAYERNORM, EMBEDDING = "layernorm-grads-all-reduce", "embedding-grads-all-reduce"
SEPARATE, CLIP = "separate-grads-all-reduce", "optimizer-clip-main-grad"

COMPUTE = (FORWARD, BACKWARD, GC, OPTIMIZER, WEIGHT)
PIPELINE: tuple[Stream, ...] = ("forward-send", "forward-recv", "backward-send", "backward-recv")
COLLECTIVE = (ALL_GATHER, REDUCE_SCATTER, LAYERNORM, EMBEDDING, SEPARATE, CLIP)

# Collectives of context- and expert-parallel groups: inside a pass, which computes nothing meanwhile
INSIDE = tuple(
    f"{group}-{what}"
    for group in ("cp", "ep")
    for what in ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send-recv")
)

OPTYPES = (*COMPUTE, *PIPELINE, *COLLECTIVE, *INSIDE)  # All of them; an operation type's number is its place here
CODE: Mapping[str, int] = {name: code for code, name in enumerate(OPTYPES)}

SENDS = (FORWARD_SEND, BACKWARD_SEND)

# Transfers that all data-parallel ranks take part in.  The all-reduces of layer-norm and embedding gradients do not:
# in the published traces their ends differ from rank to rank.
JOINED = frozenset({ALL_GATHER, REDUCE_SCATTER, SEPARATE, CLIP})


def stream_of(optype: str) -> Stream:
    """Return the serial queue of the worker that an operation stands in."""
    if optype in COMPUTE or optype in INSIDE:
        return "compute"
    return next((stream for stream in PIPELINE if stream == optype), "dp-comm")


def reported(optype: str) -> str:
    """Return the name under which an operation's cost is reported: a send and its receive are one transfer."""
    return f"{optype.partition('-')[0]}-pp-comm" if optype in PIPELINE else optype


class Parts(NamedTuple):
    """The parts of a model along its forward pass, several of which may be chunks of one stage."""

    stages: int
    chunks: int = 1  # of a stage
    v_schedule: bool = False  # whether every second chunk runs back along the pipeline

    def of(self, stage: int, chunk: int) -> int:
        """Return which part a chunk of a stage is."""
        back = self.v_schedule and chunk % 2
        return chunk * self.stages + (self.stages - 1 - stage if back else stage)

    def has_transfer(self, part: int, to: int) -> bool:
        """Return whether something goes from a part to its neighbour, and from rank to rank."""
        inside = 0 <= to < self.stages * self.chunks
        return inside and not (self.v_schedule and part // self.stages != to // self.stages)


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
