"""What gets shipped."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.wheels import ROOT, files_of_packages, packages, shipped


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from a copy so that nothing is left in the checkout and nothing old slips in."""
    folder = tmp_path_factory.mktemp("wheel")
    for package in packages():
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder / "dist"),
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = (folder / "dist").glob("*.whl")
    return zipfile.ZipFile(file)


def test_wheel_holds_our_packages_whole(wheel: zipfile.ZipFile) -> None:
    """Every file of the six packages is in the wheel, data files and type markers included, and nothing else is."""
    assert packages() == ["arnold", "extender", "health", "scheduler", "simulator", "topology"]
    ours = files_of_packages()
    # Code alone would not do: type markers, templates, styles and scripts of pages are files of packages too.
    assert {".py", ".typed", ".j2", ".css", ".js"} <= {Path("x" + name.rpartition("/")[2]).suffix for name in ours}
    assert shipped(wheel) == ours


def test_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    """Licence, command and algorithms are in the metadata."""
    files = {Path(name).name: name for name in wheel.namelist() if ".dist-info/" in name}
    assert "Apache License" in wheel.read(files["LICENSE"]).decode()
    assert "License-Expression: Apache-2.0" in wheel.read(files["METADATA"]).decode()
    points = wheel.read(files["entry_points.txt"]).decode()
    assert "arnold = arnold.main:main" in points
    assert "[arnold.placement]" in points
