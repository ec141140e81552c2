"""A real browser without a window, for tests of pages."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from html import escape, unescape
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


OUTSIDE = """<!DOCTYPE html><title>outside</title><iframe width="{width}" height="900" style="border:0" srcdoc="{page}">
</iframe><script>
addEventListener("load", () => setTimeout(() => {{
  const inside = document.querySelector("iframe").contentDocument;
  {act}
  const made = document.createElement("pre");
  made.textContent = inside.documentElement.outerHTML;
  made.dataset.wide = inside.documentElement.scrollWidth;
  document.body.replaceChildren(made);
}}, 4000));
</script>"""
"""A frame as wide as the screen that is asked for: a window itself cannot be as narrow as a phone."""


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


def show(page: str, folder: Path, *, width: int, act: str = "") -> Shown:
    """Open a page on a screen so wide; skips where no browser is installed.

    :param act: script that does what a user would; ``inside`` is the document of the page.
    """
    file = folder / "outside.html"
    file.write_text(OUTSIDE.format(width=width, page=escape(page), act=act), encoding="utf-8")
    done = run_browser(file, folder, milliseconds=10_000)
    found = re.search(r'<pre data-wide="(\d+)">(.*)</pre>', done.stdout, re.S)
    assert found is not None, done.stderr
    return Shown(unescape(found[2]), re.findall(r"CONSOLE.*", done.stderr), int(found[1]))


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
