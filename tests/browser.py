"""A real browser without a window, for tests of pages."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--enable-logging=stderr",
    "--force-prefers-reduced-motion",
    "--dump-dom",
)


OUTSIDE = """<!DOCTYPE html><title>outside</title><body><script>
const views = {views};
const acts = [{acts}];
const made = [];
function show(number) {{
  if (number === views.length) {{
    document.body.replaceChildren(...made);
    return;
  }}
  const frame = document.createElement("iframe");
  Object.assign(frame, {{ width: views[number].width, height: 900, style: "border:0", srcdoc: views[number].page }});
  frame.addEventListener("load", () => setTimeout(() => {{
    const inside = frame.contentDocument;
    acts[number](inside);
    const dom = document.createElement("pre");
    dom.textContent = inside.documentElement.outerHTML;
    dom.dataset.wide = inside.documentElement.scrollWidth;
    made.push(dom);
    console.log("{end}");
    show(number + 1);
  }}, 4000));
  document.body.replaceChildren(frame);
}}
show(0);
</script>"""
"""One page after the other in a frame as wide as its screen: a window itself cannot be as narrow as a phone."""

END = "that was one page"
"""What is written to the console after each page, which tells whose messages were whose."""


@dataclass(frozen=True, slots=True)
class View:
    """A page on a screen so wide.

    :param act: script that does what a user would; ``inside`` is the document of the page.
    """

    page: str
    width: int
    act: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A page after its scripts have run.

    :param dom: its markup by then.
    :param said: what was written to the console.
    :param width: of what it would like to show: more than the screen's = it must be pushed from side to side.
    """

    dom: str
    said: list[str]
    width: int


def show(views: Sequence[View], folder: Path) -> list[Shown]:
    """Open pages in one browser, whose start takes longer than any of them; skips where none is installed."""
    listed = json.dumps([{"page": view.page, "width": view.width} for view in views]).replace("<", "\\u003c")
    acts = ",".join(f"(inside) => {{{view.act}}}" for view in views)
    file = folder / "outside.html"
    file.write_text(OUTSIDE.format(views=listed, acts=acts, end=END), encoding="utf-8")
    done = run_browser(file, folder, milliseconds=10_000 * len(views))
    made = re.findall(r'<pre data-wide="(\d+)">(.*?)</pre>', done.stdout, re.S)
    assert len(made) == len(views), done.stderr
    said: list[list[str]] = [[]]
    for line in re.findall(r"CONSOLE.*", done.stderr):
        if END in line:
            said.append([])
        else:
            said[-1].append(line)
    return [Shown(unescape(dom), lines, int(wide)) for (wide, dom), lines in zip(made, said, strict=False)]


def run_browser(file: Path, folder: Path, *, milliseconds: int) -> subprocess.CompletedProcess[str]:
    """Open a file; stdout is its markup when its scripts have run.  Skips where no browser is installed.

    :param folder: of the browser's own files.
    :param milliseconds: of the page's clock, which goes on at once where scripts only wait.
    """
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium is installed: pages cannot be looked at in a browser")
    options = [
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=1500,1000",
        f"--virtual-time-budget={milliseconds}",
    ]
    return subprocess.run(
        [program, *FLAGS, *options, file.as_uri()], capture_output=True, text=True, timeout=900, check=True
    )
