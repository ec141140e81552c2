"""Clusters as they are: nodes of several types and sizes, power domains beside the tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.facts import says

Arnold = Callable[..., Any]

HALF = "node,minipod,rack,@power,gpus,gpu_type\n" + "".join(
    f"n{i},m{i // 4},r{i // 2},{'p' + str(i % 3) if i else ''},8,{'H100' if i % 2 else 'A100'}\n" for i in range(8)
)
"""Nodes in turn A100 and H100; power domains cross the racks, and n0 is in none."""


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """The cluster."""
    file = tmp_path / "half.csv"
    file.write_text(HALF)
    return file


@pytest.fixture
def job(tmp_path: Path) -> Callable[[str], Path]:
    """Four nodes, and what else the job says; not how many GPUs a node has."""

    def write(more: str = "") -> Path:
        file = tmp_path / "job.yaml"
        file.write_text(f"parallelism: {{tp: 8, dp: 2, pp: 2}}\nalpha: 0.3\n{more}")
        return file

    return write


def test_a_gang_lies_on_one_type_and_the_answer_says_what_was_taken(
    arnold: Arnold, half: Path, job: Callable[[str], Path]
) -> None:
    """Half A100, half H100: four nodes of one type in two minipods, and what either gives; 8 GPUs are the nodes'."""
    ran = arnold("place", "--cluster", half, "--job", job("speed: {H100: 2.0}\n"), "--json")
    assert {int(row["node"][1:]) % 2 for row in ran.json["assignment"]} == {1}
    assert [(one["gpu_types"], one["chosen"]) for one in ran.json["types"]] == [(["A100"], False), (["H100"], True)]
    assert ran.json["job"]["gpus_per_node"] == 8
    assert says(ran.json["notes"], "gpus_per_node 8")


def test_explain_says_what_binds_on_each_type(arnold: Arnold, half: Path, job: Callable[[str], Path]) -> None:
    """A type has two nodes in a minipod, so (1, 1) is out on both."""
    ran = arnold("explain", "--cluster", half, "--job", job(""), "--json")
    assert [one["gpu_types"] for one in ran.json["binding"]] == [["A100"], ["H100"]]
    assert all(one["sentence"].startswith("(1, 1) at 1.0") for one in ran.json["binding"])
    text = arnold("explain", "--cluster", half, "--job", job("")).out
    assert "What binds on each type" in text


def test_compare_and_the_page_say_the_types(
    arnold: Arnold, half: Path, job: Callable[[str], Path], tmp_path: Path
) -> None:
    """Each algorithm chooses for itself."""
    ran = arnold("compare", "--cluster", half, "--job", job(""), "--algorithm", "exact,best-fit", "--json")
    assert all(one["gpu_types"] in (["A100"], ["H100"]) for one in ran.json["results"])
    page = tmp_path / "page.html"
    assert arnold("place", "--cluster", half, "--job", job(""), "--html", page).code == 0
    assert "Types of GPU" in page.read_text()


def test_a_soft_term_beside_the_tree_is_counted(arnold: Arnold, half: Path, job: Callable[[str], Path]) -> None:
    """The spread there is printed with the others, and recomputed from the assignment."""
    said = "constraints: [{family: dp, level: '@power', weight: 0.1}]\n"
    ran = arnold("place", "--cluster", half, "--job", job(said), "--json")
    power = {row.split(",")[0]: row.split(",")[3] or row for row in HALF.splitlines()[1:]}
    stages = [{power[row["node"]] for row in ran.json["assignment"] if row["pp"] == stage} for stage in (0, 1)]
    spread = ran.json["spread_by_level"]["@power"]["dp"]
    assert spread == max(map(len, stages))
    worth = 0.3 * ran.json["spread"]["dp"] + 0.7 * ran.json["spread"]["pp"]
    assert ran.json["objective"] == pytest.approx(worth + 0.1 * spread)


@pytest.mark.parametrize(
    ("more", "options", "message", "fix"),
    [
        ("level: '@power'\n", [], "'@power' is a second hierarchy", "may stand in constraints"),
        ("", ["--level", "@power"], "'@power' is a second hierarchy", "name one of minipod, rack"),
        ("constraints: [{family: dp, within: '@pwer'}]\n", [], "no level '@pwer'", "did you mean '@power'?"),
        ("", ["--domains", "power=x"], "names its own domains", "leave --domains out"),
        ("", ["--domains", "power"], "'power' is no name with a label", "write power=LABEL"),
        ("", ["--domains", "a=x,@a=y"], "@a is given twice", "keep one"),
    ],
)
def test_what_cannot_be_is_refused(  # noqa: PLR0917
    arnold: Arnold, half: Path, job: Callable[[str], Path], more: str, options: list[str], message: str, fix: str
) -> None:
    """Exit 2, one message, with a way out."""
    ran = arnold("place", "--cluster", half, "--job", job(more), *options)
    assert ran.code == 2
    assert message in ran.err
    assert fix in ran.err.replace("\n", " ")


def test_nodes_of_one_type_that_differ_need_a_word(arnold: Arnold, half: Path, job: Callable[[str], Path]) -> None:
    """One of the A100 nodes has 4 GPUs: which is meant is not guessed, and the place in the job file is named."""
    half.write_text(HALF.replace("n2,m0,r1,p2,8", "n2,m0,r1,p2,4"))
    ran = arnold("place", "--cluster", half, "--job", job(""))
    assert (ran.code, says(ran.err, "the type A100", "3 with 8", "1 with 4")) == (2, True)
    assert says(ran.err, "To fix:", "gpus_per_node")
    assert arnold("place", "--cluster", half, "--job", job("gpu_types: [H100]\n")).code == 0
    assert arnold("place", "--cluster", half, "--job", job("gpus_per_node: 8\n")).code == 0


def test_compare_wants_nodes_of_one_size(arnold: Arnold, half: Path, job: Callable[[str], Path]) -> None:
    """H100 nodes of 8 GPUs and A100 nodes of 16: place chooses, compare refuses."""
    half.write_text("\n".join(f"{row[:-6]}16,A100" if row.endswith("A100") else row for row in HALF.splitlines()))
    ran = arnold("place", "--cluster", half, "--job", job(""), "--json")
    assert ran.json["job"]["gpus_per_node"] in (8, 16)
    assert {row["node"] for row in ran.json["assignment"]} <= {f"n{i}" for i in range(8)}
    assert says(ran.json["notes"], "gpus_per_node", "each type")
    refused = arnold("compare", "--cluster", half, "--job", job(""))
    assert (refused.code, says(refused.err, "nodes of one size")) == (2, True)


def test_validate_shows_second_hierarchies(arnold: Arnold, half: Path) -> None:
    """Beside the levels, with nodes in none; and the CSV carries them through."""
    ran = arnold("topology", "validate", half)
    assert says(ran.out, "@power", "3 domains of 2 to 3 nodes", "1 node in none")
    assert [one["name"] for one in arnold("topology", "validate", half, "--json").json["second_levels"]] == ["@power"]
    assert "@power, beside the tree" in arnold("topology", "show", half).out
    assert "node,minipod,rack,@power,gpus" in arnold("topology", "convert", half, "--to", "csv").out
