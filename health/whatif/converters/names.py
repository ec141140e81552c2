"""What names in a profiler trace mean: ranges on the host, and NCCL kernels on the device.

Dialects of ranges, the plainest first; for each type of operation the first dialect that occurs is believed:

1. ``record_function`` ranges that are called like the operation, with attributes behind it if wanted:
   ``forward-compute``, ``backward-compute mb_id=3 mc=1``;
2. ``torch.distributed.pipelining`` schedules record ``Forward 3`` and ``Backward 3`` (GPipe), or ``PP:`` and an action,
   its stage counted along the model: ``PP:2F3``, ``PP:2SEND_F3``, ``PP:2UNSHARD`` (all that run several stages a rank),
   two passes in one range: ``PP:(0F3;1B2)OVERLAP_F_B``;
   ``torch.optim`` records ``Optimizer.step#AdamW.step``; process groups record ``nccl:send 0->1`` and
   ``nccl:recv 1<-0``, whose numbers are ranks inside the group, some of them without ranks: ``gloo:send``;
3. functions of Megatron-LM and DeepSpeed, as Python frames where the profiler recorded call stacks
   (``megatron/core/pipeline_parallel/schedules.py(173): forward_step``) or as ranges called like the function;
4. ``## forward ##`` and ``## backward ##`` of TorchRec and of many training loops;
5. wrappers of modules: ``DistributedDataParallel.forward``, ``FullyShardedDataParallel.forward``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from health.whatif import optypes
from health.whatif.optypes import BACKWARD, BACKWARD_RECV, BACKWARD_SEND, FORWARD, FORWARD_RECV, FORWARD_SEND, WEIGHT
from health.whatif.trace import Family

STEP = re.compile(r"ProfilerStep#(\d{1,15})\Z")  # ``torch.profiler.profile.step`` records one such range an iteration
# What autograd records while it runs backward; before PyTorch 1.10 the bare names of its nodes
AUTOGRAD = re.compile(r"autograd::engine::evaluate_function: |torch::autograd::AccumulateGrad\Z|\w+Backward\d*\Z")
LOADS_DATA = "enumerate(DataLoader)#"  # How the range of a batch that is loaded begins
WHOLE_MODEL = 4  # From this dialect on ranges stand for the whole model of a rank, have no number and may be nested
SEND, RECEIVE = "send", "recv"  # Transfers whose direction is told by the passes beside them
_ATTRIBUTE = re.compile(r"\b(mb_id|mc)=(\d{1,6})\b")
_PIPELINING = re.compile(r"(Forward|Backward) (\d{1,6})\Z")
_ACTION = re.compile(r"PP:(\d{1,6})([A-Z]+(?:_[FB](?=\d)|_GRAD)?)(\d{1,6})?\Z")
_OVERLAPPED = re.compile(r"PP:\((\d{1,6}[FBI]\d{1,6});(\d{1,6}[FBI]\d{1,6})\)OVERLAP_F_B\Z")
_CALL = re.compile(r"([a-z][a-z0-9_-]*):([a-z_]+)(?: (?:(\d{1,9})->(\d{1,9})|(\d{1,9})<-(\d{1,9}|\?)))?\Z")
_FRAME = re.compile(r"(?:^|/)(?:megatron|deepspeed)/\S*?([a-z_0-9]+)\.py\(\d+\): (\w+)\Z")
_QUALIFIED = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)\Z")
_DEVICE_BACKENDS = re.compile(r"[nrhxec]ccl|cncl")

# Action of a pipeline schedule of PyTorch -> what it does
_ACTIONS = {
    "F": FORWARD, "B": BACKWARD, "I": BACKWARD, "W": WEIGHT,
    "SEND_F": FORWARD_SEND, "RECV_F": FORWARD_RECV, "SEND_B": BACKWARD_SEND, "RECV_B": BACKWARD_RECV,
    "UNSHARD": optypes.ALL_GATHER, "REDUCE_GRAD": optypes.REDUCE_SCATTER,
}  # fmt: skip
# Module and function -> what it does; a combined call is several operations at once
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
    # DeepSpeed's pipeline engine: runtime/pipe/engine.py
    ("engine", "_exec_forward_pass"): (FORWARD,),
    ("engine", "_exec_backward_pass"): (BACKWARD,),
    ("engine", "_exec_recv_activations"): (FORWARD_RECV,),
    ("engine", "_exec_recv_grads"): (BACKWARD_RECV,),
    ("engine", "_exec_send_activations"): (FORWARD_SEND,),
    ("engine", "_exec_send_grads"): (BACKWARD_SEND,),
    ("engine", "_exec_reduce_grads"): (optypes.REDUCE_SCATTER,),
    ("engine", "_exec_reduce_tied_grads"): (optypes.EMBEDDING,),
    ("engine", "_exec_optimizer_step"): (optypes.OPTIMIZER,),
}
_FUNCTIONS = {function: meant for (_, function), meant in _FRAMES.items()}
# Ranges around the whole model of a rank -> dialect and what they are
_WHOLE_MODEL: dict[str, tuple[int, str]] = {
    "## forward ##": (4, FORWARD),
    "## backward ##": (4, BACKWARD),
    "## optimizer ##": (4, optypes.OPTIMIZER),
    "DistributedDataParallel.forward": (5, FORWARD),
    "FullyShardedDataParallel.forward": (5, FORWARD),
    "DeepSpeedEngine.forward": (5, FORWARD),
    "DeepSpeedEngine.backward": (5, BACKWARD),
    "DeepSpeedEngine.step": (5, optypes.OPTIMIZER),
}

# Descriptions that Megatron-LM (``group_desc``), device meshes and loops of people's own (``dp0``) give their process
# groups, first match wins
FAMILIES: tuple[tuple[re.Pattern[str], Family | str], ...] = (
    (re.compile(r"EXPERT_(TENSOR_AND_)?MODEL_PARALLEL_GROUP|(mesh_)?(ep|expert_parallel)(?![a-z])"), "ep"),
    (re.compile(r"EMBEDDING_GROUP\Z"), "embedding"),
    (re.compile(r"POSITION_EMBEDDING_GROUP"), "other"),
    (re.compile(r"(INTRA_PARTIAL_)?DATA_PARALLEL_GROUP|(mesh_)?(dp|ddp|fsdp|hsdp|data_parallel)(?![a-z])"), "dp"),
    (re.compile(r"PIPELINE_MODEL_PARALLEL_GROUP|(mesh_)?(pp|pipe|pipeline|pipeline_parallel)(?![a-z])"), "pp"),
    (re.compile(r"TENSOR_MODEL_PARALLEL_GROUP|(mesh_)?(tp|tensor_parallel)(?![a-z])"), "tp"),
    (re.compile(r"CONTEXT_PARALLEL_GROUP|(mesh_)?(cp|context_parallel)(?![a-z])"), "cp"),
    (re.compile(r"MODEL_PARALLEL_GROUP|INTRA_DISTRIBUTED_OPTIMIZER|default_pg"), "tail"),
)

# A kernel of sends and receives that does not say what it serves is an all-to-all, outside pipelines
_COLLECTIVES = (
    ("allgather", "all-gather"), ("reducescatter", "reduce-scatter"), ("allreduce", "all-reduce"),
    ("alltoall", "all-to-all"), ("sendrecv", "all-to-all"), ("barrier", "barrier"),
)  # fmt: skip
OTHER = "other"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a range stands for."""

    dialect: int  # 1 to 5, see the module; the smallest that occurs is believed
    optypes: tuple[str, ...]  # several for a combined call
    microbatch: int = -1  # -1 = not said, the order says it
    chunk: int = -1  # -1 = not said
    part: int = -1  # stage counted along the model, over all chunks; -1 = not said
    then: Meaning | None = None  # a pass of the other direction that follows in the same range
    staged: bool = False  # only a schedule of pipeline stages records it


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call of a process group on the host."""

    backend: str  # nccl, gloo, ...
    collective: str  # all-reduce, ...; "other" = none that all ranks wait in

    @property
    def on_device(self) -> bool:
        """Return whether the call only launches what then runs on a device."""
        return _DEVICE_BACKENDS.search(self.backend) is not None


@lru_cache(1 << 16)
def meaning_of(name: str, *, stages: int) -> Meaning | None:
    """Return what a host range stands for, None = nothing that is known.

    :param stages: pipeline stages; ``nccl:send`` between neighbours is forward or backward by its direction.
    """
    plain = name.split(maxsplit=1)[0] if name else ""
    if plain in optypes.OPTYPES:
        numbers = {key: int(value) for key, value in _ATTRIBUTE.findall(name)}
        return Meaning(1, (plain,), numbers.get("mb_id", -1), numbers.get("mc", -1))
    if match := _PIPELINING.match(name):
        return Meaning(2, (FORWARD if match[1] == "Forward" else BACKWARD,), int(match[2]), staged=True)
    if (match := _ACTION.match(name)) and match[2] in _ACTIONS:
        part = int(match[1])
        return Meaning(2, (_ACTIONS[match[2]],), int(match[3] or -1), part // stages, part, staged=True)
    if match := _OVERLAPPED.match(name):
        first, then = (meaning_of(f"PP:{action}", stages=stages) for action in match.groups())
        return replace(first, then=then) if first and then and first.optypes != then.optypes else None
    if name.startswith("Optimizer.step#"):
        return Meaning(2, (optypes.OPTIMIZER,))
    if stages == 1 and name in _WHOLE_MODEL:
        dialect, optype = _WHOLE_MODEL[name]
        return Meaning(dialect, (optype,))
    if (match := _CALL.match(name)) and match[2] in (SEND, RECEIVE):
        if stages == 1:
            return None
        ranks = match.groups()[2:]
        here, there = (ranks[0], ranks[1]) if ranks[0] is not None else (ranks[2], ranks[3])
        if here is None or there is None or there == "?":
            return Meaning(2, (match[2],))
        optypes_by_step = (
            {1: FORWARD_SEND, -1: BACKWARD_SEND} if match[2] == SEND else {-1: FORWARD_RECV, 1: BACKWARD_RECV}
        )
        step = int(there) - int(here)
        inside = step in optypes_by_step and max(int(here), int(there)) < stages
        return Meaning(2, (optypes_by_step[step],)) if inside else None
    if match := _FRAME.search(name):
        combined = _FRAMES.get((match[1], match[2]))
        return Meaning(3, combined) if combined else None
    if (match := _QUALIFIED.match(name)) and match[1] in _FUNCTIONS:
        return Meaning(3, _FUNCTIONS[match[1]])
    return None


@lru_cache(1 << 16)
def host_call(name: str) -> HostCall | None:
    """Return the call of a process group that a range is, such as ``gloo:all_reduce``; None = it is none."""
    match = _CALL.match(name)
    if match is None or "::" in name:
        return None
    return HostCall(match[1], collective_of("", match[2]))


def hop_of(name: str) -> int | None:
    """Return how many ranks of its group a transfer goes, as ``nccl:send 0->2``; 0 = not said, None = it is none."""
    match = _CALL.match(name)
    if match is None or match[2] not in (SEND, RECEIVE):
        return None
    here, there = (match[3], match[4]) if match[3] is not None else (match[5], match[6])
    return abs(int(there) - int(here)) if here and there and there != "?" else 0


def described_family(description: str) -> str:
    """Return what a process group is by its description, ``""`` = it does not say."""
    return next((family for pattern, family in FAMILIES if pattern.match(description)), "")


def collective_of(kernel: str, collective: str) -> str:
    """Return ``all-gather``, ``reduce-scatter``, ... or ``other``, by the recorded or the kernel's name."""
    text = (collective or kernel).lower().replace("_", "").replace("-", "")
    return next((plain for key, plain in _COLLECTIVES if key in text), OTHER)
