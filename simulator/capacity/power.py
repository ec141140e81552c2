"""How does the power of a site swing with the steps of its jobs, and what smooths it?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Interval

from ground.errors import InvalidInput
from ground.files import read_source
from ground.quantities import capitalised, fixed, number, percent, plural
from ground.records import AtLeastOne, JsonRecord
from scheduler.placement.types import Limits, corners
from simulator.capacity.cluster_question import GRID, ClusterQuestion, parse_minipods
from simulator.capacity.hardware_prices import MONEY, Price
from simulator.capacity.question import (
    HIGH,
    LOW,
    AnswerFigure,
    CapacityAnswer,
    InputPoints,
    UncertainInput,
    given_input,
    seed_input,
)
from simulator.power_file import PowerFigures, PowerSettings, read_power
from simulator.sheet import Chart, Series, Sheet, TextTable, text_table

if TYPE_CHECKING:
    from simulator.capacity.powered_site import PoweredSite
    from topology.cluster import Cluster, FloatArray
else:
    # no option is made of a cluster, and reading the options imports no numpy
    Cluster = Any

SHOWN = 60.0  # Seconds of the figure of power over time
BINS = 12  # Of a decade of frequencies, or of all ramps: as many bars as a figure shows apart
DECADES = range(-2, 2)  # Powers of ten along the axis of frequencies

USUAL = {
    "step_seconds": ("2.2..47", 0.05, 1e4, "from one to another of the public traces of arXiv 2505.05713"),
    "compute_share": ("0.45..0.85", 0.0, 1.0, "from 0.45 of two traces of arXiv 2505.05713; the upper end is assumed"),
    "communicate_share": ("0.35..0.7", 0.0, 1.0, "assumed"),
}
"""Option -> what holds where neither it, nor a trace, nor a power file says it; its bounds; where that is from."""


class PowerRow(JsonRecord):
    """The power of the site, or of one domain, under one remedy or event; inputs at their medians."""

    name: str
    """What it is of."""
    figures: PowerFigures
    """What is drawn."""
    within: bool
    """Whether the specification of the site is met."""
    more_kilowatts: float
    """Mean power in addition: what the remedy costs in energy, negative where less is drawn."""


class PowerSpread(JsonRecord):
    """The largest job, placed to lie in fewer or more power domains."""

    name: str
    """Way in which it was placed."""
    domains: AtLeastOne
    """Power domains that it lies in."""
    dp: AtLeastOne
    """DP spread, S."""
    pp: AtLeastOne
    """PP spread, R."""
    step_lost: float
    """Share by which its step is longer than with the least objective of these placements."""
    figures: PowerFigures
    """What the power domain with most of its nodes draws, the other jobs left out."""
    best: bool
    """On the front: no other placement has both a smaller swing and a smaller objective."""


class PowerAnswer(CapacityAnswer, kw_only=True):
    """How power swings, and what smooths it."""

    cluster: str
    """What the cluster is called."""
    level: str | None
    """Level of the power domains; null = the cluster has none."""
    jobs: tuple[str, ...]
    """The jobs that run: PP groups x tp x pp."""
    remedies: tuple[PowerRow, ...]
    """The site: as it comes first, then all jobs in phase, then under each remedy."""
    domains: tuple[PowerRow, ...]
    """The domain with the largest swing of each level, from close to broad, the site last."""
    events: tuple[PowerRow, ...]
    """The site while the largest job starts, writes a checkpoint, stops."""
    spreads: tuple[PowerSpread, ...]
    """The trade between power domains and spread; empty without power domains."""


def _range_metadata(option: str, metavar: str) -> dict[str, str]:
    return {"metavar": metavar, "default": f"as the file says, else {USUAL[option][0]}"}


@dataclass(frozen=True, kw_only=True)
class PowerQuestion(ClusterQuestion[PowerAnswer]):
    """Say how the power of training swings, by rack, power domain and site, and what smooths it at what cost.

    Each job computes and communicates in turn, all of its nodes at once; when its steps begin is drawn.
    """

    answer_type: ClassVar = PowerAnswer

    power: str | None = field(default=None, metadata={"file": True})
    """What nodes draw, and caps of power domains, YAML (see `arnold schema power`)."""
    jobs: tuple[str, ...] = field(default=("8x8x64", "8x8x32", "8x4x32", "8x4x32"), metadata=GRID)
    """Job: tensor-parallel degree x pipeline stages x rows, which are PP groups."""
    traces: tuple[str, ...] = field(default=(), metadata={"option": "--op-trace", "file": True})
    """Op trace of `arnold stragglers` that gives step and compute share of the jobs in turn."""
    step_seconds: str | None = field(default=None, metadata=_range_metadata("step_seconds", "SECONDS|RANGE"))
    """Seconds of a step, drawn for each job."""
    compute_share: str | None = field(default=None, metadata=_range_metadata("compute_share", "SHARE|RANGE"))
    """Share of a step in which nodes compute."""
    communicate_share: str | None = field(default=None, metadata=_range_metadata("communicate_share", "SHARE|RANGE"))
    """What a node draws while it communicates, as a share of what it draws while it computes."""
    feed_nodes: Annotated[int, Interval(ge=1, le=100_000)] = field(default=120, metadata={"metavar": "N"})
    """Nodes of each power domain of a synthetic cluster, in the order of its nodes."""
    seconds: Annotated[float, Interval(ge=20, le=3_600)] = field(default=120.0, metadata={"metavar": "SECONDS"})
    """Seconds that are looked at."""
    draws: Annotated[int, Interval(ge=10, le=10_000)] = field(default=100, metadata={"metavar": "N"})
    """Draws of the uncertain inputs."""
    time_limit: Annotated[float, Interval(gt=0, le=3_600)] = field(default=0.5, metadata={"metavar": "SECONDS"})
    """Seconds for each placement; then the best so far counts."""
    price_kwh: Price = field(default=None, metadata=MONEY)
    """Price of a kilowatt-hour, cooling included, for nodes that are bought."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.inputs
        if not self.jobs:
            raise InvalidInput("no job runs", where="--grid", fix="give a job, for example --grid 8x8x32")
        shortest = min(given.quantile(LOW) for given in self.inputs[3:])
        if shortest > self.seconds:
            problem = (
                f"no step ends in the {self.seconds:,g} s that are looked at: the shortest lasts {number(shortest)} s"
            )
            raise InvalidInput(problem, where="--seconds", fix="look at several steps, or give --step-seconds of a few")

    @cached_property
    def site(self) -> Cluster:
        """The cluster with its power domains."""
        from topology.build import with_second_levels

        if self.cluster is not None:
            return self.cluster
        feeds = [f"feed{i // self.feed_nodes}" for i in range(len(self.empty))]
        return with_second_levels(self.empty, {"@power": feeds})

    @cached_property
    def settings(self) -> PowerSettings:
        """What the power file says.

        :raises InvalidInput: it is unusable, or names what the cluster has not.
        """
        return PowerSettings() if self.power is None else read_power(read_source(self.power), self.site)

    @cached_property
    def inputs(self) -> tuple[UncertainInput, ...]:
        """The seed, then what a step is like (``share``, ``dip``), then the seconds of each job's (``step0``, ..).

        An option counts first, then the op traces, of the jobs in turn, then the power file.
        """
        from simulator.capacity.powered_site import traced_step

        traced, settings = [traced_step(trace) for trace in self.traces], self.settings
        shares = sorted(share for _, share in traced)
        share = f"{shares[0]:.4f}..{shares[-1]:.4f}" if shares else ""
        ratio = settings.watts.communicate / max(settings.watts.compute, 1e-9)
        inputs = [
            seed_input(),
            self._input("share", "compute share of a step", "compute_share", share, settings.compute_share),
            self._input("dip", "power while communicating, share", "communicate_share", "", ratio),
        ]
        for i, job in enumerate(self.jobs):
            words = f"seconds of a step of job {i + 1}, {job}"
            seconds = f"{traced[i % len(traced)][0]:.4f}" if traced else ""
            inputs.append(self._input(f"step{i}", words, "step_seconds", seconds, settings.step_seconds))
        return tuple(inputs)

    def _input(self, name: str, words: str, option: str, measured: str, said: float) -> UncertainInput:
        """Return an input: what the option says, else what was measured, else what a power file says, else as usual."""
        of_file, (usual, least, most, why) = "" if self.power is None else f"{said:.6g}", USUAL[option]
        sources = {"given": getattr(self, option), "op traces": measured, "the power file": of_file, why: usual}
        source, value = next((source, value) for source, value in sources.items() if value)
        where = f"--{option.replace('_', '-')}"
        return given_input(value, name, words, where=where, least=least, most=most, source=source)

    @cached_property
    def powered(self) -> PoweredSite:
        """The site with the jobs placed on it.

        :raises Infeasible: one has no room.
        """
        from simulator.capacity.powered_site import PoweredSite, place_in_turn

        limits = Limits(seconds=self.time_limit, seed=self.seed, workers=1, clock="work")
        placed = place_in_turn(self.site, self.jobs, limits)
        return PoweredSite(cluster=self.site, settings=self.settings, seconds=self.seconds, gangs=placed, limits=limits)

    @cached_property
    def points(self) -> InputPoints:
        """Where the answer is computed."""
        return InputPoints(self.inputs, self.draws, self.seed)

    @property
    def steps(self) -> int:
        """One for the ranges, one for the placements."""
        return 2

    def compute(self, step: Callable[[str], None]) -> PowerAnswer:
        """Return the ranges over all draws, and rows at the medians."""
        step("placing")
        site, medians = self.powered, self.points.medians
        step("adding up")
        loads, drawn = site.loads(medians), [site.figures(site.drawn(site.loads(at))) for at in self.points.values]

        def row(name: str, watts: FloatArray, more: float = 0.0) -> PowerRow:
            """Return a row, with the mean power that it takes in addition, watts."""
            figures = site.figures(watts)
            return PowerRow(name, figures, figures.within(self.settings), more / 1e3)

        count, nodes = parse_minipods(self.made)
        return PowerAnswer(
            ranges=(
                self.points.range_of("swing of the site, MW", [figures.swing_megawatts for figures in drawn]),
                self.points.range_of("largest ramp of the site, MW/s", [figures.ramp_megawatts for figures in drawn]),
                self.points.range_of(
                    "energy of the swings in the band", [figures.band_share for figures in drawn], kind="share"
                ),
            ),
            cluster=f"{count} synthetic minipods of {nodes} nodes" if self.cluster is None else self.source,
            level=None if site.level is None else site.level.name,
            jobs=tuple(gang.job.name for gang in site.gangs),
            remedies=tuple(row(name, watts, more) for name, (watts, more) in self.remedies.items()),
            domains=tuple(row(name, watts) for name, watts in site.worst_domains(loads)),
            events=tuple(row(name, watts) for name, watts in site.events(loads).items()),
            spreads=tuple(self._spreads()),
        )

    def _spreads(self) -> Iterator[PowerSpread]:
        """Yield the largest job where it lies in fewer and in more power domains; nothing where there are not two."""
        from scheduler.objective import objective_of

        site, medians = self.powered, self.points.medians
        if site.level is None or len(site.level) < 2:
            return
        placed = dict(site.placements(site.level))
        # objectives of Eq. 2 alone: the soft count is the means, not the worth
        worth = {name: objective_of(gang.job, gang.worth.dp, gang.worth.pp) for name, gang in placed.items()}
        rows = []
        for name, gang in placed.items():
            alone = replace(site, gangs=(gang,))
            _, watts = alone.worst(site.level, alone.loads(medians | {"step0": medians[f"step{site.largest}"]}))
            domains = len({*site.level.domain_of[gang.nodes].ravel().tolist()})
            lost = gang.job.spread_cost * (worth[name] - min(worth.values()))
            figures = site.figures(watts)
            rows.append(PowerSpread(name, domains, gang.worth.dp, gang.worth.pp, lost, figures, best=True))
        front = corners((row.figures.swing_megawatts, row.step_lost) for row in rows)
        for row in rows:
            yield replace(row, best=(row.figures.swing_megawatts, row.step_lost) in front)

    @cached_property
    def remedies(self) -> dict[str, tuple[FloatArray, float]]:
        """Power of the site over time under each remedy, shape [times], watts, and the mean that it takes more."""
        return self.powered.power_by_remedy(self.powered.loads(self.points.medians))

    def title(self, answer: PowerAnswer) -> str:
        """Return the question in words."""
        return (
            f"How does the power of {plural(len(answer.jobs), 'job')} on {answer.cluster} swing, and what smooths it?"
        )

    def verdict(self, answer: PowerAnswer) -> str:
        """Return swing, ramp and spectrum, then what each remedy leaves of the swing and costs."""
        swing, ramp, share = answer.ranges
        now, _, *others = answer.remedies
        low, high = self.settings.band
        of_mean = percent(now.figures.swing_megawatts / (now.figures.mean_megawatts or 1.0))
        left = []
        for row in others:
            share_left = percent(row.figures.swing_megawatts / (now.figures.swing_megawatts or 1.0))
            daily = 24.0 * row.more_kilowatts
            money = "" if self.price_kwh is None else f", {daily * self.price_kwh:,.0f} a day"
            cost = f" for {row.more_kilowatts:,.0f} kW more ({daily / 1e3:,.1f} MWh a day{money})"
            left.append(f"{row.name} {share_left}{cost if abs(row.more_kilowatts) >= 1.0 else ''}")
        return (
            f"The site swings by {fixed(swing.p50)} MW (P10 {fixed(swing.p10)}, P90 {fixed(swing.p90)}), "
            f"{of_mean} of its mean at the medians, and changes by up to {fixed(ramp.p50)} MW within a second; "
            f"{percent(share.p50)} of the energy of the swings lies in {low:g} to {high:g} Hz "
            f"(P10 {percent(share.p10)}, P90 {percent(share.p90)}), and at most {percent(self.settings.band_share)} "
            f"may. Of the swing is left: {'; '.join(left)}."
        )

    def figure(self, answer: PowerAnswer) -> AnswerFigure:
        """Return the swing of the site."""
        swing = answer.ranges[0]
        return AnswerFigure(f"{fixed(swing.p50)} MW", swing.quantity, swing.sentence, ranged=True)

    def assumptions(self, answer: PowerAnswer) -> Iterator[str]:
        """Yield what waves, phases, remedies and placements take for granted."""
        settings = self.settings
        yield (
            f"A node draws {settings.watts.compute:,g} W while it computes and {settings.watts.idle:,g} W without a "
            "job; all nodes of a job change phase at once, the worst that it can do: stages of a pipeline do not."
        )
        for given in self.inputs[1:4]:
            low, high = given.quantile(LOW), given.quantile(HIGH)
            ends = number(low) if given.certain else f"{number(low)} to {number(high)}"
            yield f"{capitalised(given.words)}: {ends} ({given.source})."
        yield "Each job draws its own step from the same range, and begins it at a random phase."
        if any(given.quantile(HIGH) > self.seconds for given in self.inputs[3:]):
            yield f"Steps that last longer than the {self.seconds:,g} s looked at do not show all of their swing."
        yield (
            f"Ranges: {self.draws:,} draws of the inputs, seed {self.seed}, {self.seconds:g} s each at 64 samples a "
            "second; tables and figures are at the medians, where steps are equal unless traces say otherwise."
        )
        yield (
            f"The floor keeps a job at {percent(settings.floor_share)} of its compute power at least; storage of "
            f"{settings.storage_joules:g} J a node acts as a low-pass over the site, without losses."
        )
        yield "Staggered: the phases of equal steps are held; of steps that differ none can be."
        if answer.level is None:
            yield f"The cluster has no {settings.level}: what spreading over power domains buys is not answered."
        if self.cluster is not None:
            yield "Nodes that others use draw idle power: what runs there is not known."
        else:
            yield f"Power domains of {self.feed_nodes} nodes in the order of the minipods, which do not divide by them."

    def changes(self, answer: PowerAnswer) -> Iterator[str]:  # noqa: ARG002
        """Yield what would change the answer."""
        yield "Power measured on these nodes, in place of the maximum of a data sheet and an assumed dip."
        yield "Power supplies and cooling, whose own inertia and fans are not modelled."

    def sheet(self, answer: PowerAnswer) -> Sheet:
        """Return the tables, and power over time, its spectrum and its ramps."""
        return power_sheet(answer, {name: watts for name, (watts, _) in self.remedies.items()}, self.settings)


