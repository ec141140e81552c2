"""Elements of inline SVG: names and numbers in, escaped markup out; lengths in pixels, y grows downwards.

``kind`` are classes of the style sheet.  Further attributes are given by name, with an underscore for a hyphen: numbers
are rounded to two digits, ``True`` stands without a value, ``None`` and ``False`` are left out.  ``tip`` is what the
page shows while the pointer rests on an element.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from itertools import chain
from math import isnan

Attribute = str | float | bool | None
XY = tuple[float, float]


def svg(
    kind: str, width: float, height: float, parts: Iterable[str], *, title: str, corner: float = 0.0, **more: Attribute
) -> str:
    """Return a whole drawing; the title is what a screen reader says, the corner x and y of the upper left one."""
    box = {"viewBox": f"{number(corner)} {number(corner)} {number(width)} {number(height)}"}
    said: dict[str, Attribute] = {"role": "img", "aria_label": title}
    return "\n".join([f"{_tag('svg', kind, box, {'width': width, 'height': height}, said, more)}>", *parts, "</svg>"])


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


def number(value: float) -> str:
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
        here = number(x), number(y)
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
    pairs = chain.from_iterable(some.items() for some in attributes)
    return f'<{name} class="{kind}"' + "".join(_attribute(key.replace("_", "-"), value) for key, value in pairs)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    return f' {name}="{escape(value) if isinstance(value, str) else number(value)}"'
