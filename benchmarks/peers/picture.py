"""The picture of peers.md of the docs: one recording with a fault in it, and what the detector makes of it.

``python -m benchmarks.peers.picture docs/how-it-works/health/peers.svg`` draws it anew; same code, same bytes.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.peers.faults import KINDS, Effect, Fault, inject
from benchmarks.peers.streams import healthy_job, recording
from ground.files import write_file
from health.peers.comparison import NEW, ComparisonSettings, Windows, detect
from health.peers.streams import FloatArray, align
from health.peers.verdict import Stretch

WIDTH, LEFT, RIGHT = 760, 62, 24
TOPS, HEIGHT = (58, 236), 130
SECONDS = 900
SEED = 4
TALL = 44.0
INK, MUTED, GRID, PEER, CULPRIT = "#1d2329", "#68727d", "#e3e6e9", "#9fb8cf", "#d9601b"


def picture() -> str:
    """The SVG."""
    rng = np.random.default_rng(SEED)
    job = healthy_job(16, rng)
    shown = {"cpu_usage": Effect(0.3, 1.0)}
    kind = replace(next(one for one in KINDS if one.name == "CUDA execution error"), effects=shown)
    fault = Fault(kind.name, "n0005", 240, "full", "to the end")
    inject(job, kind, fault, rng)
    given = recording(job, rng, source="picture")
    (metric, alert), *_ = [(one.metric, one.alerts[0]) for one in detect(given, ComparisonSettings()) if one.alerts]
    grid = align(given.metrics[metric], machines=given.machines)
    columns, names = np.arange(grid.values.shape[1]), given.machines
    score = Windows(grid, columns, ComparisonSettings(), needed=240, machines=names, changed=()).score
    row = names.index(alert.machine)
    mine, others = score[row], np.delete(score, row, axis=0).max(axis=0)
    parts = [
        *_panel(TOPS[0], "CPU usage of 16 machines, %", TALL, (0, 20, 40)),
        *(_line(grid.values[k], TOPS[0], TALL, PEER, 0.7) for k in range(len(grid.values)) if k != row),
        _line(grid.values[row], TOPS[0], TALL, CULPRIT, 1.3),
        *_panel(TOPS[1], "Score of the machine that stands out most, window by window", 16.0, (0, 4, 8, 12, 16)),
        _bars(others, TOPS[1], 16.0, MUTED),
        _bars(mine, TOPS[1], 16.0, CULPRIT),
        _rule(TOPS[1], NEW / 16.0, f"threshold {NEW:g}"),
        *_marks(fault, alert),
        *(_text(_x(t), TOPS[1] + HEIGHT + 18, f"{t} s", MUTED, anchor="middle") for t in range(0, 901, 150)),
    ]
    height = TOPS[1] + HEIGHT + 36
    title = f"{fault.kind} on {fault.machine} from {fault.onset} s on"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{title}"><rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        + _text(LEFT, 24, title, INK, weight="bold")
        + "".join(parts)
        + "</svg>\n"
    )


def _x(second: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * second / SECONDS


def _panel(top: float, title: str, most: float, ticks: tuple[int, ...]) -> Iterator[str]:
    yield _text(LEFT, top - 8, title, INK)
    for tick in ticks:
        y = top + HEIGHT * (1.0 - tick / most)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{GRID}"/>'
        yield _text(LEFT - 8, y + 4, str(tick), MUTED, anchor="end")


def _line(values: FloatArray, top: float, most: float, colour: str, width: float) -> str:
    """A machine's metric, every fifth second."""
    points = (f"{_x(t):.0f} {top + HEIGHT * (1.0 - min(v, most) / most):.0f}" for t, v in list(enumerate(values))[::5])
    return f'<path d="M{"L".join(points)}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _bars(values: FloatArray, top: float, most: float, colour: str) -> str:
    """A bar for every second window."""
    tall = {t: HEIGHT * min(values[t], most) / most for t in range(0, len(values), 2) if values[t] > 1.0}
    bars = "".join(f"M{_x(t + 7):.1f} {top + HEIGHT}v-{height:.0f}" for t, height in tall.items())
    return f'<path d="{bars}" stroke="{colour}" stroke-width="1.4"/>'


def _rule(top: float, share: float, text: str) -> str:
    y = top + HEIGHT * (1.0 - share)
    line = f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{INK}" stroke-dasharray="4 3"/>'
    return line + _text(LEFT + 6, y - 5, text, INK)


def _marks(fault: Fault, alert: Stretch) -> Iterator[str]:
    """Where the fault begins and where the alert is."""
    for second, text in ((float(fault.onset), "fault"), (alert.alert or 0.0, "alert")):
        x = _x(second)
        yield f'<path d="M{x:.1f} {TOPS[0]}v{HEIGHT}M{x:.1f} {TOPS[1]}v{HEIGHT}" stroke="{INK}"/>'
        yield _text(x + 5, TOPS[0] + 12, text, INK, weight="bold")


def _text(x: float, y: float, text: str, colour: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}">{text}</text>'


if __name__ == "__main__":
    write_file(sys.argv[1], picture())
