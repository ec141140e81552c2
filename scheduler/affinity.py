"""Alpha and beta of a job: how much it gains from aligning its DP groups, and its PP groups.

What is known is what the job says, else what its model gives, else the default: one rule for job files, gangs on
Kubernetes, replays and questions of capacity (:func:`job_affinity`).

From a model: the Arnold paper (arXiv 2509.15940, section 5.2 and appendix) derives two ratios of a job from its
communication volumes and looks up the nearest measured job in a characterisation table; alpha is the share that DP
alignment has in its gains.  There is no interpolation.  The paper takes the Euclidean distance of (r1, r2), in which
r2, a few hundred times larger, decides alone.  Here the distance is taken of (ln r1, ln r2): both are ratios, and twice
as much is as far away as half as much.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from math import hypot, log
from typing import Annotated

from annotated_types import Interval

from ground.errors import InvalidJob, did_you_mean
from ground.records import AsWritten, JsonRecord
from scheduler.job import DEFAULT_ALPHA, DEFAULT_SPREAD_COST, Parallelism

LARGEST = 10**12  # No size in a job file is larger; keeps products of a few of them within a float
Size = Annotated[int, AsWritten(), Interval(ge=1, le=LARGEST)]


class Experts(JsonRecord):
    """Mixture of experts in place of the dense MLP of each layer."""

    experts: Size
    """Experts of a layer."""
    top_k: Size = 2
    """Experts that compute one token."""
    ffn_hidden: Size | None = None
    """Inner width of an expert of two matrices; null = 4 * hidden."""


class Model(JsonRecord):
    """Shape of a GPT-like model and how it is trained, from which alpha is derived."""

    hidden: Size
    """Hidden width h, values."""
    layers: Size
    """Layers l."""
    vocab: Size
    """Vocabulary V, tokens."""
    sequence_length: Size
    """Sequence length s, tokens."""
    micro_batch: Size = 1
    """Sequences of a microbatch, mb."""
    global_batch: Size | None = None
    """Sequences of a step, gb; null = not known, and so is the number of microbatches."""
    gpu: str | None = None
    """Type of GPU, to look up records of the same; null = any."""
    moe: Experts | None = None
    """Experts in place of the dense MLP; null = it is dense."""
    bytes_per_value: Size = 2
    """Bytes of a weight, gradient or activation on the wire; 2 = bf16."""


@dataclass(frozen=True, slots=True)
class Volumes:
    """What one pipeline stage of one replica holds and sends, in bytes."""

    weights: float  # v_w, weights that compute a token
    dp: float  # v_d, gradients reduced in a step
    pp: float  # v_p, activations sent to the next stage for one microbatch
    micro_batch: int = 1

    @property
    def r1(self) -> float:
        """Computation to communication: ``mb * v_w / (v_d + v_p)``."""
        return self.micro_batch * self.weights / (self.dp + self.pp)

    @property
    def r2(self) -> float:
        """DP to PP communication: ``v_d / v_p``."""
        return self.dp / self.pp


@dataclass(frozen=True, slots=True)
class Gains:
    """What aligning the groups of jobs was measured to bring; on its own, of all jobs that it is given for."""

    name: str
    _: KW_ONLY
    dp_gain: float  # throughput gained by aligning DP groups, percent, at least 0
    pp_gain: float  # the same for PP groups; not both 0
    published: str  # what the source says, and which source
    dp_band: tuple[float, float] | None = None  # 95 % interval of dp_gain; None = not known
    pp_band: tuple[float, float] | None = None  # the same of pp_gain

    @property
    def alpha(self) -> float:
        """``j_dp / (j_dp + j_pp)``."""
        return self.dp_gain / (self.dp_gain + self.pp_gain)

    @property
    def spread_cost(self) -> float:
        """What the spread of both families over two domains costs, as a share of the step: ``j_dp + j_pp``."""
        return (self.dp_gain + self.pp_gain) / 100.0

    @property
    def spread_cost_band(self) -> tuple[float, float] | None:
        """The least and the most that the bands of both gains allow; ``None`` = they are not known."""
        if self.dp_band is None or self.pp_band is None:
            return None
        return (self.dp_band[0] + self.pp_band[0]) / 100.0, (self.dp_band[1] + self.pp_band[1]) / 100.0

    @property
    def said(self) -> str:
        """Both gains with their bands, in words."""
        both = ("DP", self.dp_gain, self.dp_band), ("PP", self.pp_gain, self.pp_band)
        return ", ".join(
            f"{family} alignment {gain:+.2g} %" + ("" if band is None else f" ({band[0]:.2g} to {band[1]:.2g})")
            for family, gain, band in both
        )


@dataclass(frozen=True, slots=True)
class Record(Gains):
    """One measured job of the characterisation table: the gains of jobs of its kind."""

    gpu: str
    model: Model
    parallelism: Parallelism
    _: KW_ONLY
    inferred: str = ""  # what had to be assumed to make it a record


@dataclass(frozen=True, slots=True)
class DerivedAlpha:
    """The answer, the nearest record, and a sentence for the user."""

    alpha: float
    volumes: Volumes
    record: Record
    reason: str


def volumes(model: Model, parallelism: Parallelism) -> Volumes:
    """Return communication volumes of one stage (paper, appendix).

    DP: ``h (V + s) + (l / pp) (4h^2 + 2h + 8h^2 + 7h)`` parameters, the last two terms being the MLP.  With experts
    they become the layer norm, the router and ``E / ep`` experts of two matrices, of which ``top_k`` compute a token
    (ours: the paper leaves experts out).  PP: ``mb * s * h`` values, cut by context parallelism (ours again).

    A 7B model (h 4096, l 32, V 32000, s 4096, pp 8) has a DP volume of about 2 GB and a PP volume of about 30 MB.
    """
    h, stage_layers = model.hidden, model.layers / parallelism.pp
    outside = h * (model.vocab + model.sequence_length) + stage_layers * (4 * h**2 + 2 * h)
    # parameters of a layer's MLP: those with gradients to reduce, and those that compute a token
    reduced = active = float(8 * h**2 + 7 * h)
    if model.moe is not None:
        inner = model.moe.ffn_hidden or 4 * h
        expert = 2 * h * inner + inner + h
        shared = 2 * h + h * model.moe.experts
        reduced = shared + expert * model.moe.experts / parallelism.ep
        active = shared + expert * model.moe.top_k
    activations = model.micro_batch * model.sequence_length * h / parallelism.cp
    return Volumes(
        weights=model.bytes_per_value * (outside + stage_layers * active),
        dp=model.bytes_per_value * (outside + stage_layers * reduced),
        pp=model.bytes_per_value * activations,
        micro_batch=model.micro_batch,
    )


def model_microbatches(model: Model, parallelism: Parallelism) -> int | None:
    """Return ``m = gb / (mb * dp)``, ``None`` without a global batch; raise InvalidJob: the batch does not divide."""
    if model.global_batch is None:
        return None
    together = model.micro_batch * parallelism.dp
    if model.global_batch % together:
        raise InvalidJob(
            f"a global batch of {model.global_batch} does not divide into {parallelism.dp} replicas with microbatches "
            f"of {model.micro_batch}",
            where="model.global_batch",
            fix=f"choose a multiple of micro_batch * dp = {together}",
        )
    return model.global_batch // together


def affinity(model: Model, parallelism: Parallelism, records: Sequence[Record]) -> DerivedAlpha:
    """Return the DP affinity of a job by the nearest record: of its own kind, with experts or without, as r1 and r2 say
    nothing of the traffic of experts; and of these of the model's own GPU type where there is one.

    :param records: one at least of either kind.
    """
    own = volumes(model, parallelism)

    def distance(record: Record) -> float:
        other = volumes(record.model, record.parallelism)
        return hypot(log(own.r1 / other.r1), log(own.r2 / other.r2))

    def of_its_gpu(some: Sequence[Record]) -> list[Record]:
        return [record for record in some if model.gpu and record.gpu.lower() == model.gpu.lower()]

    alike = [record for record in records if (record.model.moe is None) == (model.moe is None)]
    same_gpu = of_its_gpu(alike)
    record, nearest_of_all = min(same_gpu or alike, key=distance), min(of_its_gpu(records) or records, key=distance)
    if parallelism.pp == 1:
        return DerivedAlpha(1.0, own, record, "alpha 1: without pipeline stages there are only DP groups to align")
    if parallelism.dp * parallelism.cp == 1:
        return DerivedAlpha(0.0, own, record, "alpha 0: with a single replica there are only PP groups to align")
    kind, other = ("a mixture of experts", "a dense model") if model.moe else ("a dense model", "a mixture of experts")
    of_kind = " of its kind" if of_its_gpu(records) else ""
    caveat = "" if same_gpu or model.gpu is None else f"; nothing{of_kind} is recorded for {model.gpu}"
    if nearest_of_all not in alike:
        caveat += f"; {nearest_of_all.name}, which is nearer, is {other} and this job {kind}"
    default = ", as by default," if record.alpha == DEFAULT_ALPHA else ""
    reason = (
        f"alpha {record.alpha:.2g}{default} from the nearest record, {record.name} (r1 {own.r1:.2g}, "
        f"r2 {own.r2:.3g}; {record.said}){caveat}"
    )
    return DerivedAlpha(record.alpha, own, record, reason)


_GRID, _EXPERT_GRID = Parallelism(tp=4, pp=2, dp=12), Parallelism(tp=4, ep=4, pp=2, dp=12)
_SHAPES = "the model's shape and the split of 96 GPUs (tp 4, pp 2, dp 12, as in the paper's setting (i))"
_FROM_ORIGINAL = f"{_SHAPES}; no DP gain, as for the model it was made from"


def _gpt(hidden: int, layers: int, vocab: int = 64_000, moe: Experts | None = None) -> Model:
    return Model(hidden=hidden, layers=layers, vocab=vocab, sequence_length=4096, moe=moe)


RECORDS: tuple[Record, ...] = (
    Record(
        "24B dense on H800",
        "H800",
        _gpt(6144, 52),
        _GRID,
        dp_gain=0.0,
        pp_gain=2.3,
        published="96 GPUs over 2 minipods: PP-aligned +2.3 %; alpha 0 was used",
        inferred=f"{_SHAPES}; no DP gain, from alpha 0",
    ),
    Record(
        "24B dense with twice the layers on H800",
        "H800",
        _gpt(6144, 104),
        _GRID,
        dp_gain=0.0,
        pp_gain=2.9,
        published="layers x2: PP-aligned +2.9 %",
        inferred=_FROM_ORIGINAL,
    ),
    Record(
        "24B dense with 3.5 times the layers on H800",
        "H800",
        _gpt(6144, 182),
        _GRID,
        dp_gain=0.0,
        pp_gain=3.4,
        published="layers x3.5: PP-aligned +3.4 %",
        inferred=_FROM_ORIGINAL,
    ),
    Record(
        "24B MoE on H800",
        "H800",
        _gpt(2560, 28, moe=Experts(experts=16, top_k=2)),
        _EXPERT_GRID,
        dp_gain=1.8 * 3 / 7,
        pp_gain=1.8,
        published="96 GPUs over 2 minipods: PP-aligned +1.8 %; alpha 0.3 was used",
        inferred=f"{_SHAPES} with 16 experts, top 2, ep 4; the DP gain, from alpha 0.3",
    ),
    Record(
        "7B dense on L20",
        "L20",
        _gpt(4096, 32, vocab=32_000),
        _GRID,
        dp_gain=1.4,
        pp_gain=0.0,
        published="wants DP alignment, +1.4 %",
        inferred=f"{_SHAPES}; no PP gain, as none is given",
    ),
    Record(
        "14B dense on L20",
        "L20",
        _gpt(5120, 40, vocab=32_000),
        _GRID,
        dp_gain=0.0,
        pp_gain=0.5,
        published="wants PP alignment, +0.5 %",
        inferred=f"{_SHAPES}; no DP gain, as none is given",
    ),
)
"""The built-in characterisation table: what aligning DP groups, or PP groups, was measured to bring.

