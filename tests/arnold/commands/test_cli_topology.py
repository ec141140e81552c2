"""``arnold topology``: convert, show, validate."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.facts import says

Arnold = Callable[..., Any]

TREES = ["slurm-conf", "slurm-yaml", "topograph"]


def test_the_csv_comes_back_as_it_was(arnold: Arnold, cluster_file: Path) -> None:
    """Use, slowdowns and faulty nodes too; nothing to note."""
    ran = arnold("topology", "convert", cluster_file, "--to", "csv")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == cluster_file.read_text()


@pytest.mark.parametrize("name", TREES)
def test_there_and_back_through_files(arnold: Arnold, cluster_file: Path, tmp_path: Path, name: str) -> None:
    """Every node keeps its minipod and rack by name; levels of a Slurm tree are level-0 and level-1."""
    there, back = tmp_path / "there", tmp_path / "back.csv"
    first = arnold("topology", "convert", cluster_file, "--to", name, "--output", there)
    assert (first.code, first.out) == (0, "")
    assert says(first.err, "minipod, rack", "1 of 8 nodes", "2 of 8 nodes")
    assert arnold("topology", "convert", there, "--to", "csv", "--output", back).code == 0
    before, after = (
        {row.split(",")[0]: row.split(",")[1:3] for row in file.read_text().splitlines()[1:]}
        for file in (cluster_file, back)
    )
    assert after == before
    header = "node,tier-1,tier-0," if name == "topograph" else "node,level-0,level-1,"
    assert back.read_text().startswith(header)


def test_a_conversion_as_json(arnold: Arnold, cluster_file: Path, tmp_path: Path) -> None:
    """The text is in the document, or in the file; what was lost is said in it and not on stderr."""
    ran = arnold("topology", "convert", cluster_file, "--to", "slurm-conf", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["text"].startswith("SwitchName=mp0 Switches=r[0-1]\n")
    assert ran.json["format"] == "csv"
    assert len(ran.json["losses"]) == 2
    file = tmp_path / "out.conf"
    ran = arnold("topology", "convert", cluster_file, "--to", "slurm-conf", "--output", file, "--json")
    assert (ran.json["text"], ran.json["output"]) == (None, str(file))
    assert file.read_text().startswith("SwitchName=mp0")


def test_state_is_laid_over_before_writing(arnold: Arnold, cluster_file: Path, tmp_path: Path) -> None:
    """Busy nodes and flags end up in the CSV."""
    (tmp_path / "busy").write_text("n[0-1]\n")
    (tmp_path / "flags").write_text("- {node: n2, kind: straggler, slowdown: 2}\n")
    options = ["--busy", tmp_path / "busy", "--flags", tmp_path / "flags"]
    lines = arnold("topology", "convert", cluster_file, "--to", "csv", *options).out.splitlines()
    assert lines[1:4] == ["n0,mp0,r0,8,0,", "n1,mp0,r0,8,0,", "n2,mp0,r1,8,8,2.0"]


def test_a_failed_conversion_leaves_the_old_file(arnold: Arnold, tmp_path: Path) -> None:
    """No partial output: a bad input, and a place that cannot be written to."""
    bad, out = tmp_path / "bad.csv", tmp_path / "out.csv"
    bad.write_text("node,rack\nn1,r1\nn1,r1\n")
    out.write_text("old")
    ran = arnold("topology", "convert", bad, "--to", "csv", "--output", out)
    assert (ran.code, ran.out) == (2, "")
    assert f"{bad}:3: node 'n1' appears twice" in ran.err
    assert out.read_text() == "old"
    bad.write_text("node,rack\nn1,r1\n")
    assert arnold("topology", "convert", bad, "--to", "csv", "--output", tmp_path / "no" / "where").code == 2
    assert {file.name for file in tmp_path.iterdir()} == {"bad.csv", "out.csv"}


def test_standard_input(arnold: Arnold, monkeypatch: pytest.MonkeyPatch) -> None:
    """``-`` reads it; errors call it stdin."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"SwitchName=s1 Nodes=n[1-2]\n")))
    ran = arnold("topology", "validate", "-")
    assert ran.code == 0
    assert "standard input: valid slurm-conf" in ran.out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"SwitchName=s1 Nodes=n[1-\n")))
    assert arnold("topology", "validate", "-", "--json").json["error"]["where"] == "stdin:1"


