"""Writes the generated pages of the reference: ``make reference``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.generate.commands import commands_text
from docs.generate.formats import formats_text
from docs.generate.schemas import schemas_text

PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands_text,
    "formats.md": formats_text,
    "schemas.md": schemas_text,
}
"""File below docs/reference -> what writes its text."""

if __name__ == "__main__":
    for name, text in PAGES.items():
        (Path(__file__).parents[1] / "reference" / name).write_text(text(), encoding="utf-8")
