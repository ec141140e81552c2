"""`arnold capacity` through the front door: words or one JSON document, assumptions always, errors that help."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import pytest

from arnold.commands.capacity import QUESTIONS as COMMANDS
from arnold.options.field_options import option_names
from ground.plugins import object_at
from ground.records import field_docs, read_json
from simulator.capacity.cache import CacheAnswer
from simulator.capacity.fragmentation import FragmentationAnswer
from simulator.capacity.grow import GrowAnswer
from simulator.capacity.minipods import MinipodsAnswer
from simulator.capacity.power import PowerAnswer
from simulator.capacity.question import CapacityAnswer
from simulator.capacity.reserve import ReserveAnswer
from simulator.capacity.spares import SparesAnswer
from tests.facts import says

Arnold = Callable[..., Any]

QUESTIONS: dict[str, tuple[type[CapacityAnswer], list[str]]] = {
    "spares": (SparesAnswer, ["--nodes", "128", "--runs", "2", "--days", "20"]),
    "minipods": (
        MinipodsAnswer,
        ["--cluster-nodes", "64", "--size", "16", "--oversubscription", "2", "--grid", "8x2x4", "--seeds", "1"],
    ),
    "fragmentation": (FragmentationAnswer, ["--made", "4x12", "--shape", "8x4"]),
    "cache": (CacheAnswer, ["--cache-gb", "100", "--readers", "2", "--draws", "20"]),
    "grow": (GrowAnswer, ["--made", "3x8", "--shape", "8x2", "--more", "1", "--days", "0.1", "--workloads", "1"]),
    "power": (
        PowerAnswer,
        ["--made", "2x8", "--grid", "8x2x4", "--feed-nodes", "3", "--seconds", "20", "--draws", "10"],
    ),
    "reserve": (
        ReserveAnswer,
        [
            "--made",
            "4x8",
            "--grid",
            "8x4x4",
            "--notice-hours",
            "1",
            "--after-hours",
            "1",
            "--workloads",
            "1",
            "--policy",
            "arnold",
        ],
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question(arnold: Arnold, tmp_path: Path, question: str) -> None:
    """The JSON validates and carries assumptions; the figure and the page are written; the text tells the same verdict.

    Same seed: the text of a second run has the verdict of the first.
    """
    kind, options = QUESTIONS[question]
    html, svg = tmp_path / "page.html", tmp_path / "figure.svg"
    done = arnold("capacity", question, *options, "--json", "--html", html, "--svg", svg)
    assert done.code == 0, done.err
    document = read_json(kind, json.loads(done.out))
    assert len(document.assumptions) >= 4
    ET.fromstring(svg.read_text())
    page = html.read_text()
    assert "Assumptions" in page
    # the largest figure of the page is the answer, and its sentence has it
    assert document.figure is not None
    figures = re.findall(r'data-fact="\d+"><dd><span>([^<]*)</span>', page)
    assert figures[0] == escape(document.figure.value)
    assert all(word in document.verdict for word in re.findall(r"\d[\d,.]*", document.figure.value))
    text = arnold("capacity", question, *options)
    assert text.code == 0
    assert document.verdict[:40] in text.out
    assert "Assumptions" in text.out


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_a_schema(arnold: Arnold, question: str) -> None:
    """`arnold schema capacity ...` describes every field."""
    done = arnold("schema", "capacity", question)
    assert done.code == 0, done.err
    schema = json.loads(done.out)
    assert all("description" in field or "$ref" in field for field in schema["properties"].values())


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_option_is_explained(arnold: Arnold, question: str) -> None:
    """Each field of the question is an option with a docstring, and stands in the help, which says how to begin."""
    kind = object_at(COMMANDS[question].target)
    done = arnold("capacity", question, "--help")
    assert done.code == 0
    assert f"arnold capacity {question}" in done.out.partition("Examples:")[2]
    for field, option in option_names(kind).items():
        assert f"  {option} " in done.out
        assert field_docs(kind)[field]


def test_the_group_lists_its_questions(arnold: Arnold) -> None:
    """One line for each, in the table's order; a question that is not there is a mistake, with the nearest name."""
    listed = arnold("capacity", "--help").out
    places = [listed.index(f"  {name} ") for name in COMMANDS]
    assert places == sorted(places)
    assert "minipods" in arnold("capacity", "minipod").err


