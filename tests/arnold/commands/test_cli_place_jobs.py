"""`arnold place` with several jobs: the JSON contract, the text, files, exit codes, bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arnold.documents.joint_answer import JointDocument
from arnold.documents.place_answer import PlaceDocument
from ground.records import json_data, read_json
from scheduler.witnesses import NOT_TO_BE_CHECKED
from tests.arnold.commands.conftest import write_cluster
from tests.facts import says

Arnold = Callable[..., Any]


@pytest.fixture
def place(arnold: Arnold, tmp_path: Path) -> Arnold:
    """Two minipods of four nodes and two jobs: a takes 2 x 2 nodes, b 3 x 1."""
    cluster = write_cluster(tmp_path / "cluster.csv", [f"n{i},mp{i // 4},r{i // 2},8,8," for i in range(8)])
    for name, dp, pp in (("a", 2, 2), ("b", 3, 1), ("large", 6, 1)):
        text = f"name: {name}\nparallelism: {{tp: 8, dp: {dp}, pp: {pp}}}\nalpha: 0.25\n"
        (tmp_path / f"{name}.yaml").write_text(text)

    def run(*words: object, jobs: str) -> Any:
        files = [word for name in jobs.split() for word in ("--job", tmp_path / f"{name}.yaml")]
        return arnold("place", "--cluster", cluster, *files, *words)

    return run


def test_the_document_is_that_of_the_contract(place: Arnold) -> None:
    """A place document for each job, the weighted sum and what is proved: a has 1, b 1, so 3 with a counting twice."""
    ran = place("--weight", "a=2", "--json", jobs="a b")
    assert ran.code == 0
    assert {"jobs", "objective", "bound", "gap", "status"} <= set(ran.json)
    assert (ran.json["status"], ran.json["objective"], ran.json["bound"], ran.json["gap"]) == ("optimal", 3.0, 3.0, 0.0)
    assert json_data(JointDocument, read_json(JointDocument, ran.json)) == ran.json
    nodes = {name: [cell["node"] for cell in one["assignment"]] for name, one in ran.json["jobs"].items()}
    assert {name: len(of_job) for name, of_job in nodes.items()} == {"a": 4, "b": 3}
    assert len({*nodes["a"], *nodes["b"]}) == 7
    assert ran.json["one_after_the_other"][0] == {"order": ["a", "b"], "objective": 3.0, "stuck": None}


def test_one_job_is_answered_as_ever(place: Arnold) -> None:
    """A single `--job` prints the place document; with a weight it is one of several."""
    assert "assignment" in place("--json", jobs="a").json
    assert set(place("--weight", "a=2", "--json", jobs="a").json["jobs"]) == {"a"}


def test_what_does_not_fit_is_named(place: Arnold) -> None:
    """4 + 3 + 6 nodes on 8: without the largest the others fit."""
    ran = place("--json", jobs="a b large")
    assert (ran.code, ran.json["status"], ran.json["left_out"], ran.json["jobs"]) == (3, "infeasible", ["large"], {})
    assert says(ran.json["reason"], "13 nodes", "8")
    assert says(place(jobs="a b large").out, "to leave out: large")


def test_the_text_says_what_one_after_the_other_gives(place: Arnold) -> None:
    """The sum, the bound, a line for each job."""
    out = place("-v", jobs="a b").out
    assert "proved optimal: sum 2.0, proved bound 2.0" in out
    assert "b, a: sum 2.0, as good" in out


def test_what_holds_for_all_jobs_is_noted_once(place: Arnold, tmp_path: Path) -> None:
    """Neither job says how many GPUs its nodes have; only that of b is without alpha."""
    (tmp_path / "b.yaml").write_text("name: b\nparallelism: {tp: 8, dp: 3}\n")
    notes = [line for line in place(jobs="a b").out.splitlines() if line.startswith("  - ")]
    assert [note.split()[1:3] for note in notes if "gpus_per_node" in note] == [["gpus_per_node", "8,"]]
    assert [note.split()[1:3] for note in notes if "alpha" in note] == [["b:", "alpha"]]


def test_each_job_has_its_own_files(place: Arnold, tmp_path: Path) -> None:
    """The name of the job stands where {job} stood; pages say what all of them have together."""
    ran = place("--output", tmp_path / "out-{job}.json", "--html", tmp_path / "{job}.html", "--json", jobs="a b")
    assert ran.code == 0
    for name in "ab":
        saved = (tmp_path / f"out-{name}.json").read_text()
        assert f'"name": "{name}"' in saved
        assert says((tmp_path / f"{name}.html").read_text(), "sum of objectives 2.0", "proved bound 2.0")
    assert json_data(PlaceDocument, read_json(PlaceDocument, ran.json["jobs"]["a"])) == ran.json["jobs"]["a"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--weight", "c=2"], "no job is called 'c'"),
        (["--weight", "a"], "'a' is no weight"),
        (["--weight", "a=0"], "the weight of a is '0'"),
        (["--weight", "a=-1"], "the weight of a is '-1'"),
        (["--weight", "a=nan"], "the weight of a is 'nan'"),
        (["--weight", "a=inf"], "the weight of a is 'inf'"),
        (["--weight", "a=1", "--weight", "a=2"], "the weight of a is given twice"),
        (["--output", "x.json"], "several jobs go to one file"),
        (["--html", "x.html"], "several jobs go to one file"),
        (["--algorithm", "kai"], "placed by exact alone"),
    ],
)
def test_bad_input_is_one_error(place: Arnold, words: list[str], said: str) -> None:
    """Exit 2, what is wrong, and how to mend it."""
    ran = place(*words, jobs="a b")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("To fix: ") == 1


def test_two_jobs_of_one_name_are_refused(place: Arnold, tmp_path: Path) -> None:
    """Their answers could not be told apart; one file named twice is two jobs, which are numbered."""
    (tmp_path / "same.yaml").write_text((tmp_path / "a.yaml").read_text())
    ran = place(jobs="a same")
    assert ran.code == 2
    assert "two jobs are called 'a'" in ran.err
    assert [*place("--json", jobs="a a").json["jobs"]] == ["a-1", "a-2"]


@pytest.fixture
def unlike(tmp_path: Path) -> Path:
    """Four nodes of 4 GPUs of the type A, and four of 8 of the type B, on two power feeds in turn."""
    nodes = [f"n{i},m{i // 4},{4 if i < 4 else 8},{'AB'[i // 4]},p{i % 2}" for i in range(8)]
    (tmp_path / "c.csv").write_text("\n".join(["node,minipod,gpus,gpu_type,@power", *nodes, ""]))
    return tmp_path / "c.csv"


def test_nodes_of_several_sizes_and_power_feeds(arnold: Arnold, tmp_path: Path, unlike: Path) -> None:
    """Job x takes four nodes of A, or two of B, all on one feed; y takes two of B, and has least on one feed.  Together
    each has a feed of B, and x is answered as a job for nodes of 8 GPUs.
    """
    (tmp_path / "x.yaml").write_text(
        'name: x\nparallelism: {tp: 4, dp: 4}\nconstraints: [{family: dp, within: "@power"}]\n'
    )
    (tmp_path / "y.yaml").write_text(
        "name: y\ngpus_per_node: 8\nparallelism: {tp: 8, dp: 2}\n"
        'constraints: [{family: dp, level: "@power", weight: 0.5}]\n'
    )
    words = ["--job", tmp_path / "x.yaml", "--job", tmp_path / "y.yaml", "--output", tmp_path / "saved-{job}.json"]
    ran = arnold("place", "--cluster", unlike, *words, "--json")
    assert (ran.code, ran.json["status"], ran.json["objective"]) == (0, "optimal", 2.5)
    jobs = ran.json["jobs"]
    assert (jobs["x"]["job"]["gpus_per_node"], jobs["x"]["spread_by_level"]["@power"]["dp"]) == (8, 1)
    nodes = [{cell["node"] for cell in jobs[name]["assignment"]} for name in "xy"]
    assert sorted(map(sorted, nodes)) == [["n4", "n6"], ["n5", "n7"]]
    both = ["--running", tmp_path / "saved-x.json", "--running", tmp_path / "saved-y.json"]
    (tmp_path / "z.yaml").write_text("name: z\nparallelism: {tp: 4, dp: 4}\nspeed: {B: 2}\n")
    # z would be twice as fast on B, and nothing that runs there can leave
    found = arnold("defragment", "--cluster", unlike, *both, "--job", tmp_path / "z.yaml", "--json").json
    assert (found["status"], found["target"], found["reached"], found["cost"]) == ("optimal", 0.5, False, 0)
    assert (found["placement"]["job"]["gpus_per_node"], found["objective"]) == (4, 1.0)


def test_a_running_job_leaves_a_power_feed(arnold: Arnold, tmp_path: Path, unlike: Path) -> None:
    """Job y runs on n4 and n5, one on each feed; x needs two nodes of B on one feed, so a node of y moves."""
    (tmp_path / "y.yaml").write_text("name: y\ngpus_per_node: 8\nparallelism: {tp: 8, dp: 2}\n")
    saved = arnold("place", "--cluster", unlike, "--job", tmp_path / "y.yaml", "--json").json
    for cell, node in zip(saved["assignment"], ["n4", "n5"], strict=True):
        cell["node"] = node
    (tmp_path / "y.json").write_text(json.dumps(saved))
    (tmp_path / "x.yaml").write_text(
        'name: x\nparallelism: {tp: 4, dp: 4}\nconstraints: [{family: dp, within: "@power"}]\n'
    )
    words = ["--running", tmp_path / "y.json", "--job", tmp_path / "x.yaml"]
    found = arnold("defragment", "--cluster", unlike, *words, "--json").json
    assert (found["status"], found["now"], found["objective"], found["cost"]) == ("optimal", None, 1.0, 1)
    assert len({cell["node"] for cell in found["placement"]["assignment"]} & {"n4", "n6"}) in (0, 2)
    assert "1 node moved" in arnold("defragment", "--cluster", unlike, *words).out


def test_what_the_limit_stopped_says_so(place: Arnold, tmp_path: Path) -> None:
    """Three jobs that have to share two minipods, with time for a first answer alone: in text, JSON and each page."""
    for name, dp in (("p", 3), ("q", 3), ("r", 2)):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\nparallelism: {{tp: 8, dp: {dp}, pp: 1}}\nalpha: 0.5\n")
    ran = place("--time-limit", "0.001", "--html", tmp_path / "{job}.html", "--json", jobs="p q r")
    assert (ran.code, ran.json["status"], ran.json["stopped_at"]) == (0, "feasible", 0.001)
    assert "stopped at 0.001 s, gap " in place("--time-limit", "0.001", jobs="p q r").out
    stopped = [name for name, one in ran.json["jobs"].items() if one["stopped_at"] == 0.001]
    assert stopped  # those of which the bound alone is not reached
    assert all("topped at 0.001 s" in (tmp_path / f"{name}.html").read_text() for name in stopped)
    proved = place("--json", jobs="p q r").json
    assert (proved["status"], proved["stopped_at"]) == ("optimal", None)
    assert {one["stopped_at"] for one in proved["jobs"].values()} == {None}


def test_a_sum_that_no_certificate_shows_is_said_to_be_so(place: Arnold, tmp_path: Path) -> None:
    """Alone each job costs 1, and of 3, 3 and 2 nodes in minipods of four one is split: that is shown by no certificate
    of one job.  Where each has what it costs alone at least, the certificates of all show the sum.
    """
    for name, dp in (("c", 3), ("d", 2)):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\nparallelism: {{tp: 8, dp: {dp}, pp: 1}}\nalpha: 0.25\n")
    ran = place("--json", jobs="b c d")
    assert (ran.json["status"], ran.json["objective"]) == ("optimal", 3.25)
    assert says(ran.json["unchecked"]["objective"], "sum 3.25", NOT_TO_BE_CHECKED)
    assert ran.json["unchecked"]["objective"] in place(jobs="b c d").out
    assert place("--json", jobs="a b").json["unchecked"] == {}
