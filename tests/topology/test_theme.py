"""The colours of pages: every text can be read on every ground it stands on."""

from __future__ import annotations

import re

import pytest

from topology.drawing.page_kit import render

READABLE = 4.5
"""Least contrast of text (WCAG 2.2, criterion 1.4.3, AA)."""


def luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour in hex (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """From 1, the same, to 21, black on white."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_measure_is_right() -> None:
    """Black on white is 21, and #777777 on white 4.48, the grey that is known to fail by a hair."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("ground", ["ground", "card", "hover"])
@pytest.mark.parametrize("text", ["ink", "muted", "accent", "good", "bad"])
def test_texts_can_be_read(text: str, ground: str) -> None:
    """Light and dark, on the page, on cards and on rows that are chosen or pointed at."""
    page = render("topology.drawing", "cluster.html.j2", raw={"drawing": ""}, title="", subtitle="", legend=[], data={})
    themes = re.findall(r"--ground: .*?--shadow", page, re.DOTALL)
    # light, dark by the system's choice, dark by the reader's
    assert len(themes) == 3
    for theme in themes:
        colours = dict(re.findall(r"--(\w+): (#\w{6});", theme))
        assert contrast(colours[text], colours[ground]) >= READABLE
