"""A live cluster as ``--cluster kube:``, gangs at second hierarchies, and ``kubectl arnold``, which lists them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.placement.types import ALGORITHMS, Limits
from tests.e2e.harness.arnold import PROGRAM, running
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import DOMAIN, level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import bound, gang, pod
from tests.e2e.harness.waiting import wait_until
from topology.flags import FAULTY, NodeFlag
from topology.generate import generate

PLUGIN = Path(PROGRAM).with_name("kubectl-arnold")
FEED = f"{DOMAIN}/feed"


def answer(plane: ControlPlane, *words: object, user: str = "admin", code: int = 0) -> Any:
    """The JSON document of a command line, whose first word is the program; it finds the cluster by $KUBECONFIG."""
    environment = os.environ | {"KUBECONFIG": str(plane.kubeconfig(user))}
    environment["PATH"] = f"{PLUGIN.parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        [*map(str, words), "--json"], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_job_is_placed_on_what_is_free_now(plane: ControlPlane, tmp_path: Path) -> None:
    """24 nodes in three minipods, every third in use, one flagged faulty and one cordoned: the placement has the
    objective that is the least on the same cluster in memory, and lies on free nodes.  A user without rights is told
    which are missing.
    """
    cluster = generate("minipods", minipods=3, nodes=24).with_busy(range(0, 24, 3))
    faulty, cordoned = cluster.names[1], cluster.names[10]
    cluster = cluster.with_flags([NodeFlag(faulty, "faulty", FAULTY)])
    make_real(plane.admin, cluster)
    plane.admin.patch("nodes", cordoned, {"spec": {"unschedulable": True}})
    cluster = cluster.with_flags([NodeFlag(cordoned, "faulty", FAULTY)])
    levels = level_labels(cluster)
    file = tmp_path / "job.yaml"
    file.write_text("parallelism: {tp: 8, dp: 4, pp: 2}\nalpha: 0.3\n")
    place = (PROGRAM, "place", "--cluster", "kube:", "--levels", ",".join(levels), "--job", file)
    found = answer(plane, *place)
    best = run(ALGORITHMS.load("exact"), cluster, Job("job", Parallelism(tp=8, dp=4, pp=2), alpha=0.3), Limits())
    free = {row.name for row in cluster if row.free}
    assert best.evaluation is not None
    assert found["objective"] == pytest.approx(best.evaluation.objective)
    assert {cell["node"] for cell in found["assignment"]} <= free
    assert (found["status"], found["cluster"]["free"]) == ("optimal", len(free))
    error = answer(plane, *place, user="ann", code=2)["error"]
    assert (error["kind"], error["where"]) == ("Refused", "GET /api/v1/nodes")
    assert 'User "ann" cannot list resource "nodes"' in error["message"]


def test_a_gang_at_a_second_hierarchy_and_the_plug_in(arnold_plane: ControlPlane, namespace: str) -> None:
    """Two minipods of four nodes; feed a has two nodes of each, feeds b to e one.  Two pipelines of two, each on one
    feed, have only feed a's nodes, and only one minipod each: S = 2, R = 1, 0.3 x 2 + 0.7 = 1.3, where without the
    constraint one minipod would do.  `kubectl arnold` lists the gang, and has its spread from the nodes' own labels.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    feeds = dict(zip(cluster.names, "aabcaade", strict=True))
    for name, feed in feeds.items():
        plane.admin.patch("nodes", name, {"metadata": {"labels": {FEED: feed}}})
    levels = level_labels(cluster)
    asked = {
        "arnold.dev/constraints": "[{family: pp, within: '@power'}]",
        "arnold.dev/alpha": "0.3",
        "arnold.dev/level": levels[0],
    }
    with running(plane, levels=levels, options=(f"--domains=power={FEED}",)), guarded(plane):
        plane.admin.create_all(gang("fed", namespace, size=4, parallelism="tp=8,pp=2,dp=2", annotations=asked))
        wait_until(lambda: plan_in(plane.admin, "fed", namespace, "Bound"), "the gang to be on its nodes")
        where = bound(plane.admin, namespace)
        of_rank = [where[f"fed-{rank}"] for rank in range(4)]
        assert [feeds[name] for name in of_rank] == ["a"] * 4
        listed = answer(plane, *plug_in(), "gangs", "-n", namespace)
        described = answer(plane, *plug_in(), "describe", f"{namespace}/fed", "--levels", ",".join(levels))
        nodes = answer(plane, *plug_in(), "nodes", "--levels", ",".join(levels))
    (summary,) = listed["gangs"]
    assert (summary["gang"], summary["phase"], summary["bound_pods"]) == ("fed", "Bound", 4)
    assert summary["spread"] == {"dp": 2, "pp": 1}
    # no two pipelines on one feed each lie in one minipod: proved, although feeds nest with no level
    assert (summary["objective"], summary["gap"]) == (pytest.approx(1.3), 0.0)
    assert [one["node"] for one in described["assignment"]] == of_rank
    assert described["spread_by_level"][levels[0]] == {"tp": 1, "cp": 1, "ep": 1, "dp": 2, "pp": 1}
    assert {one["node"] for one in nodes["nodes"] if one["gang"] == f"{namespace}/fed"} == {*of_rank}


