"""The operations of a training step, by the names of the trace format (arXiv 2505.05713)."""

from __future__ import annotations

from collections.abc import Mapping

from health.whatif.analysis_result import Stream

FORWARD, BACKWARD = "forward-compute", "backward-compute"
GC, OPTIMIZER = "gc", "optimizer"
FORWARD_SEND, FORWARD_RECV = "forward-send", "forward-recv"
BACKWARD_SEND, BACKWARD_RECV = "backward-send", "backward-recv"
ALL_GATHER, REDUCE_SCATTER = "params-all-gather", "grads-reduce-scatter"
LAYERNORM, EMBEDDING = "layernorm-grads-all-reduce", "embedding-grads-all-reduce"
SEPARATE, CLIP = "separate-grads-all-reduce", "optimizer-clip-main-grad"

COMPUTE = (FORWARD, BACKWARD, GC, OPTIMIZER)
PIPELINE: tuple[Stream, ...] = ("forward-send", "forward-recv", "backward-send", "backward-recv")
COLLECTIVE = (ALL_GATHER, REDUCE_SCATTER, LAYERNORM, EMBEDDING, SEPARATE, CLIP)

OPTYPES = (*COMPUTE, *PIPELINE, *COLLECTIVE)  # All of them; an operation type's number is its place here
CODE: Mapping[str, int] = {name: code for code, name in enumerate(OPTYPES)}

SENDS = (FORWARD_SEND, BACKWARD_SEND)

JOINED = frozenset({ALL_GATHER, REDUCE_SCATTER, SEPARATE, CLIP})
"""Transfers that all data-parallel ranks take part in.  The all-reduces of layer-norm and embedding gradients do not:
in the published traces their ends differ from rank to rank."""


def stream_of(optype: str) -> Stream:
    """Return the serial queue of the worker that an operation stands in."""
    if optype in COMPUTE:
        return "compute"
    return next((stream for stream in PIPELINE if stream == optype), "dp-comm")


def reported(optype: str) -> str:
    """Return the name under which an operation's cost is reported: a send and its receive are one transfer."""
    return f"{optype.partition('-')[0]}-pp-comm" if optype in PIPELINE else optype
