"""Tasks of operators, each in at most two commands: what is asked in the morning, on one cluster of 32 nodes.

The fat tree of rails and the weekly report have tests of their own (readers of ibnetdiscover, `arnold report`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arnold.documents.compare_answer import SizesDocument
from ground.records import json_data, read_json
from tests.facts import says

Arnold = Callable[..., Any]

NOW = "2026-11-29T10:00:00Z"
FRIDAY = "".join(
    f"- {{node: n{i:02}, kind: faulty, since: 2026-11-29T18:00:00Z, until: 2026-11-30T06:00:00Z}}\n"
    for i in range(24, 28)
)
MANIFEST = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: lab}
spec:
  parallelism: 8
  completionMode: Indexed
  template:
    metadata:
      annotations:
        kueue.x-k8s.io/podset-preferred-topology: rack
        arnold.dev/parallelism: "tp=8,pp=2,dp=4"
        arnold.dev/alpha: "0.5"
    spec:
      containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: "8"}}}]
"""
TEXTS = {
    "cluster.csv": "node,minipod,rack,gpus\n" + "".join(f"n{i:02},mp{i // 8},r{i // 4},8\n" for i in range(32)),
    "other.csv": "node,minipod,rack,gpus\n" + "".join(f"n{i:02},mp{i // 4},r{i // 2},8\n" for i in range(32)),
    "jobs.yaml": "jobs:\n"
    "- {name: pretrain, nodes: [n00, n08, n01, n09, n02, n10, n03, n11], parallelism: {tp: 8, pp: 2, dp: 4}}\n"
    '- {name: sweep, nodes: "n[04-07,12-15]", preemptible: true, last_checkpoint: 2026-11-29T09:00:00Z,\n'
    "   ends: 2026-11-29T12:00:00Z}\n"
    '- {name: eval, nodes: "n[16-23]", owner: eve, preemptible: true, started: 2026-11-29T06:00:00Z,\n'
    "   ends: 2026-11-29T20:00:00Z}\n",
    "large.yaml": "{name: new, parallelism: {tp: 8, pp: 2, dp: 8}, alpha: 0.5}\n",
    "small.yaml": "{name: new, parallelism: {tp: 8, pp: 2, dp: 4}, alpha: 0.5, expected_hours: 20}\n",
    "ordered.yaml": "{name: new, parallelism: {tp: 8, pp: 2, dp: 4}, alpha: 0.5, order: tp-cp-ep-pp-dp}\n",
    "elastic.yaml": "{name: new, parallelism: {tp: 8, pp: 2}, alpha: 0.5}\n",
    "friday.yaml": FRIDAY,
    "kueue.yaml": MANIFEST,
}
MIG = {"nvidia.com/gpu.product": "H100-MIG-1g.10gb", "nvidia.com/mig.strategy": "single", "rack": "a"}


