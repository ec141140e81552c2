"""Fenced blocks of a page of documentation: its commands are run, its output is compared with what comes out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)

DURATION = re.compile(r"\b\d+\.\d+ s\)")
"""Time that a solver took: no test of what is said."""

Elsewhere = Mapping[str, tuple[str, str]]
"""Beginning of a line -> what is run in its place, and why.  Every other line is run as it stands."""


@dataclass(frozen=True)
class Block:
    """One fenced block.

    :param section: heading above it.
    :param language: word after the fence.
    """

    section: str
    language: str
    text: str


def blocks_of(page: str) -> list[Block]:
    """All fenced blocks, in order."""
    found = []
    for part in page.split("\n## "):
        section = part.partition("\n")[0]
        found += [Block(section, *match) for match in FENCE.findall(part)]
    return found


def run_commands(blocks: Sequence[Block], folder: Path, elsewhere: Elsewhere, *, stay: str = "") -> list[str]:
    """What each block of commands prints, run one after the other in the folder where the last one ended.

    :param folder: where the first one starts.
    :param stay: heading of the section whose commands are all called in that folder, and lead nowhere.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    left_in = folder / "left-in"
    here, printed = folder, []
    for block in blocks:
        script = "\n".join(_as_run(line, elsewhere) for line in block.text.splitlines())
        done = subprocess.run(
            ["sh", "-ec", f'{script}\npwd > "$LEFT_IN"'],
            cwd=folder if block.section == stay else here,
            env=os.environ | {"PATH": path, "LEFT_IN": str(left_in)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{block.text}\n{done.stdout}{done.stderr}"
        if block.section != stay:
            here = Path(left_in.read_text().rstrip("\n"))
        printed.append(done.stdout)
    return printed


def _as_run(line: str, elsewhere: Elsewhere) -> str:
    """A line of a block as it is run here."""
    return next((instead for beginning, (instead, _) in elsewhere.items() if line.startswith(beginning)), line)


def unused(blocks: Sequence[Block], elsewhere: Elsewhere) -> list[str]:
    """Exceptions for lines that the page no longer has."""
    lines = [line for block in blocks for line in block.text.splitlines()]
    return [beginning for beginning in elsewhere if not any(line.startswith(beginning) for line in lines)]


def compare_outputs(blocks: Sequence[Block], commands: Sequence[Block], outputs: Sequence[str]) -> int:
    """Find every block of output in what the commands above it printed; `...` stands for anything.

    :returns: how many blocks were compared.
    """
    compared = 0
    for before, block in pairwise(blocks):
        if block.language == "text":
            printed = DURATION.sub("0 s)", outputs[commands.index(before)])
            pieces = [re.escape(piece.strip("\n")) for piece in DURATION.sub("0 s)", block.text).split("...")]
            assert re.search(".*".join(pieces), printed, re.DOTALL), f"{block.text}\nis not in\n{printed}"
            compared += 1
    return compared
