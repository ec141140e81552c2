"""docs/launching.md is true: its commands run in their order, and their output is what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.page_blocks import blocks_of, compare_outputs, run_commands, unused

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "launching.md").read_text(encoding="utf-8")
MANIFEST = (ROOT / "manifests" / "examples" / "indexed-job.yaml").read_text(encoding="utf-8")

pytestmark = pytest.mark.xdist_group("launching")  # its commands are run once, by one worker

REAL = "tests/arnold/exports/test_real_launchers.py runs the file with the real program"
ELSEWHERE = {
    "sbatch ": ("", REAL),
    "mpirun": ("", REAL),
    "while read -r node": (
        'while read -r node command; do test "$node" && test "$command"; done < job.torchrun',
        "needs nodes; the lines are read as they would be",
    ),
    "kubectl apply": ("", "needs a cluster; tests/e2e place gangs on one"),
    "kubectl get gangplans": ("", "needs a cluster"),
    "kubectl arnold": ("", "needs a cluster; tests/e2e/test_live_reading.py has it describe a gang"),
    "arnold place --cluster kube:": ("", "needs a cluster; tests/e2e/test_live_reading.py places a job on one"),
    "kubectl get nodes": ("", "needs a cluster; tests/topology/readers read such nodes"),
}
"""Beginning of a line -> what is run in its place, and why."""

BLOCKS = blocks_of(PAGE)
COMMANDS = [block for block in BLOCKS if block.language == "sh"]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each block of commands printed, one after the other, from an empty folder on."""
    return run_commands(COMMANDS, tmp_path_factory.mktemp("launching"), ELSEWHERE)


def test_every_exception_is_used() -> None:
    """No line is left out that the page no longer has."""
    assert unused(COMMANDS, ELSEWHERE) == []


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    """Commands are run, output and lines of the manifest are compared."""
    kinds = [block.language for block in BLOCKS]
    assert set(kinds) == {"sh", "text", "yaml"}
    assert all(kinds[i - 1] == "sh" for i, kind in enumerate(kinds) if kind == "text")


def test_output_is_what_comes_out(outputs: Sequence[str]) -> None:
    """Every block of output is found in what the commands above it printed."""
    assert compare_outputs(BLOCKS, COMMANDS, outputs) == sum(block.language == "text" for block in BLOCKS)


def test_lines_of_the_manifest_are_there() -> None:
    """The page shows lines of the example, as they stand there."""
    shown = [line for block in BLOCKS if block.language == "yaml" for line in block.text.splitlines()]
    assert shown
    assert [line for line in shown if line not in MANIFEST.splitlines()] == []
