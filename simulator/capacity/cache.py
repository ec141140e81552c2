"""How to split a cache of training data between encoded, decoded and augmented samples, and how fast that loads?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Interval

from ground.errors import InvalidInput
from ground.quantities import label_of, number, times
from ground.records import AtLeastOne, JsonRecord, NotNegative, Seed, Share
from scheduler.job import union_size
from simulator.capacity.question import (
    AnswerFigure,
    CapacityAnswer,
    CapacityQuestion,
    InputPoints,
    option_input,
    percentiles,
)
from simulator.data_plan import IN_CACHE
from simulator.sheet import Chart, Series, Sheet, TextTable, text_table

if TYPE_CHECKING:
    from topology.cluster import FloatArray

GB, KB = 1e9, 1e3
STEPS = 100  # Splits are tried in steps of 1 %
ALIKE = 1.01  # Splits whose mean loading time is within this of the least are about as good

INPUTS = {
    "encoded_kb": "KB of a stored sample",
    "prepared_kb": "KB of a prepared sample",
    "cache_bandwidth": "GB/s of the cache",
    "storage_bandwidth": "GB/s of the storage",
    "decode_rate": "samples decoded a second",
    "augment_rate": "samples augmented a second",
}
"""Options of which each is a number or a range, and what it is."""

PUBLISHED = (
    ("Seneca", "time of all jobs, against PyTorch", "45.23% less"),
    ("Seneca", "throughput of loading, at most", "3.45x"),
    ("Joader", "preparing shared data once, at most", "up to 200%"),
)
"""Of the abstracts: the paper, what, and how much.  Other hardware, other yardsticks: nothing here reproduces them."""


share = partial(label_of, kind="share")


class CacheRow(JsonRecord):
    """A way to use the cache."""

    name: str
    """The way."""
    augmented: Share
    """Share of the cache for augmented samples."""
    decoded: Share
    """Share for decoded ones."""
    encoded: Share
    """Share for encoded ones."""
    mean_rate: NotNegative
    """Samples that a node loads in a second of the draws' mean loading time: of this the best split has most."""
    rate: NotNegative
    """Samples that a node loads in a second, inputs at their medians."""
    p10: NotNegative
    """Samples a second of which a tenth of the draws loads no more."""
    p90: NotNegative
    """Samples a second of which nine tenths of the draws load no more."""


class CacheAnswer(CapacityAnswer, kw_only=True):
    """The best split of a cache."""

    rows: tuple[CacheRow, ...]
    """The best split first, no cache last."""
    about_as_good: Mapping[str, tuple[Share, Share]]
    """Form of sample -> least and largest share of the splits whose mean loading time is within 1 % of the least."""
    cached: Share
    """Share of the samples that are in the cache with the best split."""
    jobs: AtLeastOne
    """Jobs that read near the cache."""
    loads: NotNegative
    """Samples that the jobs read in an epoch, each for itself."""
    shared_loads: NotNegative
    """Different samples among these: as many are loaded where jobs load together."""
    curves: Mapping[str, tuple[float, ...]]
    """What the rest of the cache holds -> mean rate, samples a second, for shares of 0 to 100 % not encoded."""


@dataclass(frozen=True)
class CacheModel:
    """The splits of one cache; the last is no cache at all."""

    points: InputPoints  # The inputs, by the names of the options of the question
    cache_gb: float
    samples: float  # Different samples that are read
    fresh: bool  # Whether each use needs a newly augmented sample
    steps: int  # In how many parts a cache is split

    @cached_property
    def splits(self) -> FloatArray:
        """Shape [3, splits]: shares augmented, decoded, encoded."""
        import numpy as np

        from simulator.shared_data import all_splits

        return np.hstack([all_splits(self.steps), np.zeros((3, 1))])

    def at(self, *shares: float) -> int:
        """Return which of the splits of the cache has these shares."""
        import numpy as np

        return int(np.abs(self.splits[:, :-1] - np.array(shares)[:, None]).sum(axis=0).argmin())

    @cached_property
    def seconds(self) -> FloatArray:
        """Shape [points of the inputs, splits], mean seconds until a node has a sample ready."""
        import numpy as np

        return np.array([self.seconds_at(point) for point in self.points.values])

    def seconds_at(self, point: Mapping[str, float], *, times: float = 1.0) -> FloatArray:
        """Return these seconds at one point, shape [splits], of a cache so many times as large."""
        from simulator.shared_data import seconds_a_sample

        encoded, prepared = point["encoded_kb"] * KB, point["prepared_kb"] * KB
        cached, stored = point["cache_bandwidth"] * GB, point["storage_bandwidth"] * GB
        miss = min(stored / encoded, point["decode_rate"])
        rates = (
            miss if self.fresh else cached / prepared,
            min(cached / prepared, point["augment_rate"]),
            min(cached / encoded, point["decode_rate"]),
            miss,
        )
        return seconds_a_sample(self.counts(point, times=times), rates)

    def counts(self, point: Mapping[str, float], *, times: float = 1.0) -> tuple[FloatArray, ...]:
        """Return samples by form, each of shape [splits], the last those that are not in the cache."""
        from simulator.shared_data import samples_by_form

        return samples_by_form(
            self.splits,
            cache=times * self.cache_gb * GB,
            samples=self.samples,
            encoded=point["encoded_kb"] * KB,
            prepared=point["prepared_kb"] * KB,
        )


