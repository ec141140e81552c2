"""The built-in characterisation table: what aligning DP groups, or PP groups, was measured to bring.

Source of all gains: the Arnold paper, arXiv 2509.15940, and its NeurIPS 2025 camera-ready.  The paper gives sizes and
gains, not the shapes of its models; each record says what had to be inferred.  Measure your own jobs and add them with
``--records FILE`` (docs/job.md): a handful of points cannot characterise every model.
"""

from __future__ import annotations

from scheduler.affinity import Experts, Model, Record
from scheduler.job import Parallelism

_GRID = Parallelism(tp=4, pp=2, dp=12)
_EXPERT_GRID = Parallelism(tp=4, ep=4, pp=2, dp=12)
_DENSE_24B = Model(hidden=6144, layers=52, vocab=64_000, sequence_length=4096)
_SHAPES = "the model's shape and the split of 96 GPUs (tp 4, pp 2, dp 12, as in the paper's setting (i))"


def _deeper(factor: float) -> Model:
    return Model(hidden=6144, layers=int(52 * factor), vocab=64_000, sequence_length=4096)


RECORDS: tuple[Record, ...] = (
    Record(
        name="24B dense on H800",
        gpu="H800",
        model=_DENSE_24B,
        parallelism=_GRID,
        dp_gain=0.0,
        pp_gain=2.3,
        published="96 GPUs over 2 minipods: PP-aligned +2.3 %; alpha 0 was used",
        inferred=f"{_SHAPES}; no DP gain, from alpha 0",
    ),
    Record(
        name="24B dense with twice the layers on H800",
        gpu="H800",
        model=_deeper(2),
        parallelism=_GRID,
        dp_gain=0.0,
        pp_gain=2.9,
        published="layers x2: PP-aligned +2.9 %",
        inferred=f"{_SHAPES}; no DP gain, as for the model it was made from",
    ),
    Record(
        name="24B dense with 3.5 times the layers on H800",
        gpu="H800",
        model=_deeper(3.5),
        parallelism=_GRID,
        dp_gain=0.0,
        pp_gain=3.4,
        published="layers x3.5: PP-aligned +3.4 %",
        inferred=f"{_SHAPES}; no DP gain, as for the model it was made from",
    ),
    Record(
        name="24B MoE on H800",
        gpu="H800",
        model=Model(hidden=2560, layers=28, vocab=64_000, sequence_length=4096, moe=Experts(experts=16, top_k=2)),
        parallelism=_EXPERT_GRID,
        dp_gain=1.8 * 3 / 7,
        pp_gain=1.8,
        published="96 GPUs over 2 minipods: PP-aligned +1.8 %; alpha 0.3 was used",
        inferred=f"{_SHAPES} with 16 experts, top 2, ep 4; the DP gain, from alpha 0.3",
    ),
    Record(
        name="7B dense on L20",
        gpu="L20",
        model=Model(hidden=4096, layers=32, vocab=32_000, sequence_length=4096),
        parallelism=_GRID,
        dp_gain=1.4,
        pp_gain=0.0,
        published="wants DP alignment, +1.4 %",
        inferred=f"{_SHAPES}; no PP gain, as none is given",
    ),
    Record(
        name="14B dense on L20",
        gpu="L20",
        model=Model(hidden=5120, layers=40, vocab=32_000, sequence_length=4096),
        parallelism=_GRID,
        dp_gain=0.0,
        pp_gain=0.5,
        published="wants PP alignment, +0.5 %",
        inferred=f"{_SHAPES}; no DP gain, as none is given",
    ),
)
