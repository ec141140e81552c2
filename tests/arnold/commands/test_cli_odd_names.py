"""Names of nodes that no hostlist can carry: placed, saved and printed like any other; refused where Slurm reads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from tests.case_counts import examples
from tests.facts import says
from topology.node_names import check_name, expand_hostlist, spell_names

Arnold = Callable[..., Any]

ODD = [
    "gpu node 1",
    "a,b",
    "a[1]",
    "#1",
    'say "x"',
    "it's",
    "100%",
    "back\\slash",
    "u@h",
    "*",
    "a!b",
    "a&b",
    "^",
    "=",
]


def write(folder: Path, names: Sequence[str]) -> Path:
    """A cluster file with one rack."""
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["node", "rack", "gpus"])
    rows.writerows([name, "r", 8] for name in names)
    file = folder / "cluster.csv"
    file.write_text(text.getvalue(), encoding="utf-8")
    return file


def placed(arnold: Arnold, folder: Path, names: Sequence[str]) -> Any:
    """A job on all nodes, in text, and saved."""
    job = folder / "job.yaml"
    job.write_text(f"name: j\nparallelism: {{tp: 8, dp: {len(names)}}}\nalpha: 0.5\n")
    saved = folder / "placement.json"
    ran = arnold("place", "--cluster", write(folder, names), "--job", job, "--output", saved)
    return ran, saved


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_is_placed_and_printed(arnold: Arnold, tmp_path: Path, name: str) -> None:
    """As it is, in quotes; the saved placement has it too, and it can be lost."""
    ran, saved = placed(arnold, tmp_path, [name, "n1"])
    assert (ran.code, ran.err) == (0, "")
    assert repr(name) in ran.out
    assert {cell["node"] for cell in json.loads(saved.read_text())["assignment"]} == {name, "n1"}
    lost = arnold("repair", "--cluster", tmp_path / "cluster.csv", "--placement", saved, "--lost", name)
    assert lost.code == 3
    assert "spare nodes of 8 GPUs left: 0" in lost.err


@pytest.mark.parametrize("name", ["a\tb", "a\x1b[31m", "a\u202eb", "a\nb", "a\x00b"])
def test_a_name_that_cannot_be_printed_is_refused_on_reading(arnold: Arnold, tmp_path: Path, name: str) -> None:
    """With file and line, and nothing is written."""
    ran, saved = placed(arnold, tmp_path, ["n1", name])
    assert ran.code == 2
    assert "cluster.csv:3" in ran.err or "cluster.csv:4" in ran.err
    assert not saved.exists()


@pytest.mark.parametrize("form", ["slurm-conf", "slurm-yaml"])
def test_slurm_cannot_have_odd_names(arnold: Arnold, tmp_path: Path, form: str) -> None:
    """Its writers refuse before anything is written, and name the file."""
    out = tmp_path / "out"
    ran = arnold("topology", "convert", write(tmp_path, ["n1", "a b"]), "--to", form, "--output", out)
    assert ran.code == 2
    assert says(ran.err, "cluster.csv", "'a b'", "Slurm")
    assert not out.exists()


PRINTABLE = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1, max_size=6).map(
    str.strip
).filter(bool)  # fmt: skip


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PRINTABLE, min_size=1, max_size=4, unique=True))
def test_any_printable_names_are_placed(arnold: Arnold, tmp_path: Path, names: list[str]) -> None:
    """Text output never fails after the files are written, and every name comes back from the saved placement."""
    ran, saved = placed(arnold, tmp_path, names)
    assert ran.code == 0, ran.err
    assert {cell["node"] for cell in json.loads(saved.read_text())["assignment"]} == {*names}


@given(st.lists(PRINTABLE, unique=True, max_size=5))
def test_spelling_loses_no_odd_name(names: list[str]) -> None:
    """Each that no hostlist can carry stands there in quotes; of the others it is a hostlist that reads back."""
    odd = [name for name in names if not _stands(name)]
    assert all(repr(name) in spell_names(names) for name in odd)
    if good := [name for name in names if _stands(name)]:
        assert {*expand_hostlist(spell_names(good))} == {*good}


def _stands(name: str) -> bool:
    try:
        check_name(name)
    except InvalidInput:
        return False
    return True