@pytest.fixture
def run(arnold: Arnold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arnold:
    """A command of one line in a folder of files: 32 nodes in four minipods, of which n24 to n31 are free."""
    monkeypatch.chdir(tmp_path)
    for name, text in TEXTS.items():
        Path(name).write_text(text)

    def one_line(words: str) -> Any:
        return arnold(*words.split())

    return one_line


LIVE = f"--cluster cluster.csv --running jobs.yaml --at {NOW}"


def test_where_and_when(run: Arnold) -> None:
    """16 nodes: the eight that are free and those of sweep, when it ends at noon."""
    ran = run(f"explain {LIVE} --job large.yaml --when --json").json
    assert ran["start"]["p50"] == "2026-11-29T12:00:00Z"


def test_which_job_do_i_stop(run: Arnold) -> None:
    """Sweep loses an hour of 64 GPUs since its checkpoint, eval four hours, and pretrain is nobody's to stop."""
    ran = run(f"explain {LIVE} --job large.yaml --stop --json").json
    (stopped,) = ran["stop"]
    assert (stopped["name"], stopped["gpu_hours_lost"], ran["status"]) == ("sweep", 64.0, "optimal")


def test_racks_that_are_drained_on_friday(run: Arnold) -> None:
    """A job of eight nodes and twenty hours is not put on nodes that go away at 18:00; without its hours it would."""
    assert run(f"place {LIVE} --flags friday.yaml --job small.yaml").code == 3
    assert run(f"place {LIVE} --flags friday.yaml --job elastic.yaml").code == 0


def test_why_across_minipods_yesterday(run: Arnold) -> None:
    """As it was: a replica of two stages lay on two minipods, where its own nodes in another order had been better."""
    assert run(f"snapshot {LIVE} --output yesterday.json").code == 0
    ran = run("score --cluster yesterday.json --nodes pretrain --alpha 0.5 --json").json
    # ranks go along dp first: the four replicas of a stage touch both minipods, and each pipeline does
    assert (ran["objective"], ran["same_nodes"]["objective"], ran["empty_cluster"]["objective"]) == (1.5, 1.5, 1.0)


def test_from_kueue(run: Arnold) -> None:
    """The manifest is a job: racks count, as its annotation prefers, and our annotations hold."""
    ran = run("place --cluster cluster.csv kueue.yaml --json").json
    assert (ran["job"]["name"], ran["level"], ran["job"]["alpha"], ran["objective"]) == ("train", "rack", 0.5, 1.5)
    assert run(f"score {LIVE} --job kueue.yaml --nodes pretrain").code == 0


def test_two_rank_orders(run: Arnold) -> None:
    """Where the nodes of one order leave the other."""
    assert run("place --cluster cluster.csv small.yaml --level rack --output first.hostfile").code == 0
    ran = run("score --cluster cluster.csv --job ordered.yaml --level rack --nodes first.hostfile --json").json
    assert ran["same_nodes"]["objective"] == 1.5
    assert ran["objective"] >= 1.5


def test_a_size_between_two(run: Arnold) -> None:
    """Of 2 to 5 replicas four are the most that the eight free nodes hold."""
    assert run(f"snapshot {LIVE} --output now.json").code == 0
    ran = run("compare --cluster now.json --job elastic.yaml --dp 2,3..5 --json").json
    assert [(size["dp"], size["gpus"], size["status"]) for size in ran["sizes"]] == [
        (2, 32, "optimal"), (3, 48, "optimal"), (4, 64, "optimal"), (5, 80, "infeasible"),
    ]  # fmt: skip
    assert (ran["best"], ran["sizes"][2]["worth"]) == (4, 64.0)
    assert json_data(SizesDocument, read_json(SizesDocument, ran)) == ran
    assert says(run("compare --cluster now.json --job elastic.yaml --dp 2..5").out, "dp 4", "64.0")
    refused = run("compare --cluster now.json --job elastic.yaml --dp 4..2")
    assert (refused.code, says(refused.err, "--dp", "4..2", "To fix:")) == (2, True)


def test_sizes_are_compared_under_one_algorithm(run: Arnold) -> None:
    """Two are refused, with what to do; more sizes than a hundred are too, and none is passed over."""
    sizes = "compare --cluster cluster.csv --job elastic.yaml --dp 2,3"
    refused = run(f"{sizes} --algorithm exact,gpu-packing")
    assert (refused.code, says(refused.err, "--algorithm", "one", "2", "To fix:")) == (2, True)
    once, twice = (run(f"{sizes} --algorithm {names} --json") for names in ("exact", "exact,exact"))
    assert [size["objective"] for size in once.json["sizes"]] == [size["objective"] for size in twice.json["sizes"]]
    assert run(f"{sizes} --algorithm ,").code == 2
    many = run("compare --cluster cluster.csv --job elastic.yaml --dp 1..60,61..120")
    assert (many.code, says(many.err, "--dp", "100")) == (2, True)


def test_slices_of_gpus_are_named(run: Arnold) -> None:
    """Nodes with MIG are left out, by that name."""
    node = {
        "kind": "Node", "metadata": {"name": "m", "labels": MIG},
        "status": {"capacity": {"nvidia.com/gpu": "7"}, "allocatable": {"nvidia.com/gpu": "7"}},
    }  # fmt: skip
    whole = {
        "kind": "Node", "metadata": {"name": "w", "labels": {"rack": "a"}},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}},
    }  # fmt: skip
    Path("nodes.json").write_text(json.dumps({"kind": "List", "items": [node, whole]}))
    assert says(run("topology validate nodes.json --levels rack").out, "MIG")


def test_which_of_two_clusters(run: Arnold) -> None:
    """One answer each: two racks of four nodes have a stage each; of racks of two each stage takes two."""
    answers = [run(f"place --cluster {name}.csv small.yaml --level rack --json").json for name in ("cluster", "other")]
    assert [answer["objective"] for answer in answers] == [1.5, 2.0]


def test_ten_jobs_alike(run: Arnold) -> None:
    """The same file as often as there are jobs; two nodes of a minipod each."""
    ran = run(f"place --cluster cluster.csv {'elastic.yaml ' * 10} --json").json
    assert [*ran["jobs"]] == [f"new-{i}" for i in range(1, 11)]
    assert (ran["objective"], ran["status"]) == (10.0, "optimal")
