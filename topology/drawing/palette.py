"""Colours of drawings: states of nodes, ordered ramps, and wheels for many names.

Chosen to stay apart for the common kinds of colour blindness: blue against orange for good against bad, grey for what
is not for us, and lightness that differs where hue may not be seen.  Ramps and wheels are computed in OKLCH (Ottosson,
"A perceptual color space for image processing", 2020), in which equal steps look equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import cos, pi, sin

from topology.states import State

LIGHT: Mapping[State, str] = {
    State.FREE: "#5b9fd4",
    State.PARTLY: "#b4cbde",
    State.BUSY: "#cfd2d6",
    State.KEPT_OUT: "#a79fb5",
    State.SLOW: "#f3c64b",
    State.SLOWER: "#ec9a29",
    State.SLOWEST: "#d9601b",
    State.FAULTY: "#6b1230",
}
"""Colour of each state on a light ground."""

DARK: Mapping[State, str] = {
    State.FREE: "#4c8fc4",
    State.PARTLY: "#3f5a72",
    State.BUSY: "#3b4149",
    State.KEPT_OUT: "#615a70",
    State.SLOW: "#e0b444",
    State.SLOWER: "#dd8a23",
    State.SLOWEST: "#d2581a",
    State.FAULTY: "#e0527d",
}
"""Colour of each state on a dark ground."""


_STOPS = (
    (300.0, 0.50, 0.16),
    (264.0, 0.59, 0.15),
    (232.0, 0.71, 0.12),
    (186.0, 0.74, 0.11),
    (148.0, 0.72, 0.15),
    (98.0, 0.84, 0.16),
    (60.0, 0.73, 0.16),
    (24.0, 0.57, 0.19),
)
"""Hue, lightness and chroma from which ramps are drawn: violet, blue, sky, teal, green, yellow, orange, red."""


def ramp(count: int) -> tuple[str, ...]:
    """Return colours for things in order (pipeline stages, rows): violet over blue, green and yellow to red."""
    colours = []
    for i in range(count):
        place = i / (count - 1) * (len(_STOPS) - 1) if count > 1 else 1.0
        left = min(int(place), len(_STOPS) - 2)
        share = place - left
        low, high = _STOPS[left], _STOPS[left + 1]
        hue, lightness, chroma = (a + (b - a) * share for a, b in zip(low, high, strict=True))
        colours.append(_oklch(lightness, chroma, hue))
    return tuple(colours)


def wheel(count: int) -> tuple[str, ...]:
    """Return colours for many names without order (domains): neighbours in the list lie far apart in hue."""
    golden = 137.508
    return tuple(_oklch((0.60, 0.74, 0.50)[i % 3], (0.13, 0.11, 0.11)[i % 3], 250.0 + golden * i) for i in range(count))


def tones(count: int) -> tuple[str, ...]:
    """Return colours for a few names, drawn beside states of nodes: violet and green by turns, dark to light."""
    lightness = (0.30 + 0.50 * i / max(1, count - 1) for i in range(count))
    return tuple(_oklch(light, 0.14, (310.0, 150.0)[i % 2]) for i, light in enumerate(lightness))


def _oklch(lightness: float, chroma: float, hue: float) -> str:
    """Return an OKLCH colour as sRGB hex, with less chroma where sRGB cannot show it."""
    while True:
        a, b = chroma * cos(hue * pi / 180), chroma * sin(hue * pi / 180)
        long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
        medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
        short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
        linear = (
            4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
            -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
            -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
        )
        if all(-1e-6 <= value <= 1 + 1e-6 for value in linear) or chroma < 0.01:
            return "#" + "".join(f"{round(255 * _gamma(value)):02x}" for value in linear)
        chroma *= 0.95


def _gamma(linear: float) -> float:
    value = min(max(linear, 0.0), 1.0)
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
