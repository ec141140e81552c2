"""What a wheel of this checkout has to hold."""

from __future__ import annotations

import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]


def packages() -> list[str]:
    """Top-level packages that ``pyproject.toml`` ships."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["packages"]["find"]["include"]
    found = (folder.parent.name for folder in ROOT.glob("*/__init__.py"))
    return sorted(name for name in found if any(fnmatch(name, pattern) for pattern in patterns))


def files_of_packages() -> set[str]:
    """Every file of theirs, data files and type markers included."""
    return {
        file.relative_to(ROOT).as_posix()
        for package in packages()
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def shipped(wheel: zipfile.ZipFile) -> set[str]:
    """Every file in a wheel but its metadata."""
    return {name for name in wheel.namelist() if ".dist-info/" not in name}
