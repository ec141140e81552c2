"""Folders and files of tests may be named together, in any order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_a_file_above_stands_between_two_of_a_folder() -> None:
    """The fixtures of the folder are found for both; pytest sets them up, and runs no test."""
    one, other = (
        f"tests/arnold/commands/{name}"
        for name in ("test_cli_placement_outputs.py", "test_cli_repeated_options.py::test_busy_files_are_merged")
    )
    named = [one, "tests/test_case_counts.py", other]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "--setup-plan", *named]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
