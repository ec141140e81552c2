"""Writes what is made from the program: ``make reference``."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from docs.generate.chart import MANIFESTS, chart_files
from docs.generate.commands import commands_text
from docs.generate.dashboard import dashboard_text
from docs.generate.formats import formats_text
from docs.generate.peers_picture import peers_picture
from docs.generate.schemas import schemas_text


def generated() -> Mapping[Path, str]:
    """Return each file that is made, and its text."""
    reference, dashboard = Path(__file__).parents[1] / "reference", dashboard_text()
    pages = {
        reference / "commands.md": commands_text(),
        reference / "formats.md": formats_text(),
        reference / "schemas.md": schemas_text(),
        reference.parent / "peers.svg": peers_picture(),
        MANIFESTS / "components/monitoring/dashboard.json": dashboard,
    }
    return pages | {MANIFESTS / "chart" / name: text for name, text in chart_files(dashboard).items()}


if __name__ == "__main__":
    files = generated()
    shutil.rmtree(MANIFESTS / "chart", ignore_errors=True)
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
