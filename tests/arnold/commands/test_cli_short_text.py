"""The texts about placements: about fifteen lines, in which nothing that was assumed is missing; -v has the rest."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from arnold.commands.run import run
from arnold.console.fitted_table import Wrapped
from tests.arnold.commands.conftest import write_cluster
from tests.facts import says
from topology.node_names import expand_hostlist

Arnold = Callable[..., Any]
MINIPODS, NODES = 12, 9  # Of each minipod one node is in use, and one of the first is slow


def write_files(folder: Path) -> None:
    """A job of 90 nodes on minipods of eight free ones, all twelve of which it needs; the job says no alpha."""
    rows = [
        f"node-{minipod:02}-{i},pod{minipod:02},rack{minipod:02}-{i // 3},8,{'0,' if i == 4 else '8,'}"
        for minipod in range(MINIPODS)
        for i in range(NODES)
    ]
    rows[0] += "1.5"
    (folder / "job.yaml").write_text("name: large\nparallelism: {tp: 8, dp: 45, pp: 2}\n")
    write_cluster(folder / "cluster.csv", rows)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The options that name the files in the current folder."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)  # paths as long as a line would break it
    return ("--cluster", "cluster.csv", "--job", "job.yaml", "--time-limit", "2")


@pytest.mark.parametrize("width", [80, 120])
def test_a_placement_is_told_in_about_fifteen_lines(
    arnold: Arnold, files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """The verdict first; then three minipods and the others in a row; what was passed over; the command to go on.

    Twelve nodes are in use, one in each minipod, and the slow node is not needed: 95 others are free, and 90 wanted.
    """
    monkeypatch.setenv("COLUMNS", str(width))
    ran = arnold("place", *files)
    lines = ran.out.splitlines()
    assert len(lines) <= (18 if width == 120 else 24)
    assert "DP spread" in lines[0]
    shown = [line for line in lines if re.match(r"pod\d", line)]
    (rest,) = [line for line in lines if line.startswith("9 more")]
    found = arnold("place", *files, "--json").json
    assert len(shown) == 3
    assert sum(int(line.split()[1]) for line in shown) + int(rest.split()[2]) == 90
    assert {*expand_hostlist(rest.split()[-1])} | {line.split()[0] for line in shown} == {*found["domains"]}
    assert says(ran.out, "12 of 108 nodes", "12 in use")
    assert says(ran.out, "1 slow node left out", "1.5 times slower", "--avoid ignore")
    assert says(" ".join(lines[-2:]), "-v", "trade")


RULES = "exact,best-fit,gpu-packing,kai,kube-scheduler,kueue-preferred,kueue-required,random-fit,volcano-soft"
ANSWERS = {
    "explain": (),
    "compare": ("--algorithm", RULES),
    "score": ("--nodes", "large.json"),
    "repair": ("--placement", "large.json", "--lost", "node-01-0,node-02-0,node-03-0,node-05-1,node-07-2"),
    "defragment": ("--running", "large.json"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The placement of the job, as ``arnold place --output`` saves it."""
    folder = tmp_path_factory.mktemp("large")
    write_files(folder)
    file = folder / "large.json"
    given = ("--cluster", folder / "cluster.csv", "--job", folder / "job.yaml", "--time-limit", "2", "--output", file)
    assert run(["place", *map(str, given)]) == 0
    return file.read_bytes()


@pytest.fixture
def large(files: tuple[str, ...], saved: bytes) -> tuple[str, ...]:
    """The options, with the placement in the current folder."""
    Path("large.json").write_bytes(saved)
    return files


