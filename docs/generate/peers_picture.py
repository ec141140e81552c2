"""README's first picture: the spread of twelve gangs, by the table of real peers in docs/how-it-works/benchmarks.md."""

from __future__ import annotations

import re
from pathlib import Path

TABLE = Path(__file__).parents[1] / "how-it-works/benchmarks.md"
HEADING = "### Real peers"
WIDTH, TOP, ROW, LEFT, LONGEST = 760, 96, 58, 236, 340

STYLE = """
    .page { fill: #ffffff; stroke: #d0d5dd; }
    .head { fill: #1d2733; font-size: 23px; font-weight: bold; }
    .text { fill: #1d2733; font-size: 21px; }
    .soft { fill: #566473; font-size: 18px; }
    .peer { fill: #8a97a6; } .ours { fill: #1f6fb4; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #14191f; stroke: #3a4552; }
      .head, .text { fill: #e8edf2; }
      .soft { fill: #a9b5c2; }
      .peer { fill: #6d7a88; } .ours { fill: #4f9fe0; }
    }
  """


def peers_picture() -> str:
    """Return the SVG.

    :raises ValueError: the page has no such table.
    """
    section = TABLE.read_text(encoding="utf-8").partition(HEADING)[2].partition("\n## ")[0]
    sums = {name.strip(): float(value) for name, value in re.findall(r"^\| (\w[^|]*) \| ([\d.]+) \|", section, re.M)}
    if "Arnold" not in sums:
        raise ValueError(f"{TABLE} has no row of Arnold below {HEADING!r}")
    ours, most = sums["Arnold"], max(sums.values())
    rows, height = [], TOP + ROW * len(sums) + 44
    for number, (name, value) in enumerate(sorted(sums.items(), key=lambda row: -row[1])):
        y, width = TOP + ROW * number, LONGEST * value / most
        kind, times = ("ours", "") if name == "Arnold" else ("peer", f", {value / ours:.2f} times")
        rows += [
            f'<text class="text" x="28" y="{y + 27}">{name}</text>',
            f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{width:.0f}" height="38" rx="5"/>',
            f'<text class="text" x="{LEFT + width + 10:.0f}" y="{y + 27}">{value:g}{times}</text>',
        ]
    told = ", ".join(f"{name} {value:g}" for name, value in sums.items())
    body = "\n  ".join(rows)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" \
aria-labelledby="title what" font-family="Helvetica, Arial, sans-serif">
  <title id="title">Spread of twelve gangs by scheduler, less is better</title>
  <desc id="what">Half DP and half PP spread, summed over twelve gangs on one Kubernetes control plane: {told}.</desc>
  <style>{STYLE}</style>
  <rect class="page" x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" rx="14"/>
  <text class="head" x="28" y="44">Spread of twelve gangs, summed: less is better</text>
  <text class="soft" x="28" y="74">real schedulers on one Kubernetes, each in its best mode for topology</text>
  {body}
  <text class="soft" x="28" y="{height - 22}">half the DP and half the PP spread of each gang; times: of Arnold's</text>
</svg>
"""
