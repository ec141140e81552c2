"""docs are true: the commands of each page run one after the other on the files of `arnold demo --save`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from arnold.demonstration import demo_files, demo_instance
from tests.case_counts import every_fourth
from tests.conftest import Arnold
from tests.page_blocks import Block, blocks_of, compare_outputs, run_commands, unused
from tests.page_exceptions import EXCEPTIONS

ROOT = Path(__file__).parents[1]
TEXTS = {
    str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").rglob("*.md"))
}
WITH_COMMANDS = [name for name, text in TEXTS.items() if any(block.language == "sh" for block in blocks_of(text))]


def commands_of(page: str) -> list[Block]:
    """Blocks of commands of a page."""
    return [block for block in blocks_of(TEXTS[page]) if block.language == "sh"]


@pytest.fixture(scope="module")
def saved() -> Mapping[str, bytes]:
    """What the demo saves."""
    cluster, job = demo_instance(0)
    return demo_files(cluster, job, 0)


def test_every_exception_is_used() -> None:
    """No page and no line is in the table that docs no longer have, and each line has a reason."""
    assert set(EXCEPTIONS) - {*WITH_COMMANDS, "README.md"} == set()
    for page in set(EXCEPTIONS) - {"README.md"}:
        assert unused(commands_of(page), EXCEPTIONS[page]) == [], page
    assert all(reason for lines in EXCEPTIONS.values() for _, reason in lines.values())


@pytest.mark.many_cases
@pytest.mark.parametrize("page", every_fourth(WITH_COMMANDS))
def test_commands_run_and_print_what_the_page_shows(
    page: str, saved: Mapping[str, bytes], arnold: Arnold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line ends well, or stands in the table with the reason; output is found in what its commands printed."""
    for name, content in saved.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of(TEXTS[page])
    commands = [block for block in blocks if block.language == "sh"]

    def run(words: Sequence[str]) -> str:
        ran = arnold(*words)
        assert ran.code == 0, f"arnold {' '.join(words)}\n{ran.out}{ran.err}"
        return ran.out

    outputs = run_commands(commands, tmp_path, EXCEPTIONS.get(page, {}), run=run)
    compare_outputs(blocks, commands, outputs)
