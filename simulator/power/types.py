"""What power over time amounts to, in numbers; without the arrays that they are computed from."""

from __future__ import annotations

from dataclasses import dataclass

from ground.quantities import percent
from ground.records import JsonRecord, NotNegative, Share
from simulator.power.power_file import PowerSettings


@dataclass(frozen=True, slots=True)
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
        return share_ok and all(most is None or found <= most for found, most in limits)