Source of all gains: the Arnold paper, arXiv 2509.15940, and its NeurIPS 2025 camera-ready.  The paper gives sizes and
gains, not the shapes of its models; each record says what had to be inferred.  Measure your own jobs (``arnold
calibrate``) and add them with ``--records FILE`` (docs: job.md): a handful of points cannot characterise every model.
"""

_VOCAB = 103_168  # of InternLM

NAMED_MODELS: Mapping[str, Model] = {
    "llm-7b": Model(hidden=4096, layers=32, vocab=_VOCAB, sequence_length=2048),
    "llm-20b": Model(hidden=5120, layers=60, vocab=_VOCAB, sequence_length=4096),
    "llm-123b": Model(hidden=10240, layers=96, vocab=_VOCAB, sequence_length=4096),
    **{record.name: record.model for record in RECORDS},
}
"""Models that a job may name instead of describing its own: those of synthetic workloads, and those that were measured.

Sizes of the first three are those of the Acme paper (7B and 123B; NSDI 2024, section 4) and of InternLM (20B); width
and depth of the 123B model are inferred from its parameters (12 * layers * hidden^2 + vocabulary).
"""


def named_model(name: str) -> Model:
    """Return the model of that name, or raise InvalidJob: no model is called that."""
    if name not in NAMED_MODELS:
        fix = (
            f"{did_you_mean(name[:80], NAMED_MODELS)}describe it (hidden, layers, vocab, sequence_length), or name one "
        )
        fix += f"of {', '.join(NAMED_MODELS)}"
        raise InvalidJob(f"no model is called {name[:80]!r}", where="model", fix=fix)
    return NAMED_MODELS[name]


@dataclass(frozen=True, slots=True)
class JobAffinity:
    """Alpha, what one unit of the objective costs, and the microbatches of a step."""

    alpha: float
    spread_cost: float  # share of the step time
    microbatches: int | None  # None = not known
    # where alpha is from, as a sentence for the user; empty where the job says it and nothing else was measured
    reason: str = ""


def job_affinity(
    parallelism: Parallelism,
    *,
    alpha: float | None = None,
    model: Model | None = None,
    microbatches: int | None = None,
    records: Sequence[Gains] = (),
) -> JobAffinity:
    """Return what a job says, what its model gives where it says nothing, or the default.

    :param records: own measurements: kinds of jobs beside the built-in ones, or one for all jobs.
    :raises InvalidJob: the model's global batch does not divide into microbatches.
    """
    if microbatches is None and model is not None:
        microbatches = model_microbatches(model, parallelism)
    of_kinds = [record for record in records if isinstance(record, Record)]
    of_all = next((record for record in records if not isinstance(record, Record)), None)
    if of_all is not None:
        measured, cost = of_all.alpha, of_all.spread_cost
        reason = f"alpha {measured:.2g} as measured: {of_all.name} ({of_all.said})"
    elif model is not None:
        derived = affinity(model, parallelism, (*of_kinds, *RECORDS))
        measured, cost, reason = derived.alpha, derived.record.spread_cost, derived.reason
    else:
        measured, cost = DEFAULT_ALPHA, DEFAULT_SPREAD_COST
        reason = f"alpha {DEFAULT_ALPHA} by default: the job gives neither alpha nor model"
    if alpha is None:
        return JobAffinity(measured, cost, microbatches, reason)
    return JobAffinity(alpha, cost, microbatches, f"alpha {alpha:.2g} as asked, not {reason}" if records else "")