def test_the_cluster_of_a_file_has_its_name(arnold: Arnold, tmp_path: Path) -> None:
    """The answer calls it as the command line does; what is worth knowing of the file goes to standard error."""
    path = tmp_path / "cluster.csv"
    path.write_text("node,rack\n" + "".join(f"n{i},r{i // 4}\n" for i in range(8)))
    done = arnold("capacity", "grow", "--cluster", path, "--gpus-per-node", 8, "--days", 0.02, "--more", 1, "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["cluster"] == str(path)
    assert [row["nodes"] for row in document["rows"]] == [8, 12]


def test_spares_that_do_not_suffice(arnold: Arnold) -> None:
    """A target that no number of spares reaches is an answer, with exit code 3 and null."""
    done = arnold("capacity", "spares", "--nodes", 2048, "--target-ettr", 0.99, "--runs", 2, "--days", 5, "--json")
    assert done.code == 3
    assert json.loads(done.out)["needed"] is None


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["spares", "--nodes", "0"], "--nodes"),
        (["spares", "--nodes", "8", "--failures", "rsc3"], "rsc-1"),
        (["spares", "--nodes", "8", "--target-ettr", "nan"], "finite"),
        (["spares", "--nodes", "8", "--restart", "soon"], "hot-update"),
        (["minipods", "--grid", "8x8"], "8x16x20"),
        (["minipods", "--size", "9999"], "2,048 nodes"),
        (["minipods", "--algorithm", "exakt"], "exact"),
        (["fragmentation", "--made", "22"], "22x93"),
        (["fragmentation", "--shape", "3x4"], "divisors of 8"),
        (["fragmentation", "--busy", "busy.txt"], "--cluster"),
        (["fragmentation", "--cluster", "no-such-file.csv"], "no such file"),
        (["grow", "--made", "2x4", "--policy", "fifa"], "fifo"),
        (["grow", "--made", "2x4", "--lead-time", "-1"], "--lead-time"),
        (["grow", "--made", "2x4", "--growth", "-1"], "above -1"),
        (["grow", "--made", "2x4", "--objective-wait", "0"], "objective-wait"),
        (["reserve", "--made", "2x4"], "600 nodes"),
        (["reserve", "--made", "4x8", "--grid", "8x4x4", "--policy", "arnolt"], "arnold"),
        (["power", "--compute-share", "1.5"], "--compute-share"),
        (["power", "--communicate-share", "0.5..1.2"], "--communicate-share"),
        (["power", "--step-seconds", "0"], "--step-seconds"),
        (["power", "--power", "no-such-file.yaml"], "no such file"),
        (["spare"], "spares"),
    ],
)
def test_bad_questions(arnold: Arnold, args: list[str], word: str) -> None:
    """A message that says what is wrong and what to do; never a traceback; as JSON too."""
    done = arnold("capacity", *args)
    assert done.code == 2
    assert word in done.err
    assert "Traceback" not in done.err
    as_json = arnold("capacity", *args, "--json")
    assert as_json.code == 2
    assert json.loads(as_json.out)["error"]["message"]


def test_a_cluster_of_ones_own(arnold: Arnold, tmp_path: Path) -> None:
    """Two racks of four, one node busy: seven are free, three and four by rack."""
    path = tmp_path / "cluster.csv"
    rows = [f"n{i},r{i // 4},8,{0 if i == 1 else 8}" for i in range(8)]
    path.write_text("\n".join(["node,rack,gpus,free_gpus", *rows]) + "\n")
    done = arnold("capacity", "fragmentation", "--cluster", path, "--shape", "8x2", "--json")
    document = json.loads(done.out)
    assert document["level"] == "rack"
    assert document["free_by_domain"] == [4, 3]
    # Rows of two: one in the rack of three, two in the rack of four.
    whole = next(one for one in document["shapes"][0]["largest"] if (one["family"], one["spread"]) == ("pp", 1))
    assert whole["nodes"] == 6
    for option in (["--made", "22x93"], ["--busy-share", "0.5"]):
        ran = arnold("capacity", "fragmentation", "--cluster", path, *option)
        assert (ran.code, ran.out) == (2, "")
        assert says(ran.err, option[0], "a cluster that is made")


@pytest.mark.parametrize("words", [["fragmentation"], ["grow", "--days", "1"], ["power"]])
def test_a_cluster_without_levels_is_named(arnold: Arnold, tmp_path: Path, words: list[str]) -> None:
    """The file, and where levels come from in each of its formats; with a level that it has not, too."""
    path = tmp_path / "flat.csv"
    path.write_text("node,gpus\na,8\nb,8\n")
    ran = arnold("capacity", *words, "--cluster", path)
    assert ran.code == 2
    assert says(ran.err, str(path), "no levels", "node,rack,gpus", "--levels", "scontrol show topology")
    if words != ["power"]:
        assert says(arnold("capacity", *words, "--cluster", path, "--level", "rack").err, "rack", "node,rack,gpus")


