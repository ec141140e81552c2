"""Step times and scaling that others published, beside the formula of the step without any spread.

Nothing is fitted but one efficiency of GPUs, where seconds are compared, and one bandwidth, where none is published.
"""

from dataclasses import dataclass, replace
from math import sqrt
from statistics import median

import numpy as np

from benchmarks.predictions.gavel_spread import WEIGHTS
from benchmarks.report import section, table
from scheduler.affinity import Model
from scheduler.job import Job, Parallelism
from simulator.cost.calibration import PUBLISHED, Calibration
from simulator.cost.step import Schedule, exposed_reduction, pipeline_seconds, traffic_of
from simulator.throughputs import GAVEL_GPUS, GAVEL_SPEEDS


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """A run on nodes of eight GPUs, each with a port of its own."""

    model: Model
    parallelism: Parallelism
    microbatches: int
    chunks: int  # Of layers in a stage, as published or, where it is not, one layer each
    port: float = 50e9  # Bytes a second between a GPU and the network

    def seconds(self, calibration: Calibration = PUBLISHED, *, chunks: int | None = None) -> float:
        """Step time by the formula, nothing but compute, transfers and reduction in it."""
        traffic = traffic_of(Job("run", self.parallelism, microbatches=self.microbatches), self.model)
        slot = traffic.operations / calibration.speed(self.model.gpu)
        schedule = Schedule(traffic.stages, self.microbatches, chunks or self.chunks, slot)
        hops = traffic.stages - (not schedule.around)
        each = np.full((1, hops if traffic.stages > 1 else 0), traffic.pp / (8 * self.port))
        replicas = self.parallelism.dp
        half = (replicas - 1) / replicas * traffic.dp / (8 * self.port)
        sent = pipeline_seconds(each, schedule, calibration.transfer_exposure)
        return schedule.compute_seconds + sent + exposed_reduction(half, schedule, calibration)

    def default_chunks(self) -> int:
        """As many as the models take where a job does not say."""
        layers = self.model.layers / self.parallelism.pp
        return max(1, round(layers / PUBLISHED.layers_a_chunk)) if self.parallelism.pp > 1 else 1


def _gpt(hidden: int, layers: int, gpu: str, *, micro_batch: int = 1) -> Model:
    return Model(hidden, layers, vocab=51_200, sequence_length=2048, micro_batch=micro_batch, gpu=gpu)


@dataclass(frozen=True, slots=True)
class Scaling:
    """The same training on more GPUs."""

    name: str
    few: PublishedRun
    many: PublishedRun
    # Throughput of a GPU on many relative to few: the ratio of utilizations, in whole percent
    published: tuple[int, int]

    def ratio(self, *, own_chunks: bool) -> float:
        """By the formula."""
        rates = [
            run.microbatches / run.seconds(chunks=run.default_chunks() if own_chunks else None)
            for run in (self.few, self.many)
        ]
        return rates[1] / rates[0]

    @property
    def span(self) -> tuple[float, float]:
        """What the whole percents leave open."""
        few, many = self.published
        return (many - 0.5) / (few + 0.5), (many + 0.5) / (few - 0.5)


_LLAMA = PublishedRun(
    Model(16_384, 126, vocab=128_256, sequence_length=8192, gpu="H100"),
    Parallelism(tp=8, pp=16, dp=64),
    microbatches=32,
    chunks=8,
)
_GPT3 = PublishedRun(_gpt(12_288, 96, "H100"), Parallelism(tp=8, pp=12, dp=1), microbatches=1152, chunks=8)

SCALINGS = (
    Scaling(
        "Llama 3 405B, 8,192 to 16,384 H100 (arXiv 2407.21783, table 4; 1 layer a chunk ours)",
        _LLAMA,
        replace(_LLAMA, parallelism=Parallelism(tp=8, pp=16, dp=128), microbatches=16),
        (43, 41),
    ),
    Scaling(
        "Megatron-Core, GPT-3 175B, 96 to 4,608 H100, batch 1,152 (its README; tp 8, pp 12, 1 layer a chunk ours)",
        _GPT3,
        replace(_GPT3, parallelism=Parallelism(tp=8, pp=12, dp=48), microbatches=24),
        (47, 42),
    ),
)

SCATTERED = PublishedRun(_gpt(12_288, 96, "A100"), Parallelism(tp=8, pp=12), microbatches=24, chunks=4, port=25e9)
"""GPT-3 175B on 96 A100 with scatter/gather, by which each of 8 GPUs sends an eighth of what goes to the next stage: up
to 11 % faster with the interleaved schedule (Narayanan et al., SC'21, section 5.7; chunks ours)."""


CHUNKS = (1, 2, 4, 8)  # Of eight layers of a stage


def scatter_gain(chunks: int) -> float:
    """By what scatter/gather makes steps of :data:`SCATTERED` faster: ports that carry 8 times as much."""
    whole = replace(SCATTERED, port=SCATTERED.port / 8)
    return whole.seconds(chunks=chunks) / SCATTERED.seconds(chunks=chunks) - 1.0