@dataclass(frozen=True, kw_only=True)
class CacheQuestion(CapacityQuestion[CacheAnswer]):
    """Say how to split a cache of data between encoded, decoded and augmented samples, and what sharing it saves.

    Every split in steps of 1 % is tried. Inputs may be ranges, P10..P90.
    """

    answer_type: ClassVar = CacheAnswer

    cache_gb: Annotated[float, Interval(gt=0, le=1e9)] = field(default=100.0, metadata={"metavar": "GB"})
    """Size of the cache, of a node or of a rack, in GB."""
    samples: Annotated[float, Interval(ge=1, le=1e12)] = field(default=1_281_167, metadata={"metavar": "N"})
    """Samples of the data set; the default is ImageNet-1K."""
    jobs: Annotated[int, Interval(ge=1, le=10_000)] = field(default=1, metadata={"option": "--readers"})
    """Jobs that read near the cache at the same time."""
    job_samples: Annotated[float | None, Interval(ge=1, le=1e12)] = field(
        default=None, metadata={"metavar": "N", "default": "all"}
    )
    """Samples that each job reads, a random part of the data set."""
    encoded_kb: str = field(default="110", metadata={"metavar": "KB|RANGE"})
    """Size of a sample as it is stored, in kB."""
    prepared_kb: str = field(default="602", metadata={"metavar": "KB|RANGE"})
    """Size of a decoded or augmented sample, in kB; the default is 224 x 224 x 3 numbers of 4 bytes."""
    cache_bandwidth: str = field(default="2..8", metadata={"metavar": "GB/s|RANGE"})
    """Bandwidth of the cache for each node, in GB/s."""
    storage_bandwidth: str = field(default="0.1..1", metadata={"metavar": "GB/s|RANGE"})
    """Bandwidth of the storage behind the cache for each node, in GB/s."""
    decode_rate: str = field(default="2000..6000", metadata={"metavar": "N/s|RANGE"})
    """Samples that a node decodes and augments in a second."""
    augment_rate: str = field(default="6000..20000", metadata={"metavar": "N/s|RANGE"})
    """Decoded samples that a node augments in a second."""
    fresh: bool = False
    """Take a newly augmented sample for each use, so that cached ones are of no use."""
    draws: Annotated[int, Interval(ge=10, le=2_000)] = 400
    """Draws of the uncertain inputs."""
    seed: Seed = 0
    """Seed of all that is drawn: same seed, same answer, where no clock ends a search."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.job_samples is not None and self.job_samples > self.samples:
            message = f"a job reads {self.job_samples:,.0f} of {self.samples:,.0f} samples"
            raise InvalidInput(message, where="--job-samples", fix="give at most as many as --samples")
        _ = self.points

    @property
    def read(self) -> float:
        """Different samples that the jobs read."""
        return union_size([self.job_samples or self.samples] * self.jobs, self.samples)

    @cached_property
    def points(self) -> InputPoints:
        """The uncertain inputs; raises :class:`InvalidInput` where one is no number or range."""
        inputs = tuple(option_input(self, name, words, least=1e-6, most=1e12) for name, words in INPUTS.items())
        return InputPoints(inputs, self.draws, self.seed)

    @cached_property
    def model(self) -> CacheModel:
        """Every split at every point of the inputs."""
        return CacheModel(self.points, self.cache_gb, self.read, self.fresh, STEPS)

    @property
    def steps(self) -> int:
        """One: all splits at once."""
        return 1

    def compute(self, step: Callable[[str], None]) -> CacheAnswer:
        """Return the split whose mean loading time over the draws is least, and others beside it."""
        step("splits")
        model = self.model
        mean = model.seconds[: self.draws].mean(axis=0)
        best, none = int(mean[:-1].argmin()), len(mean) - 1
        alone = {f"all {form}": model.at(*(form == other for other in IN_CACHE)) for form in IN_CACHE}
        rows = []
        for name, split in {"best": best, **alone, "no cache": none}.items():
            rates = 1.0 / model.seconds[:, split]
            low, _, high = percentiles(rates[: self.draws].tolist())
            augmented, decoded, encoded = map(float, model.splits[:, split])
            at_medians = float(rates[self.draws])
            rows.append(CacheRow(name, augmented, decoded, encoded, 1.0 / float(mean[split]), at_medians, low, high))
        good = model.splits[:, :-1][:, mean[:-1] <= ALIKE * mean[best]]
        mixed = [(i / STEPS, 1.0 - i / STEPS) for i in range(STEPS + 1)]
        gain, rate = model.seconds[:, none] / model.seconds[:, best], 1.0 / model.seconds[:, best]
        return CacheAnswer(
            ranges=(
                self.points.range_of("samples a second of a node", rate.tolist()),
                self.points.range_of("times as many as without a cache", gain.tolist()),
            ),
            rows=tuple(rows),
            about_as_good={
                form: (float(min(shares)), float(max(shares))) for form, shares in zip(IN_CACHE, good, strict=True)
            },
            cached=float(1.0 - model.counts(self.points.medians)[-1][best] / self.read),
            jobs=self.jobs,
            loads=(self.job_samples or self.samples) * self.jobs,
            shared_loads=self.read,
            curves={
                "augmented": tuple(1.0 / float(mean[model.at(part, 0.0, rest)]) for part, rest in mixed),
                "decoded": tuple(1.0 / float(mean[model.at(0.0, part, rest)]) for part, rest in mixed),
            },
        )

    def title(self, answer: CacheAnswer) -> str:
        """Return the question in words."""
        jobs = "" if answer.jobs == 1 else f" that {answer.jobs:,} jobs read"
        return f"How to split a cache of {number(self.cache_gb)} GB for {number(self.samples)} samples{jobs}?"

    def verdict(self, answer: CacheAnswer) -> str:
        """Return the split, its rate with its range, and what sharing saves."""
        best, (rate, gain) = answer.rows[0], answer.ranges
        shares = ", ".join(f"{share(getattr(best, form))} {form}" for form in reversed(IN_CACHE))
        split = (
            f"Split it {shares}: a node loads {number(rate.p50)} samples a second (P10 {number(rate.p10)}, P90 "
            f"{number(rate.p90)}), {times(gain.p50)} as many as without a cache (P10 {times(gain.p10)}, P90 "
            f"{times(gain.p90)}); {share(answer.cached)} of the samples are in it."
        )
        if answer.jobs == 1:
            return split
        return (
            f"{split} {answer.jobs:,} jobs that load together load {number(answer.shared_loads)} samples an epoch "
            f"instead of {number(answer.loads)}, {times(answer.loads / answer.shared_loads)} fewer."
        )

    def figure(self, answer: CacheAnswer) -> AnswerFigure:
        """Return the split."""
        shares = [share(getattr(answer.rows[0], form)) for form in reversed(IN_CACHE)]
        words = f"of the cache for samples that are {', '.join(reversed(IN_CACHE))}"
        return AnswerFigure(" / ".join(shares), words, f"{share(answer.cached)} of the samples are in it")

    def assumptions(self, answer: CacheAnswer) -> Iterator[str]:
        """Yield what rates, cache and sharing take for granted."""
        yield (
            "Ours: a node loads 1 / (sum of p_f c_f) samples a second, p_f the share of samples that are augmented, "
            "decoded, encoded or not in the cache, c_f the time of the slowest part of each way; one way at a time."
        )
        yield "Storage, cache and processors of a node are its own: others do not slow them."
        yield "The cache is full, every sample is read equally often, and none is held in two forms."
        if not self.fresh:
            yield "An augmented sample may be used again as it is; where each use needs a new one, give --fresh."
        if answer.jobs > 1:
            yield "Each job reads a random part of the data set, independent of the others, at the same speed."
        yield f"Ranges: {self.draws:,} draws of the inputs, independent of each other, seed {self.seed}."

    def changes(self, answer: CacheAnswer) -> Iterator[str]:
        """Yield what else is about as good, and what another cache would do."""
        shares = (f"{form} {share(low)} to {share(high)}" for form, (low, high) in answer.about_as_good.items())
        yield f"Splits within 1% of the best: {', '.join(shares)}."
        for factor, words in ((0.5, "half"), (2.0, "twice")):
            seconds = self.model.seconds_at(self.points.medians, times=factor)
            yield f"With {words} the cache a node loads at most {number(1.0 / float(seconds.min()))} samples a second."

    def sheet(self, answer: CacheAnswer) -> Sheet:
        """Return the ways to use the cache, what is published, and the curves between them."""
        columns: dict[str, Callable[[CacheRow], str]] = {
            "cache": lambda row: row.name,
            "encoded": lambda row: share(row.encoded),
            "decoded": lambda row: share(row.decoded),
            "augmented": lambda row: share(row.augmented),
            "samples/s over the draws": lambda row: number(row.mean_rate),
            "at the medians": lambda row: number(row.rate),
            "P10": lambda row: number(row.p10),
            "P90": lambda row: number(row.p90),
        }
        ways = text_table("What a node loads: the best has most over the draws", answer.rows, columns)
        title = "Published, with other hardware and against other loaders; not reproduced"
        published = TextTable(title, ("paper", "what", "how much"), PUBLISHED)
        series = [
            Series(f"{form}, the rest encoded", [(i / STEPS, rate) for i, rate in enumerate(rates) if i % 5 == 0])
            for form, rates in answer.curves.items()
        ]
        chart = Chart(
            "Samples that a node loads in a second, mean over the draws",
            "share of the cache that is not encoded",
            "samples/s",
            series,
            floor=0.0,
            ticks=[(i / 4, f"{25 * i}%") for i in range(5)],
            lines=[(1.0 - answer.rows[0].encoded, "best")],
        )
        return Sheet((ways, published), (chart,))