def power_sheet(answer: PowerAnswer, remedies: Mapping[str, FloatArray], settings: PowerSettings) -> Sheet:
    """Return the sheet.

    :param remedies: power of the site over time under each remedy, watts.
    """
    import numpy as np

    from simulator.site_power import MEGA, RATE, ramps, spectrum
    from topology.cluster import SECOND

    drawn = {name: watts for name, watts in remedies.items() if name != "all in phase"}
    figures = ("", *answer.remedies[0].figures.cells)
    lines = [
        (row.name, *row.figures.cells.values(), "yes" if row.within else "no", f"{row.more_kilowatts:,.0f}")
        for row in answer.remedies
    ]
    tables = [TextTable("The site, inputs at their medians", (*figures, "as allowed", "more kW"), lines)]
    for title, rows in (("Where it swings most, by level", answer.domains), ("The site in events", answer.events)):
        tables.append(TextTable(title, figures, [(row.name, *row.figures.cells.values()) for row in rows]))
    if answer.spreads:
        spreads: dict[str, Callable[[PowerSpread], str]] = {
            "placed": lambda row: row.name,
            "domains": lambda row: f"{row.domains}",
            "DP spread": lambda row: f"{row.dp}",
            "PP spread": lambda row: f"{row.pp}",
            "step lost": lambda row: percent(row.step_lost),
            "swing MW": lambda row: row.figures.cells["swing MW"],
            "best trade": lambda row: "yes" if row.best else "no",
        }
        level = (answer.level or "").removeprefix(SECOND)
        title = f"The largest job over {level} domains: its own swing where it has most nodes"
        tables.append(text_table(title, answer.spreads, spreads))
    count = int(SHOWN * RATE)
    # four points a second show what a figure can
    shown = {name: (watts[:count:16] / MEGA).tolist() for name, watts in drawn.items()}
    series = [Series(name, [(16 * i / RATE, y) for i, y in enumerate(ys)], "step") for name, ys in shown.items()]
    over_time = Chart("Power of the site over time", "seconds", "MW", series)
    edges = np.arange(DECADES[0] * BINS, 2 * BINS) / BINS
    bars = []
    for name, watts in drawn.items():
        frequencies, energy = spectrum(watts)
        sums, _ = np.histogram(np.log10(frequencies), edges, weights=energy)
        bars.append(_bars(name, edges, np.sqrt(sums) / MEGA))
    swings = Chart(
        "Swings by frequency",
        "Hz; the band of the specification between the lines",
        "MW, root of the mean square",
        bars,
        floor=0.0,
        ticks=[(float(power), f"{10.0**power:g}") for power in DECADES],
        lines=[(float(np.log10(end)), f"{end:g} Hz") for end in settings.band],
    )
    changes = {name: ramps(watts) / MEGA for name, watts in drawn.items()}
    edges = np.linspace(0.0, max(float(ramp.max()) for ramp in changes.values()) or 1.0, 2 * BINS + 1)
    bars = [_bars(name, edges, np.histogram(ramp, edges)[0] / len(ramp)) for name, ramp in changes.items()]
    within = Chart("Changes within a second", "MW/s", "share of the time", bars, floor=0.0, kind="share")
    return Sheet(tables, [over_time, swings, within])


def _bars(name: str, edges: FloatArray, heights: FloatArray) -> Series:
    """Return steps from each edge to the next; the last ends at nothing."""
    return Series(name, [*zip(edges.tolist(), [*heights.tolist(), 0.0], strict=True)], "step")
