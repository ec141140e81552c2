"""The guard against another project's package of the same name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from arnold.main import PACKAGES
from tests.facts import says

ROOT = Path(__file__).parents[1]

FOREIGN_INIT = '"""A simple in-process scheduler for Python."""\n'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a copy of our packages, as pip would install them."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run_arnold(site: Path) -> subprocess.CompletedProcess[str]:
    """Run what the console script runs, on the packages of that folder (-P: not on those of the current one)."""
    code = f"""
import sys
sys.path.insert(0, {str(site)!r})
sys.argv[1:] = ["--version"]
from arnold.main import main
main()
"""
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)


def test_our_own_packages_pass(site: Path) -> None:
    """Nothing is in the way where both packages are ours."""
    assert run_arnold(site).returncode == 0


def test_foreign_scheduler_installed_over_ours(site: Path) -> None:
    """Another distribution wrote scheduler/__init__.py last: the command says so instead of running in its shell."""
    (site / "scheduler" / "__init__.py").write_text(FOREIGN_INIT)
    done = run_arnold(site)
    assert done.returncode == 1
    assert "the package 'scheduler' at" in done.stderr
    assert says(done.stderr, "To fix:", "environment of its own")
    assert "Traceback" not in done.stderr


def test_a_foreign_package_that_cannot_be_imported(site: Path) -> None:
    """The other distribution's own dependencies may be missing: one line says which, without a traceback."""
    (site / "scheduler" / "__init__.py").write_text("import typeguard_of_another_project\n")
    done = run_arnold(site)
    assert done.returncode == 1
    assert done.stderr == "Error: No module named 'typeguard_of_another_project'\n"


def test_foreign_scheduler_uninstalled_over_ours(site: Path) -> None:
    """Uninstalling the other distribution takes scheduler/__init__.py away: what is left is not taken for ours."""
    (site / "scheduler" / "__init__.py").unlink()
    done = run_arnold(site)
    assert done.returncode == 1
    assert "the package 'scheduler' at" in done.stderr


def test_foreign_topology(site: Path) -> None:
    """A foreign package topology stops the command at once, with the same advice."""
    (site / "topology" / "__init__.py").write_text("")
    done = run_arnold(site)
    assert done.returncode == 1
    assert "Error: the package 'topology' at" in done.stderr
    assert "To fix:" in done.stderr


def test_a_module_topology_on_pythonpath(site: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The usual trap: a topology.py of one's own and PYTHONPATH=.; told without a traceback, and what to unset."""
    trap = tmp_path_factory.mktemp("repository")
    (trap / "topology.py").write_text("ranks = 8\n")
    script = tmp_path_factory.mktemp("bin") / "arnold"
    script.write_text("from arnold.main import main\nmain()\n")
    env = {"PYTHONPATH": f"{trap}{os.pathsep}{site}"}
    command = [sys.executable, "-P", str(script), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | env)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: the package 'topology' at {trap / 'topology.py'} does not belong")
    assert says(done.stderr, "To fix:", "PYTHONPATH")
    assert "Traceback" not in done.stderr