def test_gangs_that_run_are_scored(arnold_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """Two minipods of four nodes.  Arnold puts a gang of two on one of them, as its plan says; a job that somebody
    bound by hand has a node of each, so its DP group touches both: 0.3 x 2 + 0.7 = 1.3, where the empty cluster
    has 1.  A snapshot says the same.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    levels = level_labels(cluster)
    about = {"arnold.dev/alpha": "0.3", "arnold.dev/level": levels[0]}
    with running(plane, levels=levels), guarded(plane):
        plane.admin.create_all(gang("planned", namespace, size=2, parallelism="tp=8,dp=2", annotations=about))
        wait_until(lambda: plan_in(plane.admin, "planned", namespace, "Bound"), "the gang to be on its nodes")
        where = bound(plane.admin, namespace)
        minipods = {node.name: node.path[0] for node in cluster if node.name not in where.values()}
        by_hand = list({minipod: name for name, minipod in minipods.items()}.values())
        for rank, node in enumerate(by_hand):
            labels = {"training.kubeflow.org/job-name": "hand", "training.kubeflow.org/replica-index": str(rank)}
            notes = about | {"arnold.dev/parallelism": "tp=8,dp=2"}
            plane.admin.create(pod(f"hand-{rank}", namespace, labels=labels, annotations=notes, node=node))
        live = ("--cluster", "kube:", "--levels", ",".join(levels))
        snapshot = tmp_path / "snapshot.json"
        saved = answer(plane, PROGRAM, "snapshot", *live, "--output", snapshot)
        scores = [answer(plane, PROGRAM, "score", *cluster, "--all") for cluster in (live, ("--cluster", snapshot))]
        alone = answer(plane, PROGRAM, "score", *live, "--nodes", f"{namespace}/hand")
    assert {job["group"] for job in saved["jobs"]} == {namespace}
    of_name = {job["name"]: job["nodes"] for job in saved["jobs"]}
    assert of_name == {
        f"{namespace}/planned": [where["planned-0"], where["planned-1"]],
        f"{namespace}/hand": by_hand,
    }
    for together in scores:
        of_job = {job["name"].partition("/")[2]: job for job in together["jobs"]}
        assert {name: job["objective"] for name, job in of_job.items()} == {"hand": pytest.approx(1.3), "planned": 1.0}
        assert of_job["hand"]["empty_cluster"]["objective"] == 1.0
        assert all(job["ranked"] for job in of_job.values())
    assert (alone["objective"], alone["restart"]["objective"]) == (pytest.approx(1.3), 1.0)


def plug_in() -> tuple[object, ...]:
    """The plug-in as kubectl starts it, or itself where there is no kubectl."""
    return ("kubectl", "arnold") if shutil.which("kubectl") else (PLUGIN,)