def test_nodes_of_four(arnold: Arnold, tmp_path: Path) -> None:
    """A rack of trays of 4 GPUs: shapes are of such nodes, for every question that takes a cluster."""
    path = tmp_path / "cluster.csv"
    path.write_text("\n".join(["node,rack,gpus", *(f"n{i},r{i // 9},4" for i in range(18))]) + "\n")
    still = json.loads(arnold("capacity", "fragmentation", "--cluster", path, "--json").out)
    assert [shape["shape"] for shape in still["shapes"]] == ["4x1", "4x4", "4x8", "4x16"]
    assert still["shapes"][0]["most_nodes"] == 18
    more = json.loads(arnold("capacity", "grow", "--cluster", path, "--shape", "4x3", "--days", 0.1, "--json").out)
    assert [row["nodes"] for row in more["rows"]] == [18, 27, 36]
    options = ("--notice-hours", 1, "--after-hours", 1, "--workloads", 1, "--policy", "fifo-backfill", "--json")
    zone = arnold("capacity", "reserve", "--cluster", path, "--grid", "4x3x3", *options)
    assert json.loads(zone.out)["zone"] == 9


def test_simulate_with_failures(arnold: Arnold, tmp_path: Path) -> None:
    """A rate by name, spares and checkpoints: an ETTR below 1; what means nothing without a rate is refused."""
    cluster, trace = tmp_path / "cluster.csv", tmp_path / "jobs.csv"
    cluster.write_text("\n".join(["node,rack", *(f"n{i:02},r{i // 4}" for i in range(20))]) + "\n")
    trace.write_text("job_id,submit,duration,gpus,nodes\n" + f"a,0,{90 * 86400},128,16\n")
    files = [
        "simulate",
        "--cluster",
        cluster,
        "--trace",
        trace,
        "--algorithm",
        "best-fit",
        "--cost-model",
        "none",
        "--json",
    ]
    options = ["--failures", "rsc-1", "--spares", 2, "--repair-hours", 12, "--job-checkpoint-interval", 3600]
    done = arnold(*files, *options)
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["completed"] == 1
    assert 0.95 < document["ettr"] < 1.0
    assert json.loads(arnold(*files).out)["ettr"] == 1.0
    refused = arnold(*files, "--spares", 2)
    assert refused.code == 2
    assert "--failures" in refused.out


@pytest.mark.parametrize("question", ["reserve", "fragmentation", "grow"])
@pytest.mark.parametrize("option", [["--busy", "b.txt"], ["--gpus-per-node", "4"], ["--levels", "a"]])
def test_what_lies_over_no_cluster_is_refused(arnold: Arnold, question: str, option: list[str]) -> None:
    """Without --cluster there is nothing to lay it over: it is not lost silently."""
    ran = arnold("capacity", question, *option)
    assert (ran.code, ran.out) == (2, "")
    assert f"{option[0]} belongs to a cluster file" in ran.err


def test_levels_of_a_cluster_are_failure_domains(arnold: Arnold, tmp_path: Path) -> None:
    """Racks of four nodes, of a file; a cluster that nothing is asked of is refused, as is a level it does not have."""
    path = tmp_path / "cluster.csv"
    path.write_text("node,rack\n" + "".join(f"n{i},r{i // 4}\n" for i in range(16)))
    ask = ["capacity", "spares", "--nodes", 16, "--runs", 2, "--days", 1, "--draws", 10, "--cluster", path]
    done = arnold(*ask, "--failure-domain", "rack", "--failure-domain", "feed:8:0.05:6", "--json")
    assert done.code == 0, done.err
    found = [(one["name"], one["nodes"], one["in_the_job"]) for one in json.loads(done.out)["domains"]]
    assert found == [("rack", 4, 4.0), ("feed", 8, 2.0)]
    assert "--failure-domain" in arnold(*ask).err
    assert "no level 'leaf'" in arnold(*ask, "--failure-domain", "leaf").err
    assert "--format belongs to a cluster file" in arnold(*ask[:-2], "--format", "csv").err


def test_what_decides_as_a_picture(arnold: Arnold, tmp_path: Path) -> None:
    """A tornado is an SVG with a bar for each input; an answer of one state has none, and says why."""
    file = tmp_path / "tornado.svg"
    done = arnold("capacity", "spares", "--nodes", 64, "--runs", 2, "--days", 1, "--tornado", file)
    assert done.code == 0, done.err
    assert "What would change it" in done.out
    words = {element.text for element in ET.fromstring(file.read_text()).iter() if element.tag.endswith("text")}
    assert {"hours of a node's repair", "failures per 1,000 node-days", "seconds of a restart", "72"} <= words
    cluster = tmp_path / "cluster.csv"
    cluster.write_text("node,rack\na,r0\nb,r0\nc,r1\n")
    refused = arnold("capacity", "fragmentation", "--cluster", cluster, "--shape", "8x1", "--tornado", file)
    assert refused.code == 2
    assert "no uncertain input decides" in refused.err
