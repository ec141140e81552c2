"""Pools that taints keep apart: what is said of them, `--tolerate`, and `tolerations` of a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arnold.commands.run import run
from tests.facts import says


@pytest.fixture
def nodes(tmp_path: Path) -> str:
    """7 nodes of 8 GPUs: n0 to n2 for vision, n3 to n5 for speech, n6 free."""
    items = []
    for i in range(7):
        taints = [{"key": "dedicated", "value": "vision" if i < 3 else "speech", "effect": "NoSchedule"}]
        spec = {"taints": taints} if i < 6 else {}
        amounts = {"nvidia.com/gpu": "8"}
        items.append({"kind": "Node", "metadata": {"name": f"n{i}"}, "spec": spec, "status": {"capacity": amounts}})
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(file)


def job_file(folder: Path, dp: int, *, tolerations: object = None, name: str = "job") -> str:
    """A job of so many nodes of 8 GPUs."""
    content: dict[str, Any] = {"name": name, "parallelism": {"tp": 8, "dp": dp}}
    if tolerations is not None:
        content["tolerations"] = tolerations
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps(content))
    return str(file)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    """The JSON of a command."""
    found = run([*arguments, "--json"])
    out, err = capsys.readouterr()
    assert found == code, err
    return json.loads(out)


def used(document: Any) -> set[str]:
    """The nodes of a placement."""
    return {cell["node"] for cell in document["assignment"]}


def test_without_tolerations_the_taints_are_named(
    tmp_path: Path, nodes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three nodes are wanted and n6 alone has no taint: kept out, not faulty, with the option that admits them."""
    document = answer(capsys, "place", "--cluster", nodes, "--job", job_file(tmp_path, 3), code=3)
    assert document["status"] == "infeasible"
    assert says(document["reason"], "3 kept out", "dedicated=vision")
    assert "--tolerate dedicated=vision" in document["reason"]
    assert "faulty" not in document["reason"]
    assert document["cluster"]["faulty"] == 0
    assert document["cluster"]["kept_out"] == {
        "kept out by the taint dedicated=vision": 3,
        "kept out by the taint dedicated=speech": 3,
    }


@pytest.mark.parametrize(
    "case",  # nodes of the job, options, its tolerations, nodes that it may have
    [
        (3, ("--tolerate", "dedicated=vision"), None, {"n0", "n1", "n2", "n6"}),
        (4, ("--tolerate", "dedicated=vision"), None, {"n0", "n1", "n2", "n6"}),
        (4, (), ["dedicated=speech"], {"n3", "n4", "n5", "n6"}),
        (4, (), [{"key": "dedicated", "operator": "Equal", "value": "speech", "effect": "NoSchedule"}],
         {"n3", "n4", "n5", "n6"}),
        (7, (), [{"key": "dedicated", "operator": "Exists", "tolerationSeconds": 60}], {f"n{i}" for i in range(7)}),
        (7, ("--tolerate", "dedicated"), None, {f"n{i}" for i in range(7)}),
        (7, ("--tolerate", "dedicated=vision"), ["dedicated=speech"], {f"n{i}" for i in range(7)}),
    ],
)  # fmt: skip
def test_a_job_gets_the_pools_that_it_tolerates(
    tmp_path: Path,
    nodes: str,
    capsys: pytest.CaptureFixture[str],
    case: tuple[int, tuple[str, ...], object, set[str]],
) -> None:
    """These and no others: one more node than they have is infeasible."""
    dp, option, tolerations, may = case
    job = job_file(tmp_path, dp, tolerations=tolerations)
    found = used(answer(capsys, "place", "--cluster", nodes, "--job", job, *option))
    assert (len(found), found <= may) == (dp, True)
    more = job_file(tmp_path, len(may) + 1, tolerations=tolerations)
    assert answer(capsys, "place", "--cluster", nodes, "--job", more, *option, code=3)["status"] == "infeasible"


