"""What nodes draw, what is specified of it, and what power over time amounts to: the power file, and the figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated

from annotated_types import Gt, Interval

from ground.errors import InvalidInput, did_you_mean
from ground.quantities import percent
from ground.records import FiniteFloat, JsonRecord, NotNegative, Share

if TYPE_CHECKING:
    from ground.files import Source
    from topology.cluster import Cluster


Watts = Annotated[FiniteFloat, Interval(ge=0, le=1e9)]
Seconds = Annotated[FiniteFloat, Interval(gt=0, le=1e6)]
StepSeconds = Annotated[FiniteFloat, Interval(ge=0.05, le=1e4)]
Frequency = Annotated[FiniteFloat, Interval(gt=0, le=20)]


class NodeWatts(JsonRecord):
    """What a node draws, watts: rising from idle to compute."""

    compute: Watts = 10_200.0
    """Watts while its GPUs compute; 10.2 kW is the maximum of a DGX H100 (NVIDIA's data sheet)."""
    communicate: Watts = 5_100.0
    """Watts while they wait for communication; half of the maximum is assumed."""
    idle: Watts = 2_000.0
    """Watts without a job; assumed."""

    def __post_init__(self) -> None:
        """Refuse, by ``ValueError``, which readers give a line, a phase that draws less than the one below it."""
        if not self.idle <= self.communicate <= self.compute:
            raise ValueError("idle must be at most communicate, and communicate at most compute")


class JobPower(JsonRecord):
    """What one job does otherwise; null = as the file says of all."""

    step_seconds: StepSeconds | None = None
    """Seconds of a step."""
    compute_share: Share | None = None
    """Share of a step in which its nodes compute."""


class PowerSettings(JsonRecord, kw_only=True):
    """A power file; every key may be left out."""

    watts: NodeWatts = NodeWatts()
    """Watts that a node draws."""
    types: Mapping[str, NodeWatts] = field(default_factory=dict)
    """Type of GPU -> watts that a node with it draws, in place of `watts`."""
    step_seconds: StepSeconds = 10.0
    """Seconds of a step: between 2.2 and 47 in public traces."""
    compute_share: Share = 0.6
    """Share of a step in which nodes compute: 0.45 in public traces, with bubbles."""
    edge_seconds: Annotated[FiniteFloat, Interval(ge=0, le=1e6)] = 0.02
    """Seconds for which power rises from one phase to the next, and falls."""
    start_seconds: Seconds = 10.0
    """Seconds that a job takes from idle to full power."""
    stop_seconds: Seconds = 1.0
    """Seconds that it takes back to idle."""
    checkpoint_every: Seconds = 1_800.0
    """Seconds from one checkpoint to the next."""
    checkpoint_seconds: Annotated[FiniteFloat, Interval(ge=0, le=1e6)] = 10.0
    """Seconds for which a checkpoint keeps nodes from computing; 0 = jobs write none."""
    floor_share: Share = 0.9
    """The power floor that is weighed, as a share of `compute`; 90 % is what a GB200 can be told at most."""
    storage_joules: Annotated[FiniteFloat, Interval(ge=0, le=1e9)] = 520.0
    """Storage of a node that is weighed; 65 J for each of 8 GPUs, of a GB300's power supplies."""
    band: tuple[Frequency, Frequency] = (0.1, 20.0)
    """The band of frequencies that is specified, Hz."""
    band_share: Share = 0.2
    """Most energy of the swings that may lie in the band."""
    ramp_megawatts: Annotated[FiniteFloat, Gt(0)] | None = None
    """Largest change within a second that is admitted at the site, MW; null = none is specified."""
    swing_megawatts: Annotated[FiniteFloat, Gt(0)] | None = None
    """Largest difference between most and least power of the site that is admitted, MW; null = none is specified."""
    level: str = "@power"
    """The second hierarchy, or level, whose domains are fed together."""
    cap_watts: Watts | None = None
    """What each of its domains may draw; null = no cap, but for those of `caps`."""
    caps: Mapping[str, Watts] = field(default_factory=dict)
    """What single domains may draw, by name."""
    jobs: Mapping[str, JobPower] = field(default_factory=dict)
    """What single jobs do otherwise, by name."""

    def __post_init__(self) -> None:
        """Refuse, by ``ValueError``, a band without width."""
        if self.band[0] >= self.band[1]:
            raise ValueError("the band must rise: two frequencies in Hz, the lower first")

    def watts_of(self, gpu_type: str) -> NodeWatts:
        """Return what a node with GPUs of a type draws."""
        return self.types.get(gpu_type, self.watts)

    @property
    def capped(self) -> bool:
        """Whether any power domain has a cap."""
        return self.cap_watts is not None or bool(self.caps)


def read_power(source: Source, cluster: Cluster) -> PowerSettings:
    """Read a power file, YAML or JSON.

    :raises InvalidInput: an unknown key, an impossible value, or a level, domain or type that the cluster has not; with
        its line.
    """
    from ground.documents import load_document

    document = load_document(source)
    settings = document.parse(PowerSettings)
    named = settings.level != PowerSettings().level
    where = document.where("level" if named else "cap_watts")
    fed = cluster.level(settings.level, where=where).domains if named or settings.capped else ()
    for key, what, names in (("types", "type of GPU", [*cluster.nodes_of_type]), ("caps", "power domain", fed)):
        for name in getattr(settings, key):
            if name not in names:
                fix = f"{did_you_mean(name, names)}use one of: {', '.join(names[:5]) or 'none'}"
                raise InvalidInput(f"the cluster has no {what} {name!r}", where=document.where(key, name), fix=fix)
    return settings


class PowerFigures(JsonRecord):
    """What one power domain, or the site, draws over time."""

    mean_megawatts: NotNegative
    """Mean power."""
    peak_megawatts: NotNegative
    """Most power."""
    swing_megawatts: NotNegative
    """Most less least power."""
    ramp_megawatts: NotNegative
    """Largest change of power within a second, up or down: MW/s over 1 s."""
    band_share: Share
    """Share of the energy of the swings at the frequencies of the specified band; 0 where nothing swings."""

    @property
    def cells(self) -> dict[str, str]:
        """The figures as tables have them, by what stands above them."""
        names = {"mean MW": "mean", "peak MW": "peak", "swing MW": "swing", "ramp MW/s": "ramp"}
        megawatts = {header: f"{getattr(self, f'{name}_megawatts'):.3f}" for header, name in names.items()}
        return megawatts | {"in the band": percent(self.band_share)}

    def within(self, settings: PowerSettings) -> bool:
        """Return whether the specification is met."""
        limits = (self.ramp_megawatts, settings.ramp_megawatts), (self.swing_megawatts, settings.swing_megawatts)
        share_ok = self.band_share <= settings.band_share
        return share_ok and all(most is None or megawatts <= most for megawatts, most in limits)