@pytest.mark.parametrize(("width", "command"), [*product((80, 120), ANSWERS)])
def test_other_answers_are_as_short(
    arnold: Arnold, large: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, width: int, command: str
) -> None:
    """The verdict, tables folded to a few rows, what was assumed, one command to go on with; no node is named in
    pieces, and where more is known the last line says that -v shows it.
    """
    monkeypatch.setenv("COLUMNS", str(width))
    if command == "defragment":
        Path("job.yaml").write_text("name: new\nparallelism: {tp: 8, dp: 2, pp: 2}\n")
    cluster, job, limit = large[:2], large[2:4], ("--time-limit", "0.1")  # which moves of jobs use up
    asked = (command, *cluster, *(() if command == "repair" else job), *ANSWERS[command], *limit)
    ran, whole = arnold(*asked), arnold(*asked, "-v")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert len(lines) <= (22 if width == 120 else 24)
    assert len([line for line in lines if line.startswith("Next: arnold ")]) == 1
    # a name or a list of them in brackets that a line breaks
    assert [line for line in lines if re.search(r"node-\d{0,2}-?$|\[[^\]]*$", line.rstrip())] == []
    assert lines[-1].startswith("-v shows") or len(whole.out.splitlines()) == len(lines)


def test_everything_that_is_assumed_is_told(arnold: Arnold, files: tuple[str, ...], tmp_path: Path) -> None:
    """Every note of the document stands in the text, with and without -v: what is unknown never vanishes."""
    busy = tmp_path / "busy.txt"
    busy.write_text("node-01-0\nlogin-1\n")
    given = (*files, "--busy", "busy.txt")
    notes = arnold("place", *given, "--json").json["notes"]
    assert says(notes, "login-1")
    assert says(notes, "alpha 0.3")
    for option in ([], ["-v"]):
        text = " ".join(arnold("place", *given, *option).out.split())
        assert [note for note in notes if " ".join(note.split()) not in text] == []


def test_all_nodes_are_told_in_full(arnold: Arnold, files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """With -v on 60 columns every node of the placement is named, none in pieces, and nothing ends in dots."""
    monkeypatch.setenv("COLUMNS", "60")
    found = arnold("place", *files, "--json").json
    text = arnold("place", *files, "-v").out
    header, *rows = text.partition("Cells in")[2].partition("\n\n")[0].splitlines()[1:]
    told = [row[header.index("nodes") :].rstrip().removesuffix(",") for row in rows]
    assert {*expand_hostlist(",".join(told))} == {cell["node"] for cell in found["assignment"]}
    assert "..." not in text
    assert says(text, "Trade between the spreads", "Every level and family")


@pytest.mark.parametrize("command", ["place", "explain"])
def test_the_next_command_is_one(arnold: Arnold, files: tuple[str, ...], tmp_path: Path, command: str) -> None:
    """What stands behind "Next:" is typed as it stands, with the options of this run, and ends well."""
    text = arnold(command, *files, "--html", tmp_path / "page.html", "-v").out
    words = shlex.split(text.partition("\nNext: ")[2])
    assert words[:2] == ["arnold", "place"]
    assert "-v" not in words
    # what is written is written below the folder of the test
    words = [str(tmp_path / word) if word.endswith(".slurm") else word for word in words[1:]]
    assert arnold(*words).code == 0


def test_what_does_not_fit_is_explained_next(arnold: Arnold, files: tuple[str, ...], tmp_path: Path) -> None:
    """1,000 rows do not fit: the next command is `arnold explain` on the same cluster, without place's own options."""
    job = tmp_path / "job.yaml"
    job.write_text("parallelism: {tp: 8, dp: 1000}\n")
    ran = arnold("place", *files, "--output", tmp_path / "job.slurm")
    assert ran.code == 3
    assert says(" ".join(ran.out.split()), "Next: arnold explain --cluster", "--job")
    assert "--output" not in ran.out


NAMES = st.lists(st.from_regex(r"[a-z]{1,8}[0-9]{0,4}", fullmatch=True), min_size=1, max_size=30)


@given(names=NAMES, width=st.integers(16, 60), words=st.lists(st.text("abc1,", min_size=1, max_size=9), max_size=5))
def test_a_list_breaks_between_names(names: list[str], width: int, words: list[str]) -> None:
    """In any width that holds the longest name every name stands in one line, and nothing else is lost or added."""
    out = StringIO()
    Console(file=out, width=width).print(Wrapped(" ".join([*words, ",".join(names)])))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert "".join("".join(lines).split()) == "".join([*words, ",".join(names)])
    pieces = [piece for line in lines for piece in re.split(r"[ ,]", line)]
    assert [name for name in names if name not in pieces] == []
    assert max(map(len, lines)) <= width