def test_validation_says_what_was_understood(arnold: Arnold, cluster_file: Path) -> None:
    """Format, counts for each level; as text and as JSON."""
    ran = arnold("topology", "validate", cluster_file)
    assert ran.code == 0
    assert "valid csv" in ran.out
    assert "8 nodes, 6 free, 2 flagged" in ran.out
    document = arnold("topology", "validate", cluster_file, "--json").json
    assert [(level["name"], level["domains"], level["largest"]) for level in document["levels"]] == [
        ("minipod", 2, 4),
        ("rack", 4, 2),
    ]
    assert document["warnings"] == []


def test_validation_warns(arnold: Arnold, tmp_path: Path) -> None:
    """What is allowed and may not be meant is no error."""
    file = tmp_path / "c.csv"
    file.write_text("node,minipod,rack\nn1,a,r1\nn2,a,r1\nn3,a,\n")
    ran = arnold("topology", "validate", file)
    assert ran.code == 0
    assert says(ran.out, "Warning:", "level minipod", "one domain")
    assert says(ran.out, "Warning:", "no rack", "1 of 3 nodes")
    assert len(arnold("topology", "validate", file, "--json").json["warnings"]) == 2


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("", 2, "is empty"),
        ("node,rack\nn1\n", 2, "truncated"),
        ("SwitchName=s Nodes=n[0-400000000]", 3, "400000001 nodes"),
        ("hello", 2, "no format that is known"),
    ],
)
def test_an_invalid_file(arnold: Arnold, tmp_path: Path, text: str, code: int, words: str) -> None:
    """Exit 2, or 3 for what is merely too big; as JSON the error is the one document."""
    file = tmp_path / "bad"
    file.write_text(text)
    ran = arnold("topology", "validate", file)
    assert (ran.code, ran.out) == (code, "")
    assert words in ran.err
    assert "To fix: " in ran.err
    error = arnold("topology", "validate", file, "--json").json["error"]
    assert words in error["message"] + error["fix"]


def test_show_prints_a_tree(arnold: Arnold, cluster_file: Path) -> None:
    """With a line for each domain, as deep as asked."""
    ran = arnold("topology", "show", cluster_file)
    assert ran.code == 0
    assert "minipod mp1" in ran.out
    assert "rack r3" in ran.out
    assert "rack" not in arnold("topology", "show", cluster_file, "--depth", 1).out


def test_show_draws(arnold: Arnold, cluster_file: Path, tmp_path: Path) -> None:
    """Into a file whose suffix says the kind; another suffix is refused."""
    picture = tmp_path / "cluster.svg"
    assert arnold("topology", "show", cluster_file, "--figure", picture).code == 0
    assert "<svg" in picture.read_text()
    assert arnold("topology", "show", cluster_file, "--figure", tmp_path / "cluster.gif").code == 2


def test_show_as_json(arnold: Arnold, cluster_file: Path) -> None:
    """Every domain with its parent and counts: n3 is busy and n7 faulty."""
    document = arnold("topology", "show", cluster_file, "--json").json
    domains = {(domain["level"], domain["name"]): domain for domain in document["domains"]}
    assert len(domains) == 6
    assert domains["rack", "r1"] == {"level": "rack", "name": "r1", "parent": "mp0", "nodes": 2, "free": 1}
    assert domains["minipod", "mp1"]["parent"] is None
    assert domains["minipod", "mp1"]["free"] == 3
    shallow = arnold("topology", "show", cluster_file, "--depth", 1, "--json").json["domains"]
    assert [domain["name"] for domain in shallow] == ["mp0", "mp1"]  # as the tree, without the four racks


def test_usage_errors_name_what_was_meant(arnold: Arnold, cluster_file: Path) -> None:
    """Format names and options."""
    assert "did you mean 'slurm-conf'" in arnold("topology", "convert", cluster_file, "--to", "slurm_conf").err
    assert "did you mean 'csv'" in arnold("topology", "validate", cluster_file, "--format", "cvs").err
    assert arnold("topology", "convert", cluster_file).code == 2
    assert arnold("topology", "shwo", cluster_file).code == 2


@pytest.mark.parametrize("name", ["convert", "show", "validate"])
def test_schemas(arnold: Arnold, name: str) -> None:
    """Every field is described."""
    schema = arnold("schema", "topology", name).json
    shapes = [schema, *schema["$defs"].values()]
    assert all("description" in field for shape in shapes for field in shape.get("properties", {}).values())
    assert json.dumps(schema)