STEPS: dict[str, tuple[PublishedRun, float]] = {
    "22B": (PublishedRun(_gpt(6144, 48, "A100", micro_batch=4), Parallelism(tp=8), 1, 1, 25e9), 1.10),
    "175B": (PublishedRun(_gpt(12_288, 96, "A100"), Parallelism(tp=8, pp=8), 64, 3, 25e9), 13.75),
    "530B": (PublishedRun(_gpt(20_480, 105, "A100"), Parallelism(tp=8, pp=35), 280, 3, 25e9), 37.83),
    "1T": (PublishedRun(_gpt(25_600, 128, "A100"), Parallelism(tp=8, pp=64), 512, 1, 25e9), 71.49),
}
"""Seconds of a step with sequence parallelism and selective recomputation on A100 with HDR InfiniBand: Korthikanti et
al., "Reducing activation recomputation in large transformer models", MLSys 2023, table 5."""


def fitted_efficiency(name: str) -> float:
    """Share of a GPU's peak with which the formula gives the published step time of one of :data:`STEPS`; bisection."""
    run, published = STEPS[name]
    low, high = 0.1, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if run.seconds(replace(PUBLISHED, efficiency=middle)) > published else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class GavelRow:
    """Steps of one job type on V100, apart over machines and together."""

    job_type: str
    gpus: int
    compute: float  # seconds of a step on one GPU
    together: float  # seconds of a step on GPUs of one machine
    apart: float  # of one GPU in each machine

    @property
    def measured(self) -> float:
        """By what lying apart makes a step longer."""
        return self.apart / self.together

    def predicted(self, bandwidth: float, overlap: float = 1.0) -> float:
        """The same by the formula, from compute and weights alone.

        :param bandwidth: bytes a second between machines; what lies together reduces in no time.
        """
        sizes = Calibration(gradient_width=1.0, overlap=overlap)  # in fp32 both ways
        weights = 4.0 * next(size for model, size in WEIGHTS.items() if self.job_type.startswith(model))
        half = (self.gpus - 1) / self.gpus * weights / bandwidth
        return 1.0 + exposed_reduction(half, Schedule(1, 1, 1, self.compute), sizes) / self.compute


def gavel_rows() -> list[GavelRow]:
    """All job types on several GPUs."""
    return [
        GavelRow(name, gpus, 1.0 / GAVEL_SPEEDS[name, 1]["V100"][0], gpus / together, gpus / apart)
        for (name, gpus), speeds in GAVEL_SPEEDS.items()
        for together, apart in [speeds["V100"]]
        if apart is not None
    ]


def fitted_bandwidth(rows: list[GavelRow], overlap: float) -> float:
    """Bytes a second with which half of the rows are predicted above and half below their median; bisection."""
    low, high = 1e8, 1e11
    for _ in range(60):
        middle = sqrt(low * high)
        over = median(row.predicted(middle, overlap) for row in rows) > median(row.measured for row in rows)
        low, high = (middle, high) if over else (low, middle)
    return low


def report() -> str:
    """Four tables."""
    scalings = [
        [
            one.name,
            f"{one.published[1] / one.published[0]:.3f} ({one.span[0]:.3f} .. {one.span[1]:.3f})",
            f"{one.ratio(own_chunks=False):.3f}",
            f"{one.ratio(own_chunks=True):.3f}",
        ]
        for one in SCALINGS
    ]
    fitted = replace(PUBLISHED, efficiency=fitted_efficiency("175B"))
    steps = [
        [name, f"{published:.2f}", f"{run.seconds(fitted):.2f}", f"{run.seconds(fitted) / published - 1:+.0%}"]
        for name, (run, published) in STEPS.items()
    ]
    return "\n".join(
        [
            section(
                "Published scaling: throughput of a GPU on many relative to few",
                table(["run", "published", "formula", "formula, two layers a chunk"], scalings),
            ),
            section(
                "Scatter/gather of transfers: how much faster, by chunks of a stage",
                table(["published", *map(str, CHUNKS)], [["up to 11%", *(f"{scatter_gain(v):.0%}" for v in CHUNKS)]]),
            ),
            section(
                f"Published step times, seconds; GPUs at {fitted.efficiency:.1%} of their peak, fitted on 175B",
                table(["model", "published", "formula", "miss"], steps),
            ),
            section("Gavel's job types on V100: by what lying apart makes a step longer, medians", _gavel_table()),
        ]
    )


def _gavel_table() -> str:
    rows = gavel_rows()
    fits = {
        overlap: fitted_bandwidth([row for row in rows if row.gpus == GAVEL_GPUS[1]], overlap) for overlap in (1.0, 0.0)
    }
    header = ["GPUs", "measured", *(f"formula, {overlap:.0%} hidden" for overlap in fits)]
    parts = {str(gpus): [row for row in rows if row.gpus == gpus] for gpus in GAVEL_GPUS[1:]} | {"all": rows}
    lines = [
        [
            words,
            f"{median(row.measured for row in some):.2f}",
            *(f"{median(row.predicted(fit, overlap) for row in some):.2f}" for overlap, fit in fits.items()),
        ]
        for words, some in parts.items()
    ]
    lines.append(["GB/s, fitted on two GPUs", "", *(f"{fit / 1e9:.2f}" for fit in fits.values())])
    return table(header, lines)
