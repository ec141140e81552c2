"""The tutorial shows lines of the example manifest; its commands are run with those of all pages."""

from __future__ import annotations

from pathlib import Path

from tests.page_blocks import blocks_of

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tutorial" / "first-placement.md").read_text(encoding="utf-8")
MANIFEST = (ROOT / "manifests" / "examples" / "indexed-job.yaml").read_text(encoding="utf-8")


def test_lines_of_the_manifest_are_there() -> None:
    """The page shows lines of the example, as they stand there."""
    shown = [line for block in blocks_of(PAGE) if block.language == "yaml" for line in block.text.splitlines()]
    assert shown
    assert [line for line in shown if line not in MANIFEST.splitlines()] == []
