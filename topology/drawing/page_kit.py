"""What pages are made of: elements of inline SVG, colours, and templates of pages that are one file.

Elements take names and numbers and give escaped markup; lengths are in pixels, y grows downwards.  ``kind`` are classes
of the style sheet.  Further attributes are given by name, with an underscore for a hyphen: numbers are rounded to two
digits, ``True`` stands without a value, ``None`` and ``False`` are left out.  ``tip`` is what the page shows while the
pointer rests on an element.

Colours are chosen to stay apart for the common kinds of colour blindness: blue against orange for good against bad,
grey for what is not for us, and lightness that differs where hue may not be seen.  Ramps and wheels are computed in
OKLCH (Ottosson, "A perceptual color space for image processing", 2020), in which equal steps look equal.

Style, script, data and drawing of a page are inside it, and a security policy lets it fetch nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from itertools import chain
from math import cos, isnan, pi, sin
from typing import TYPE_CHECKING, Any

from ground.quantities import decimal, duration, fixed, label_of, number, percent, plural, seconds, times
from topology.cluster import State

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

Attribute = str | float | bool | None
XY = tuple[float, float]


def svg(
    kind: str, width: float, height: float, parts: Iterable[str], *, title: str, corner: float = 0.0, **more: Attribute
) -> str:
    """Return a whole drawing; the title is what a screen reader says, the corner x and y of the upper left one."""
    box = {"viewBox": f"{svg_number(corner)} {svg_number(corner)} {svg_number(width)} {svg_number(height)}"}
    spoken: dict[str, Attribute] = {"role": "img", "aria_label": title}
    tag = _tag("svg", kind, box, {"width": width, "height": height}, spoken, more)
    return "\n".join([f"{tag}>", *parts, "</svg>"])


def rect(x: float, y: float, width: float, height: float, kind: str, *, tip: str = "", **more: Attribute) -> str:
    """Return a rectangle."""
    places = {"x": x, "y": y, "width": width, "height": height}
    return f"{_tag('rect', kind, places, more, {'data_tip': tip or None})}/>"


def circle(x: float, y: float, radius: float, kind: str, *, tip: str = "", **more: Attribute) -> str:
    """Return a circle."""
    return f"{_tag('circle', kind, {'cx': x, 'cy': y, 'r': radius}, {'data_tip': tip or None}, more)}/>"


def line(start: XY, end: XY, kind: str) -> str:
    """Return a straight line."""
    return f"{_tag('line', kind, {'x1': start[0], 'y1': start[1], 'x2': end[0], 'y2': end[1]})}/>"


def label(
    x: float, y: float, words: str, *, kind: str = "axis", size: float = 12.0, anchor: str = "", **more: Attribute
) -> str:
    """Return a line of text; x is where it has its anchor (start, ``middle`` or ``end``), y its base line."""
    places = {"x": x, "y": y, "font_size": size}
    return f"{_tag('text', kind, more, places, {'text_anchor': anchor or None})}>{escape(words)}</text>"


def path(points: Iterable[XY], kind: str) -> str:
    """Return a line through points; one that is NaN interrupts it."""
    return f'<path class="{kind}" d="{_way(points)}"/>'


def area(upper: Iterable[XY], lower: Iterable[XY], kind: str) -> str:
    """Return the area between two lines with a point each at the same places; none where one of them is NaN."""
    pieces: list[tuple[list[XY], list[XY]]] = [([], [])]
    for above, below in zip(upper, lower, strict=True):
        if isnan(above[1] + below[1]):
            pieces.append(([], []))
            continue
        pieces[-1][0].append(above)
        pieces[-1][1].append(below)
    ways = (f"{_way(there)}L{_way(reversed(back))[1:]}Z" for there, back in pieces if there)
    return f'<path class="{kind}" d="{"".join(ways)}"/>'


def svg_number(value: float) -> str:
    """Return a length with at most two digits behind the point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _way(points: Iterable[XY]) -> str:
    """Return the commands of a path: one number for a level or upright stretch; level ones in a row become one."""
    parts: list[str] = []
    last: tuple[str, str] | None = None
    for x, y in points:
        if isnan(y):
            last = None
            continue
        here = svg_number(x), svg_number(y)
        if last is None:
            parts.append(f"M{here[0]} {here[1]}")
        elif here[1] == last[1]:
            if parts[-1][0] == "H":
                parts.pop()
            parts.append(f"H{here[0]}")
        else:
            parts.append(f"V{here[1]}" if here[0] == last[0] else f"L{here[0]} {here[1]}")
        last = here
    return "".join(parts)


def _tag(name: str, kind: str, *attributes: Mapping[str, Attribute]) -> str:
    """Return the beginning of an element, up to its last attribute."""
    tag = f'<{name} class="{kind}"'
    for key, value in chain.from_iterable(some.items() for some in attributes):
        if value is None or value is False:
            continue
        tag += f" {key.replace('_', '-')}"
        if value is not True:
            tag += f'="{escape(value) if isinstance(value, str) else svg_number(value)}"'
    return tag


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


def colour_ramp(count: int) -> tuple[str, ...]:
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
            shown = [min(max(value, 0.0), 1.0) for value in linear]
            srgb = (12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055 for value in shown)
            return "#" + "".join(f"{round(255 * value):02x}" for value in srgb)
        chroma *= 0.95


POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

OWN = "topology.drawing"


def render(
    package: str,
    template: str,
    *,
    raw: Mapping[str, str] | None = None,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    **values: Any,
) -> str:
    """Fill a template.

    Pages extend ``frame.html.j2``, which lies here: the head, the heading with the theme switch, style and script.  It
    puts those of the page behind those that all pages share (the tooltips read the element ``data``).  The forms of
    :mod:`ground.quantities` are filters, as is :func:`with_code`: ``{{ wait | duration }}``.

    :param package: where the template, its style sheets and scripts lie; they may lie in the package above too.
    :param raw: values that are markup already and are not escaped, as all others are.
    """
    from markupsafe import Markup

    colours = {
        f"states_{ground}": [(state.name.lower(), colour) for state, colour in palette.items()]
        for ground, palette in (("light", LIGHT), ("dark", DARK))
    }
    theme = _environment(OWN).get_template("theme.css.j2").render(colours)
    code = {"theme": theme, "script": source(package, "page.js", *scripts), "style": source(package, *styles)}
    markup = {name: Markup(text) for name, text in (code | dict(raw or {})).items()}
    return _environment(package).get_template(template).render(markup | {"policy": POLICY} | values)


def source(package: str, *names: str) -> str:
    """Return the text of files that lie beside the modules of a package, or in the package above, in one."""
    environment = _environment(package)
    assert environment.loader is not None
    return "".join(environment.loader.get_source(environment, name)[0] for name in names)


def with_code(text: str) -> Markup:
    """Return a sentence with what stands between backticks as code."""
    from markupsafe import Markup

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(Markup.escape(text))))


@cache
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    packages = dict.fromkeys((package, package.rpartition(".")[0], OWN))
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, ".") for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    forms = (decimal, duration, fixed, label_of, number, percent, plural, seconds, times, with_code)
    environment.filters.update((form.__name__, form) for form in forms)
    return environment
