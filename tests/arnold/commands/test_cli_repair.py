"""`arnold repair`, and the placement files that it reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arnold.documents.repair_answer import RepairDocument
from ground.records import json_data, read_json
from scheduler.witnesses import NOT_TO_BE_CHECKED
from tests.facts import says

Arnold = Callable[..., Any]
Document = dict[str, Any]


@pytest.fixture
def placement(arnold: Arnold, fakes: None, cluster_file: Path, job_file: Path, tmp_path: Path) -> Path:
    """First fit on the small cluster: n0, n1 / n2, n4; spare are n5 and n6, both in n4's minipod."""
    saved = tmp_path / "placement.json"
    arnold("place", "--cluster", cluster_file, "--job", job_file, "--algorithm", "first", "--output", saved)
    return saved


@pytest.fixture
def repair(arnold: Arnold, cluster_file: Path, placement: Path) -> Arnold:
    """Run `arnold repair` on it."""
    return lambda *args: arnold("repair", "--cluster", cluster_file, "--placement", placement, *args)


def assigned(document: Document) -> dict[tuple[int, int], str]:
    """Cell -> node."""
    return {(cell["dp"], cell["pp"]): cell["node"] for cell in document["assignment"]}


def test_only_the_lost_cell_moves(repair: Arnold, placement: Path) -> None:
    """Losing n4 moves its one cell to a spare; all others keep their node, and the move is the fewest possible."""
    ran = repair("--lost", "n4", "--json")
    assert ran.code == 0
    before, after = assigned(json.loads(placement.read_text())), assigned(ran.json)
    assert {cell for cell in before if before[cell] != after[cell]} == {(1, 1)}
    assert after[1, 1] in {"n5", "n6"}
    assert [(move["source"], move["target"]) for move in ran.json["moves"]] == [("n4", after[1, 1])]
    assert ran.json["moves_proved"] is True
    assert json_data(RepairDocument, read_json(RepairDocument, ran.json)) == ran.json


def test_a_lost_node_may_be_spelled_as_a_host(repair: Arnold) -> None:
    """With its domain, and in capitals, as monitoring names it."""
    moves = repair("--lost", "n4", "--json").json["moves"]
    assert repair("--lost", "N4.example.com", "--json").json["moves"] == moves


def test_a_repair_can_be_repaired(repair: Arnold, arnold: Arnold, cluster_file: Path, tmp_path: Path) -> None:
    """The saved repair is a placement file: losing the node just taken moves that cell on to the last spare."""
    saved = tmp_path / "repaired.json"
    first = repair("--lost", "n4", "--output", saved, "--json").json
    taken = first["moves"][0]["target"]
    flags = tmp_path / "flags.yaml"
    flags.write_text("- {node: n4, kind: faulty}\n")
    args = ["repair", "--cluster", cluster_file, "--flags", flags, "--placement", saved, "--lost", taken, "--json"]
    second = arnold(*args).json
    assert {first["moves"][0]["target"], second["moves"][0]["target"]} == {"n5", "n6"}


def test_text_says_what_moves(repair: Arnold) -> None:
    """Lost nodes, moved cells, the objective before and after, and each move."""
    out = repair("--lost", "n4").out
    assert says(out, "1 node lost", "1 cell moved", "fewer are impossible")
    assert "objective 2.0 -> 2.0" in out
    assert "n4" in out


@pytest.mark.parametrize(
    ("prefer", "known"),
    [
        ("moves", "proved best with as few moves; nothing closer is proved"),
        ("objective", "proved best; nothing closer is proved"),
    ],
)
def test_text_and_page_know_the_same(repair: Arnold, tmp_path: Path, prefer: str, known: str) -> None:
    """What is known of the objective is said once, in the same words: the page has no bound of its own beside it."""
    page = tmp_path / "repair.html"
    ran = repair("--lost", "n4", "--prefer", prefer, "--html", page)
    assert f"({known})" in " ".join(ran.out.split())
    text = " ".join(re.sub(r"<[^>]*>", " ", page.read_text()).split())
    assert re.search(rf"Objective [\d.]+: {known}\.", text)
    assert "Not proved optimal" not in text
    assert "nothing below" not in text


def test_too_many_lost_nodes_are_infeasible(repair: Arnold) -> None:
    """Three of four nodes gone and two spares: exit 3, with what to do, in both forms."""
    ran = repair("--lost", "n[0-2]", "--json")
    assert (ran.code, ran.json["error"]["kind"]) == (3, "Infeasible")
    assert "To fix:" in repair("--lost", "n[0-2]").err


def test_unknown_lost_node(repair: Arnold) -> None:
    """A name that the cluster does not have is refused with the closest one."""
    ran = repair("--lost", "n44", "--json")
    assert (ran.code, ran.json["error"]["kind"], ran.json["error"]["where"]) == (2, "UnknownName", "--lost")
    assert "did you mean 'n4'" in ran.json["error"]["fix"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda saved: saved["assignment"].pop(), "has no node"),
        (lambda saved: saved["assignment"].append(saved["assignment"][0]), "twice"),
        (lambda saved: saved["assignment"][0].update(node="elsewhere"), "no node 'elsewhere'"),
        (lambda saved: saved["assignment"][0].update(dp=7), "outside"),
        (lambda saved: saved["assignment"][0].update(dp="0"), "dp"),
        (lambda saved: saved["assignment"][0].update(dp=-1), "dp"),
        (lambda saved: saved["assignment"].clear(), "holds no placement"),
        (lambda saved: saved.pop("job"), "'job' is missing"),
        (lambda saved: saved.pop("assignment"), "give what `arnold place --output placement.json` saved"),
        (lambda saved: saved["job"].update(alpha=2), "alpha"),
        (lambda saved: saved["job"]["parallelism"].update(tp=3, etp=3), "divide a node"),
        (lambda saved: saved["job"].update(level="minipot"), "did you mean 'minipod'"),
        (lambda saved: saved["assignment"][1].update(node=saved["assignment"][0]["node"]), "twice"),
    ],
)
def test_damaged_placements(repair: Arnold, placement: Path, change: Callable[[Document], Any], words: str) -> None:
    """Whatever is wrong with the file is said with its name and what to do, exit 2, no traceback."""
    saved = json.loads(placement.read_text())
    change(saved)
    placement.write_text(json.dumps(saved, indent=1))
    ran = repair("--lost", "n4", "--json")
    error = ran.json["error"]
    assert ran.code == 2
    assert words in error["message"] + error["fix"]
    assert placement.name in error["where"]
    assert error["fix"]


def test_what_no_certificate_shows_is_said_to_be_so(repair: Arnold) -> None:
    """A lost cell has to move, which needs no proof; that its placement cannot be better then the solver proved."""
    ran = repair("--lost", "n4", "--json")
    assert ran.json["objective_bound"] > 1.0
    assert list(ran.json["unchecked"]) == ["objective"]
    assert says(ran.json["unchecked"]["objective"], NOT_TO_BE_CHECKED)
    assert ran.json["unchecked"]["objective"] in repair("--lost", "n4").out
