"""README is true: its commands run, its files are those that the demo saves, its output is what comes out."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import Arnold
from tests.page_blocks import blocks_of, compare_outputs, run_commands, unused
from tests.page_exceptions import EXCEPTIONS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.xdist_group("readme")  # its commands are run once, by one worker

ELSEWHERE = EXCEPTIONS["README.md"]

BLOCKS = blocks_of(README)
COMMANDS = [block for block in BLOCKS if block.language == "sh"]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what README's commands use of a clone."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("Makefile", "requirements.lock", "runtime.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def outputs(clone: Path) -> list[str | None]:
    """What each block of commands printed, run one after the other in the folder where the last one ended."""
    return run_commands(COMMANDS, clone, ELSEWHERE)


def test_every_exception_is_used() -> None:
    """No line is left out that README no longer has."""
    assert unused(COMMANDS, ELSEWHERE) == []


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    """Commands are run; output, rows and the job are compared: a block of another kind would go unchecked."""
    kinds = [block.language for block in BLOCKS]
    assert set(kinds) == {"sh", "text", "csv", "yaml"}
    # Output follows the commands that it is of.
    assert all(kinds[i - 1] == "sh" for i, kind in enumerate(kinds) if kind == "text")


def test_output_is_what_comes_out(outputs: Sequence[str | None]) -> None:
    """Every block of output is found in what the commands above it printed; `...` stands for anything."""
    assert compare_outputs(BLOCKS, COMMANDS, outputs)


def test_files_are_those_of_the_demo(clone: Path, outputs: Sequence[str | None]) -> None:
    """The job is shown whole, of the cluster the head and other lines of the file, in their order."""
    for block in BLOCKS:
        if block.language == "yaml":
            assert block.text == (clone / "try" / "job.yaml").read_text()
        if block.language == "csv":
            lines = (clone / "try" / "cluster.csv").read_text().splitlines()
            shown = block.text.splitlines()
            assert shown[0] == lines[0]
            assert [line for line in lines if line in shown] == shown


def test_every_size_is_held() -> None:
    """The Makefile says of downloads what README says, and CI compares each size of README with its own."""
    prose = " ".join(README.split())
    said = re.findall(r"about (\d+) MB to download", prose)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert sorted(said) == sorted(re.findall(r"install_pinned,[a-z]+\.lock,(\d+)\)", makefile))
    compared = re.findall(r'^stated_size "([^"]+)"', (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(re.findall(r"about [\d.]+ [MG]B ([\w ]+)", prose)) == sorted(compared)


def test_the_drawing_counts_as_the_program_does(arnold: Arnold, tmp_path: Path) -> None:
    """Sixteen cells on two minipods of eight nodes: spreads and objective of the drawing, proved, and its cells.

    Stages 0 and 1 of the drawing share a minipod, and 2 and 3; which stages do is any two, by symmetry.
    """
    cluster, job = tmp_path / "cluster.csv", tmp_path / "job.yaml"
    cluster.write_text("node,minipod\n" + "".join(f"n{i:02},{'AB'[i // 8]}\n" for i in range(16)))
    job.write_text("parallelism: {tp: 8, dp: 4, pp: 4}\nalpha: 0.7\n")
    placed = arnold("place", job, "--cluster", cluster, "--json").json
    drawing = (ROOT / "docs" / "idea.svg").read_text(encoding="utf-8")
    assert (placed["status"], placed["spread"], placed["objective"]) == ("optimal", {"dp": 1, "pp": 2}, 1.3)
    assert all(fact in drawing for fact in ("DP spread 1", "PP spread 2", "1.3, proved the least"))
    # each cell once in the grid, once on a node
    drawn = sorted(re.findall(r">(\d,\d)</text>", drawing))
    assert drawn == sorted(2 * [f"{row},{stage}" for row in range(4) for stage in range(4)])
