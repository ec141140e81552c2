"""Fenced blocks of a page of documentation: its commands are run, its output is compared with what comes out."""

from __future__ import annotations

import glob
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from tests.case_counts import ALL_CASES

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)

SECONDS = re.compile(r"\b\d[\d.,]* (?=s\b)|\b\d+/s\b")
"""Time that something took, and how much of it in a second: no test of what is said."""

SPACES = re.compile(r"[ \t]+(?=\n|$)")
"""Tables fill their last column."""

SIMPLE = re.compile(r"arnold [^|<>$;&`]*")
"""A command that is called in this process, without a shell."""

SLOW = "run as it stands by `make properties` alone"
"""Stands for what is run in the place of a line."""

Elsewhere = Mapping[str, tuple[str, str]]
"""Beginning of a line -> what is run in its place, and why.  Every other line is run as it stands."""

Run = Callable[[Sequence[str]], str]
"""Calls the command in this process with arguments: what it printed."""


@dataclass(frozen=True)
class Block:
    """One fenced block; commands and output of one with both are blocks of their own.

    :param language: word after the fence; ``sh`` of commands.
    """

    language: str
    text: str


def blocks_of(page: str) -> list[Block]:
    """All fenced blocks, in order."""
    found = []
    for language, text in FENCE.findall(page):
        whole = Block(language, text)
        found += _parts(whole) if text.startswith("$ ") else [whole]
    return found


def _parts(whole: Block) -> list[Block]:
    """Each command after a prompt, and what stands below it up to the next."""
    found = []
    for part in re.split(r"^\$ ", whole.text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        found.append(replace(whole, language="sh", text=f"{command}\n"))
        if output.strip():
            found.append(replace(whole, language="text", text=output))
    return found


def run_commands(
    blocks: Sequence[Block], folder: Path, elsewhere: Elsewhere, *, run: Run | None = None
) -> list[str | None]:
    """What each block of commands prints, run one after the other in the folder where the last one ended; ``None`` of a
    block of which nothing is run.

    :param folder: where the first one starts.
    :param run: with it blocks of nothing but ``arnold`` are run in this process, whose current folder is ``folder``.
    """
    here = folder
    printed: list[str | None] = []
    for block in blocks:
        lines = [_as_run(line, elsewhere) for line in block.text.replace("\\\n", " ").splitlines()]
        lines = [line for line in lines if line.strip()]
        if run is not None and all(SIMPLE.fullmatch(line.partition(" #")[0]) for line in lines):
            printed.append("".join(run(_words(line)) for line in lines) if lines else None)
            continue
        out, here = _in_a_shell(lines, here)
        printed.append(out if lines else None)
    return printed


def _words(line: str) -> list[str]:
    """The arguments of a line as a shell gives them."""
    found: list[str] = []
    for word in shlex.split(line, comments=True)[1:]:
        pattern = f" {word}" in line and glob.has_magic(word)  # one in quotes is the command's own
        found += sorted(glob.glob(word)) if pattern else [word]  # noqa: PTH207
    return found


def _in_a_shell(lines: Sequence[str], folder: Path) -> tuple[str, Path]:
    """What lines print that are run in a folder, and the folder where they end."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    left_in = folder / "left-in"
    script = "\n".join(lines)
    done = subprocess.run(
        ["sh", "-ec", f'{script}\npwd > "$LEFT_IN"'],
        cwd=folder,
        env=os.environ | {"PATH": path, "LEFT_IN": str(left_in)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    after = Path(left_in.read_text().rstrip("\n"))
    left_in.unlink()
    return done.stdout, after


def _as_run(line: str, elsewhere: Elsewhere) -> str:
    """A line of a block as it is run here."""
    for beginning, (instead, _) in elsewhere.items():
        if line.startswith(beginning):
            return (line if ALL_CASES else "") if instead == SLOW else instead
    return line


def unused(blocks: Sequence[Block], elsewhere: Elsewhere) -> list[str]:
    """Exceptions for lines that the page no longer has."""
    lines = [line for block in blocks for line in block.text.splitlines()]
    return [beginning for beginning in elsewhere if not any(line.startswith(beginning) for line in lines)]


def compare_outputs(blocks: Sequence[Block], commands: Sequence[Block], outputs: Sequence[str | None]) -> int:
    """Find every block of output in what the commands above it printed; `...` stands for anything.

    :returns: how many blocks were compared: those of which no command was run are left out.
    """
    compared = 0
    of_block = dict(zip(map(id, commands), outputs, strict=True))
    for before, block in pairwise(blocks):
        if block.language == "text" and (printed := of_block.get(id(before))) is not None:
            pieces = [re.escape(_plain(piece).strip("\n")) for piece in block.text.split("...")]
            assert re.search(".*".join(pieces), _plain(printed), re.DOTALL), f"{block.text}\nis not in\n{printed}"
            compared += 1
    return compared


def _plain(text: str) -> str:
    return SPACES.sub("", SECONDS.sub("0 ", text))
