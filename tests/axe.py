"""axe-core on pages in a real browser: what a rule of accessibility does not allow."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest

from tests.browser import run_browser

VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
"""Of the package, as npm writes it; MPL-2.0: fetched to test with, not part of Arnold."""

WIDTHS = (1280, 400)  # Pixels of a laptop's screen and of a telephone's
THEMES = ("light", "dark")

OUTSIDE = """<!DOCTYPE html><meta charset="utf-8"><title>outside</title>
<script id="axe" type="text/plain">{axe}</script><script id="pages" type="application/json">{pages}</script>
<script>
const settled = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
addEventListener("load", async () => {{
  const found = [];
  for (const [name, text] of Object.entries(JSON.parse(document.getElementById("pages").textContent))) {{
    for (const width of {widths}) {{
      const frame = document.createElement("iframe");
      Object.assign(frame, {{ width, height: 900, srcdoc: text }});
      const loaded = new Promise((done) => frame.addEventListener("load", done));
      document.body.replaceChildren(frame);
      await loaded;
      const inside = frame.contentDocument;
      const script = inside.createElement("script");
      script.textContent = document.getElementById("axe").textContent;
      inside.head.append(script);
      inside.querySelectorAll("details").forEach((one) => {{ one.open = true; }});
      for (const theme of {themes}) {{
        for (const one of [inside.documentElement, inside.body]) one.dataset.theme = theme;
        await settled(500);
        const {{ violations }} = await frame.contentWindow.axe.run(inside, {{ resultTypes: ["violations"] }});
        const places = (one) => one.nodes.map((node) => node.target.join(" "));
        for (const one of violations) found.push([name, width, theme, one.id, places(one)]);
      }}
    }}
  }}
  const made = document.createElement("pre");
  made.textContent = JSON.stringify(found);
  document.body.replaceChildren(made);
}});
</script>"""


@dataclass(frozen=True, slots=True)
class Violation:
    """What a rule does not allow, on one page as it was shown.

    :param rule: its name in axe-core.
    :param places: selectors of the elements.
    """

    page: str
    width: int
    theme: str
    rule: str
    places: Sequence[str]


def violations(pages: Mapping[str, str], folder: Path, axe: str) -> list[Violation]:
    """Show every page at each width in both themes, with all that can be unfolded, and ask axe-core.

    :param pages: name -> page.
    :param axe: the script.
    """

    def inside_script(text: str) -> str:
        return text.replace("</", "<\\/")

    file = folder / "pages.html"
    written = OUTSIDE.format(
        axe=inside_script(axe), pages=inside_script(json.dumps(pages)), widths=list(WIDTHS), themes=list(THEMES)
    )
    file.write_text(written, encoding="utf-8")
    done = run_browser(file, folder, milliseconds=1_000_000)
    found = re.search(r"<pre>(.*)</pre>", done.stdout, re.S)
    assert found is not None, done.stderr
    return [Violation(*one) for one in json.loads(unescape(found[1]))]


def axe_script(folder: Path) -> str:
    """Return axe-core, fetched by npm unless the folder has it; skips where there is no npm, or it fetches nothing.

    :param folder: kept from run to run.
    """
    archive = folder / f"axe-core-{VERSION}.tgz"
    if not archive.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm is installed: axe-core cannot be fetched")
        # Each of the tests' processes fetches into a folder of its own: the archive is there whole, or not at all.
        with tempfile.TemporaryDirectory(dir=folder) as fetched:
            command = [npm, "pack", f"axe-core@{VERSION}", "--ignore-scripts", "--pack-destination", fetched]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=folder)
            if done.returncode:
                pytest.skip(f"npm could not fetch axe-core: {done.stderr.strip()[-200:]}")
            (Path(fetched) / archive.name).replace(archive)
    content = archive.read_bytes()
    digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
    assert digest == SHA512, f"{archive} is not the axe-core that was looked at"
    with tarfile.open(fileobj=io.BytesIO(content)) as package:
        member = package.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()
