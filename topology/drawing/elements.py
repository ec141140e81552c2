"""Elements of inline SVG: names and numbers in, escaped markup out.

Lengths are in pixels, y grows downwards.  ``kind`` are classes of the style sheet.  Further attributes are given by
name, with an underscore for a hyphen: numbers are rounded to two digits, ``True`` stands without a value, ``None`` and
``False`` are left out.  ``tip`` is what the page shows while the pointer rests on an element.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from math import isnan

Attribute = str | float | bool | None
XY = tuple[float, float]


def svg(
    kind: str, width: float, height: float, parts: Iterable[str], *, title: str, corner: float = 0.0, **more: Attribute
) -> str:
    """Return a whole drawing.

    :param title: what a screen reader says.
    :param corner: x and y of the upper left corner.
    """
    box = f"{number(corner)} {number(corner)} {number(width)} {number(height)}"
    head = _attributes(
        {"class": kind, "viewBox": box, "width": width, "height": height, "role": "img", "aria_label": title} | more
    )
    return "\n".join([f"<svg{head}>", *parts, "</svg>"])


def rect(x: float, y: float, width: float, height: float, kind: str, *, tip: str = "", **more: Attribute) -> str:
    """Return a rectangle."""
    places = {"class": kind, "x": x, "y": y, "width": width, "height": height}
    return f"<rect{_attributes(places | more | {'data_tip': tip or None})}/>"


def circle(x: float, y: float, radius: float, kind: str, *, tip: str = "", **more: Attribute) -> str:
    """Return a circle."""
    return f"<circle{_attributes({'class': kind, 'cx': x, 'cy': y, 'r': radius, 'data_tip': tip or None} | more)}/>"


def line(start: XY, end: XY, kind: str) -> str:
    """Return a straight line."""
    places = {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1]}
    return f"<line{_attributes({'class': kind} | places)}/>"


def label(
    x: float, y: float, words: str, *, kind: str = "axis", size: float = 12.0, anchor: str = "", **more: Attribute
) -> str:
    """Return a line of text.

    :param x: of its start, or of what the anchor names: ``middle`` or ``end``.
    :param y: of its base line.
    """
    places = {"x": x, "y": y, "font_size": size, "text_anchor": anchor or None}
    return f"<text{_attributes({'class': kind} | more | places)}>{escape(words)}</text>"


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
    """Return the commands of a path: level and upright stretches take one number each, and level ones that follow each
    other become one.
    """
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


def _attributes(values: dict[str, Attribute]) -> str:
    return "".join(_attribute(name.replace("_", "-"), value) for name, value in values.items())


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    return f' {name}="{escape(value) if isinstance(value, str) else number(value)}"'
