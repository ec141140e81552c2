"""Standard streams as they may be: closed, full, left by their reader, in an encoding without bars."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.case_counts import every_fourth

MAIN = "import sys; from arnold.main import main; main()"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cluster of four nodes, and a job of two."""
    (tmp_path / "c.csv").write_text("node,minipod,gpus\nn1,a,8\nn2,a,8\nn3,b,8\nn4,b,8\n")
    (tmp_path / "j.yaml").write_text("name: j\nparallelism: {tp: 8, dp: 2, pp: 1}\n")
    return tmp_path


# Only the streams matter, so no solver is imported, nor any command where the message is all there is.
QUICK = ("place", "--cluster", "c.csv", "--job", "j.yaml", "--algorithm", "best-fit")
MISTYPED = ("plaec",)


def arnold(
    folder: Path, *arguments: str, env: dict[str, str] | None = None, **streams: Any
) -> tuple[int, bytes, bytes]:
    """Run it as a program: exit code and what it wrote."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])} | (env or {}),
        check=False,
        **given,
    )
    return done.returncode, done.stdout or b"", done.stderr or b""


ENCODINGS = [
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "ascii:strict"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
]


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("command", "env"), every_fourth(list(product([QUICK, ("topology", "show", "c.csv")], ENCODINGS)))
)
def test_encodings_without_bars(folder: Path, command: tuple[str, ...], env: dict[str, str]) -> None:
    """What the encoding lacks is written by characters that look alike; nothing is lost, and nothing fails."""
    code, out, err = arnold(folder, *command, env=env)
    assert (code, err) == (0, b"")
    # The bars of two minipods, half of each or all of each free.
    assert b"###" in out
    assert b"?" not in out


def test_a_file_name_of_raw_bytes_comes_out_as_it_is(folder: Path) -> None:
    """A name that is no UTF-8 is no reason to fail, in text and in an error."""
    name = os.fsdecode(b"c\xff.csv")
    (folder / name).write_bytes((folder / "c.csv").read_bytes())
    code, out, _ = arnold(folder, "topology", "validate", name, env={"PYTHONIOENCODING": "utf-8:strict"})
    assert (code, out[:7]) == (0, b"c\xff.csv:")
    code, _, err = arnold(folder, "topology", "validate", os.fsdecode(b"no\xff"))
    assert (code, b"no such file" in err) == (2, True)


def closed(*numbers: int) -> Any:
    """What closes streams before the program begins, as `>&-` does."""
    return lambda: [os.close(number) for number in numbers]


def test_closed_streams(folder: Path) -> None:
    """`>&-` discards the output, `2>&-` the message; the exit code says what happened, and files are whole."""
    written = (*QUICK, "--output", "placement.json")
    assert arnold(folder, *written, stdout=None, preexec_fn=closed(1)) == (0, b"", b"")
    assert (folder / "placement.json").read_text().startswith("{")
    assert arnold(folder, *MISTYPED, stderr=None, preexec_fn=closed(2))[0] == 2
    assert arnold(folder, *MISTYPED, stdout=None, stderr=None, preexec_fn=closed(1, 2))[0] == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_full_streams(folder: Path) -> None:
    """A message that cannot be written changes no exit code; a result or an error document that cannot be is one
    message on stderr, and no traceback.
    """
    with Path("/dev/full").open("wb") as full:
        assert arnold(folder, *MISTYPED, stderr=full)[0] == 2
        result = arnold(folder, *QUICK, stdout=full)
        error = arnold(folder, "plaec", "--json", stdout=full)
    for (code, _, err), status, words in (
        (result, 2, b"the system refused: No space left"),
        (error, 2, b"no command 'plaec'"),
    ):
        assert code == status
        assert err.startswith(b"Error: ")
        assert words in err
        assert b"Traceback" not in err


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "command", every_fourth([QUICK, (*QUICK, "--json"), ("place", "--help"), ("topology", "show", "c.csv")])
)
def test_a_reader_that_is_gone(folder: Path, command: tuple[str, ...]) -> None:
    """`| head` may end first: 141, as the shell says of programs that SIGPIPE ends, and no word of it."""
    reader, writer = os.pipe()
    os.close(reader)
    code, _, err = arnold(folder, *command, stdout=writer)
    os.close(writer)
    assert (code, err) == (141, b"")
