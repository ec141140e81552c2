"""`arnold explain`, `arnold compare` and `arnold demo`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from arnold.documents.compare_answer import CompareOutput
from arnold.documents.explain_answer import ExplainDocument
from tests.facts import says

Arnold = Callable[..., Any]


def round_trips(document: Any, shape: Any) -> bool:
    """Whether a document is what its schema says, no more and no less."""
    adapter = TypeAdapter(shape)
    return bool(json.loads(adapter.dump_json(adapter.validate_json(json.dumps(document)))) == document)


# compare


def test_compare_puts_the_best_first(arnold: Arnold, fakes: None, cluster_file: Path, job_file: Path) -> None:
    """Sorted by objective; ratios against the best; those without a placement last, with the reason."""
    args = ["compare", "--cluster", cluster_file, "--job", job_file, "--algorithm", "twice,first,late,exact"]
    ran = arnold(*args, "--json")
    assert ran.code == 0
    assert round_trips(ran.json, CompareOutput)
    results = ran.json["results"]
    assert [result["algorithm"] for result in results] == ["exact", "first", "twice", "late"]
    # two rows of two nodes in two minipods with 3 usable nodes each: columns over both, rows whole: 0.25 * 2 + 0.75
    assert (results[0]["status"], results[0]["objective"], results[0]["ratio"]) == ("optimal", 1.25, 1.0)
    # first fit splits the second row too: 0.25 * 2 + 0.75 * 2
    assert (results[1]["status"], results[1]["objective"], results[1]["ratio"]) == ("feasible", 2.0, 1.6)
    assert (results[2]["status"], results[2]["objective"]) == ("refused", None)
    assert "used twice" in results[2]["reason"]
    assert results[3]["status"] == "timeout"
    assert (ran.json["best"], ran.json["bound"]) == (1.25, 1.25)
    out = arnold(*args).out
    assert out.index("\nexact ") < out.index("\nfirst ") < out.index("twice: refused")


def test_compare_runs_all_that_are_installed(arnold: Arnold, cluster_file: Path, job_file: Path) -> None:
    """Without --algorithm every algorithm takes part, and none is refused or better than the proved optimum."""
    results = arnold("compare", "--cluster", cluster_file, "--job", job_file, "--json").json["results"]
    listed = arnold("compare", "--list", "--json").json
    assert round_trips(listed, CompareOutput)
    assert {result["algorithm"] for result in results} == {row["name"] for row in listed["algorithms"]}
    assert "refused" not in {result["status"] for result in results}
    assert min(result["objective"] for result in results if result["objective"] is not None) == 1.25


@pytest.mark.parametrize(("algorithms", "code"), [("late", 4), ("late,sure", 3), ("late,sure,first", 0)])
@pytest.mark.usefixtures("fakes")
def test_compare_exits_with_the_best_outcome(
    arnold: Arnold, cluster_file: Path, job_file: Path, algorithms: str, code: int
) -> None:
    """One placement is enough for 0; otherwise a proof of infeasibility says more than running out of time."""
    args = ["compare", "--cluster", cluster_file, "--job", job_file, "--algorithm", algorithms]
    assert arnold(*args).code == code


def test_list_needs_no_instance(arnold: Arnold) -> None:
    """The list can be had without a cluster, in either order with --json."""
    assert "exact" in arnold("compare", "--list").out
    assert arnold("compare", "--list", "--json").json == arnold("compare", "--json", "--list").json


# explain


def test_explain_refutes_every_cheaper_pair(arnold: Arnold, cluster_file: Path, job_file: Path) -> None:
    """The optimum is (2, 1) = 1.25; only (1, 1) = 1.0 is cheaper, and it is ruled out in words."""
    ran = arnold("explain", "--cluster", cluster_file, "--job", job_file, "--json")
    assert ran.code == 0
    assert round_trips(ran.json, ExplainDocument)
    assert says(ran.json["verdict"], "proved optimal", "DP spread 2", "PP spread 1", "objective 1.25")
    assert [(pair["dp"], pair["pp"], pair["objective"]) for pair in ran.json["cheaper"]] == [(1, 1, 1.0)]
    assert all(pair["sentence"] and pair["refuted_by"] for pair in ran.json["cheaper"])
    out = arnold("explain", "--cluster", cluster_file, "--job", job_file).out
    assert says(out, "proved optimal", "DP spread 2", "PP spread 1", "objective 1.25")
    assert ran.json["cheaper"][0]["sentence"][:40] in out


def test_explain_where_no_change_helps(arnold: Arnold, tmp_path: Path) -> None:
    """One node, in use: nothing smaller, freed or relaxed makes room for two stages; the text says what was tried."""
    (tmp_path / "cluster.csv").write_text("node,rack,gpus,free_gpus\nn1,r1,8,0\n")
    (tmp_path / "job.yaml").write_text("parallelism: {tp: 8, pp: 2, dp: 4}\n")
    out = arnold("explain", "--cluster", tmp_path / "cluster.csv", "--job", tmp_path / "job.yaml").out
    assert "Any one of these" not in out
    assert says(out.split("What would help\n")[1], "No single change", "a smaller dp")


def test_explain_of_a_job_that_does_not_fit(arnold: Arnold, cluster_file: Path, tmp_path: Path) -> None:
    """7 nodes wanted, 6 usable, one in use, one faulty: freeing one helps, so does dp 6; each was solved."""
    job = tmp_path / "job.yaml"
    job.write_text("parallelism: {tp: 8, dp: 7}\n")
    ran = arnold("explain", "--cluster", cluster_file, "--job", job, "--json")
    assert ran.code == 3
    assert round_trips(ran.json, ExplainDocument)
    diagnosis = ran.json["diagnosis"]
    assert (diagnosis["constraint"], diagnosis["would_fit_if_empty"]) == ("nodes", True)
    changes = {change["kind"]: change for change in diagnosis["changes"]}
    assert changes["free-nodes"]["free"] == ["n3"]
    assert changes["smaller-dp"]["dp"] == 6
    out = arnold("explain", "--cluster", cluster_file, "--job", job).out
    assert "Lower dp from 7 to 6" in out
    assert "1 in mp0" in out


def test_explain_of_a_hard_constraint(arnold: Arnold, cluster_file: Path, tmp_path: Path) -> None:
    """Six usable nodes and five cells in one minipod of three: the constraint binds; dropping it helps, dp 3 too."""
    job = tmp_path / "job.yaml"
    job.write_text("parallelism: {tp: 8, dp: 5}\nconstraints: [{family: dp, within: minipod}]\n")
    ran = arnold("explain", "--cluster", cluster_file, "--job", job, "--json")
    assert ran.code == 3
    diagnosis = ran.json["diagnosis"]
    assert (diagnosis["constraint"], diagnosis["would_fit_if_empty"]) == ("hold", False)
    changes = {change["kind"]: change for change in diagnosis["changes"]}
    assert set(changes) == {"drop-constraint", "smaller-dp"}
    assert changes["smaller-dp"]["dp"] == 3
    assert changes["drop-constraint"]["spread"]["dp"] == 2


# demo


def test_demo_makes_a_page_and_files_to_play_with(
    arnold: Arnold, fakes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo needs no input, writes one page that needs no network, and files that `arnold place` takes.  Here with a
    small instance and three quick algorithms: the rest of the demo is the other commands.
    """
    from arnold.demonstration import demo_instance
    from scheduler.job import Parallelism
    from topology.generate import flag_some, fragment, minipods

    small = flag_some(fragment(minipods(minipods=3, nodes=60), 0.3, 1), 2, 1)
    wanted = demo_instance(0)[1].replace(parallelism=Parallelism(tp=8, pp=2, dp=4))
    monkeypatch.setattr("arnold.demonstration.demo_instance", lambda seed: (small, wanted))
    monkeypatch.setattr("scheduler.placement.types.ALGORITHMS.names", lambda **_: ("exact", "first", "twice"))
    page, folder = tmp_path / "page.html", tmp_path / "files"
    ran = arnold("demo", "--html", page, "--save", folder, "--json")
    assert ran.code == 0
    assert ran.json["comparison"]["results"][0]["status"] == "optimal"
    text = page.read_text()
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text
    again = arnold("place", "--cluster", folder / "cluster.csv", "--job", folder / "job.yaml", "--json").json
    assert again["objective"] == ran.json["comparison"]["best"]
    assert "page" in arnold("demo", "--html", page).out


def test_the_demo_is_the_papers_largest_setting() -> None:
    """2,046 nodes in 22 minipods, 30 % in use, 12 flagged; 150 x 8 cells are 9,600 GPUs; the same seed, the same."""
    from arnold.demonstration import demo_instance

    cluster, job = demo_instance(0)
    assert (len(cluster), len(cluster.default_level())) == (2046, 22)
    assert (cluster.free_gpus < cluster.gpus).sum() == round(0.3 * 2046)
    assert len(cluster.flags) == 12
    assert job.grid.cells * job.gpus_per_node == 9600
    assert demo_instance(0)[0].flags == cluster.flags
