"""Time against a size: the power by which it grows, and its picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Slope of log time over log size, least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def draw_power(axes: Any, sizes: Sequence[int], seconds: Sequence[float], *, what: str, label: str) -> None:
    """Points of a matplotlib axes, and the fitted power beside them.

    :param what: the size, as in the legend.
    :param label: what the points are.
    """
    power = exponent(sizes, seconds)
    scale = float(np.exp(np.mean(np.log(seconds) - power * np.log(sizes))))
    axes.loglog(sizes, seconds, "o-", color="#1f5fa8", label=label)
    axes.loglog(sizes, [scale * n**power for n in sizes], "--", color="#c8553d", label=f"{what}$^{{{power:.2f}}}$")
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(frameon=False)


def save(figure: Any, file: Path) -> None:
    """The same bytes for the same figure."""
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
