"""What names in a profiler trace mean: ranges on the host, and NCCL kernels on the device.

Three dialects of ranges, the plainest first; for each type of operation the first dialect that occurs is believed:

1. ``record_function`` ranges that are called like the operation, with attributes behind it if wanted:
   ``forward-compute``, ``backward-compute mb_id=3 mc=1``;
2. ``torch.distributed.pipelining`` schedules record ``Forward 3`` and ``Backward 3``; ``torch.optim`` records
   ``Optimizer.step#AdamW.step``; NCCL process groups record ``nccl:send 0->1`` and ``nccl:recv 1<-0``, whose numbers
   are ranks inside the group;
3. Python frames of Megatron-LM, where the profiler recorded call stacks
   (``--pytorch-profiler-collect-callstack``): ``megatron/core/pipeline_parallel/schedules.py(173): forward_step``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from health.whatif import optypes
from health.whatif.optypes import BACKWARD, BACKWARD_RECV, BACKWARD_SEND, FORWARD, FORWARD_RECV, FORWARD_SEND
from health.whatif.trace import Family

STEP = re.compile(r"ProfilerStep#(\d{1,15})\Z")  # ``torch.profiler.profile.step`` records one such range an iteration
_ATTRIBUTE = re.compile(r"\b(mb_id|mc)=(\d{1,6})\b")
_PIPELINING = re.compile(r"(Forward|Backward) (\d{1,6})\Z")
_P2P = re.compile(r"nccl:(?:send (\d{1,9})->(\d{1,9})|recv (\d{1,9})<-(\d{1,9}))\Z")
_FRAME = re.compile(r"(?:^|/)megatron/\S*?([a-z_0-9]+)\.py\(\d+\): (\w+)\Z")

# Module and function of Megatron-LM -> what it does; a combined call is several operations at once
_FRAMES: dict[tuple[str, str], tuple[str, ...]] = {
    ("schedules", "forward_step"): (FORWARD,),
    ("schedules", "backward_step"): (BACKWARD,),
    ("p2p_communication", "recv_forward"): (FORWARD_RECV,),
    ("p2p_communication", "recv_backward"): (BACKWARD_RECV,),
    ("p2p_communication", "send_forward"): (FORWARD_SEND,),
    ("p2p_communication", "send_backward"): (BACKWARD_SEND,),
    ("p2p_communication", "send_forward_recv_backward"): (FORWARD_SEND, BACKWARD_RECV),
    ("p2p_communication", "send_backward_recv_forward"): (BACKWARD_SEND, FORWARD_RECV),
    ("p2p_communication", "send_forward_recv_forward"): (FORWARD_SEND, FORWARD_RECV),
    ("p2p_communication", "send_backward_recv_backward"): (BACKWARD_SEND, BACKWARD_RECV),
    ("p2p_communication", "send_forward_backward_recv_forward_backward"): optypes.PIPELINE,
    ("finalize_model_grads", "_allreduce_layernorm_grads"): (optypes.LAYERNORM,),
    ("finalize_model_grads", "_allreduce_non_tensor_model_parallel_grads"): (optypes.LAYERNORM,),
    ("finalize_model_grads", "_allreduce_word_embedding_grads"): (optypes.EMBEDDING,),
    ("clip_grads", "get_grad_norm_fp32"): (optypes.CLIP,),
}

# Descriptions that Megatron-LM (``group_desc``) and device meshes give their process groups, first match wins
FAMILIES: tuple[tuple[re.Pattern[str], Family | str], ...] = (
    (re.compile(r"EMBEDDING_GROUP\Z"), "embedding"),
    (re.compile(r"POSITION_EMBEDDING_GROUP"), "other"),
    (re.compile(r"(INTRA_PARTIAL_)?DATA_PARALLEL_GROUP|mesh_(dp|fsdp|hsdp)"), "dp"),
    (re.compile(r"PIPELINE_MODEL_PARALLEL_GROUP|mesh_pp"), "pp"),
    (re.compile(r"TENSOR_MODEL_PARALLEL_GROUP|mesh_tp"), "tp"),
    (re.compile(r"CONTEXT_PARALLEL_GROUP|mesh_cp"), "cp"),
    (re.compile(r"MODEL_PARALLEL_GROUP|INTRA_DISTRIBUTED_OPTIMIZER|default_pg"), "tail"),
)

_KERNELS = (("allgather", "all-gather"), ("reducescatter", "reduce-scatter"), ("allreduce", "all-reduce"))


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a range stands for."""

    dialect: int  # 1 to 3, see the module; the smallest that occurs is believed
    optypes: tuple[str, ...]  # several for a combined call
    microbatch: int = -1  # -1 = not said, the order says it
    chunk: int = -1  # -1 = not said


def meaning_of(name: str, *, stages: int) -> Meaning | None:
    """Return what a host range stands for, None = nothing that is known.

    :param stages: pipeline stages; ``nccl:send`` between neighbours is forward or backward by its direction.
    """
    plain = name.split(maxsplit=1)[0] if name else ""
    if plain in optypes.OPTYPES:
        said = {key: int(value) for key, value in _ATTRIBUTE.findall(name)}
        return Meaning(1, (plain,), said.get("mb_id", -1), said.get("mc", -1))
    if found := _PIPELINING.match(name):
        return Meaning(2, (FORWARD if found[1] == "Forward" else BACKWARD,), int(found[2]))
    if name.startswith("Optimizer.step#"):
        return Meaning(2, (optypes.OPTIMIZER,))
    if found := _P2P.match(name):
        return _neighbours(found, stages)
    if found := _FRAME.search(name):
        combined = _FRAMES.get((found[1], found[2]))
        return Meaning(3, combined) if combined else None
    return None


def _neighbours(found: re.Match[str], stages: int) -> Meaning | None:
    here, there = (int(rank) for rank in found.groups() if rank is not None)
    names = {1: FORWARD_SEND, -1: BACKWARD_SEND} if found[1] is not None else {-1: FORWARD_RECV, 1: BACKWARD_RECV}
    step = there - here
    return Meaning(2, (names[step],)) if step in names and max(here, there) < stages else None


def described_family(description: str) -> str:
    """Return what a process group is by its description, ``""`` = it does not say."""
    return next((family for pattern, family in FAMILIES if pattern.match(description)), "")


def collective_of(kernel: str, collective: str) -> str:
    """Return ``all-gather``, ``reduce-scatter``, ``all-reduce`` or ``other``, by the recorded or the kernel's name."""
    text = (collective or kernel).lower().replace("_", "").replace("-", "")
    return next((plain for key, plain in _KERNELS if key in text), "other")