def test_several_jobs_have_each_its_pools(tmp_path: Path, nodes: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Placed at once, the job of vision and that of speech take three nodes of their own each, and one takes n6."""
    jobs = [job_file(tmp_path, dp, tolerations=[f"dedicated={pool}"], name=pool) for pool, dp in
            (("vision", 4), ("speech", 3))]  # fmt: skip
    document = answer(capsys, "place", "--cluster", nodes, *(word for job in jobs for word in ("--job", job)))
    assert used(document["jobs"]["vision"]) == {"n0", "n1", "n2", "n6"}
    assert used(document["jobs"]["speech"]) == {"n3", "n4", "n5"}


def test_explain_names_the_taint_that_it_would_be_enough_to_tolerate(
    tmp_path: Path, nodes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Either pool does for three nodes; for seven both are needed, and are said together."""
    document = answer(capsys, "explain", "--cluster", nodes, "--job", job_file(tmp_path, 3), code=3)
    found = [change["sentence"] for change in document["diagnosis"]["changes"] if change["kind"] == "tolerate-taint"]
    assert len(found) == 2
    assert all("3 more nodes" in sentence for sentence in found)
    document = answer(capsys, "explain", "--cluster", nodes, "--job", job_file(tmp_path, 7), code=3)
    (both,) = [one["sentence"] for one in document["diagnosis"]["changes"] if one["kind"] == "tolerate-taint"]
    assert "--tolerate dedicated=speech --tolerate dedicated=vision" in both


def test_the_topology_commands_tell_kept_out_from_faulty(
    tmp_path: Path, nodes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By pool; with --tolerate the nodes are free; a CSV written of it says the same."""
    document = answer(capsys, "topology", "validate", nodes, "--tolerate", "dedicated=speech")
    assert (document["cluster"]["free"], document["cluster"]["flagged"]) == (4, 0)
    assert document["cluster"]["kept_out"] == {"kept out by the taint dedicated=vision": 3}
    table = tmp_path / "cluster.csv"
    assert run(["topology", "convert", nodes, "--to", "csv", "--output", str(table)]) == 0
    capsys.readouterr()
    place = ("place", "--cluster", str(table), "--job", job_file(tmp_path, 4, tolerations=["dedicated=vision"]))
    assert used(answer(capsys, *place)) == {"n0", "n1", "n2", "n6"}
    drawing = tmp_path / "cluster.html"
    assert run(["topology", "show", nodes, "--figure", str(drawing)]) == 0
    assert "6 kept out" in drawing.read_text()
    capsys.readouterr()


def test_a_toleration_of_no_taint_is_said(nodes: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the taints that there are: a slip would else be taken for an empty pool."""
    document = answer(capsys, "topology", "validate", nodes, "--tolerate", "dedicated=visoin")
    (note,) = [note for note in document["notes"] if "no node has a taint" in note]
    assert "dedicated=speech, dedicated=vision" in note


@pytest.mark.parametrize(
    "toleration",
    [{"operator": "Equal"}, {"key": "a", "operator": "Exists", "value": "b"}, {"key": "a", "effect": "No"}, "a=b=c", 7],
)
def test_what_kubernetes_refuses_is_refused(
    tmp_path: Path, nodes: str, capsys: pytest.CaptureFixture[str], toleration: object
) -> None:
    """With the line of the job file; exit code 2."""
    job = job_file(tmp_path, 1, tolerations=[toleration])
    assert run(["place", "--cluster", nodes, "--job", job]) == 2
    assert "tolerations" in capsys.readouterr().err


def test_a_certificate_and_a_repair_keep_to_the_tolerations(
    tmp_path: Path, nodes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The certificate of a placement behind a taint is verified; the only spare that is left replaces a lost node."""
    job = job_file(tmp_path, 3, tolerations=["dedicated=vision"])
    proof, saved = tmp_path / "proof.json", tmp_path / "placement.json"
    place = ["place", "--cluster", nodes, "--job", job, "--certificate", str(proof), "--output", str(saved)]
    placed = used(answer(capsys, *place))
    assert answer(capsys, "verify", str(proof), "--cluster", nodes, "--job", job)["verdict"] == "verified"
    lost = min(placed)
    repaired = answer(capsys, "repair", "--cluster", nodes, "--placement", str(saved), "--lost", lost)
    assert used(repaired) == {"n0", "n1", "n2", "n6"} - {lost}


def test_nodes_that_any_of_several_jobs_may_have_are_idle(
    tmp_path: Path, nodes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """n6 takes anybody, n0 to n2 the second job: four are idle to one of the two, in whatever order they are named."""
    vision = [{"key": "dedicated", "value": "vision", "effect": "NoSchedule"}]
    first, second = job_file(tmp_path, 1, name="a"), job_file(tmp_path, 3, tolerations=vision, name="b")
    for jobs in ((first, second), (second, first)):
        assert run(["place", "--cluster", nodes, "--job", jobs[0], "--job", jobs[1]]) == 0
        assert says(capsys.readouterr().out, "7 nodes", "4 idle")
