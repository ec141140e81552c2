"""``arnold watch``: gangs of a cluster in memory, their nodes in a stand-in for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extender.cluster_api.client import GANGPLANS, NODES
from extender.plans.gang_plan import GangPlan, PlanPhase, PlanSpec, encode_plan
from scheduler.job import Job, Parallelism
from tests.extender.fake_cluster import FakeCluster, stand_in
from tests.extender.things import MINIPOD, key, node_json
from tests.facts import says
from tests.health.peers.fake_prometheus import serving
from topology.kubernetes.nodes import SLOWDOWN, SLOWDOWN_UNTIL

Arnold = Callable[..., Any]

GANGS = {"a": range(8), "b": range(8, 16), "c": range(16, 24)}
LEVEL = {"a": 550.0, "b": 400.0, "c": 480.0}
"""Watts of a GPU in each gang: they train different models, so that numbers of different gangs say nothing."""


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Three gangs of eight nodes run, and one node is free."""
    api = FakeCluster()
    for number in range(25):
        api.put(NODES, node_json(f"n{number:02}", labels={MINIPOD: "m"}))
    spec = PlanSpec.of(Job("g", Parallelism(tp=8, dp=8), level=MINIPOD), dialect="job", priority=0)
    for gang, numbers in GANGS.items():
        nodes = tuple(f"n{number:02}" for number in numbers)
        api.put(GANGPLANS, encode_plan(GangPlan(key(gang), PlanPhase.BOUND, spec=spec, nodes=nodes, bound_pods=8)))
    stand_in(api, monkeypatch)
    return api


def power(factors: dict[str, float]) -> Callable[[str, float, float, float], Any]:
    """What Prometheus says of the power of every GPU, some nodes at a part of their gang's, and of no other metric."""

    def answer(query: str, start: float, end: float, step: float) -> Any:
        times, series = np.arange(start, end + step / 2.0, step), []
        for gang, numbers in GANGS.items():
            for number in numbers if "POWER" in query else ():
                name = f"n{number:02}"
                for gpu in range(2):
                    noise = np.random.default_rng([number, gpu, int(start)]).normal(0.0, 5.0, len(times))
                    values = LEVEL[gang] * factors.get(name, 1.0) + noise
                    pairs = [[float(at), f"{value:.1f}"] for at, value in zip(times, values, strict=True)]
                    series.append({"metric": {"Hostname": name, "gpu": str(gpu)}, "values": pairs})
        return {"status": "success", "data": {"resultType": "matrix", "result": series}}

    return answer


def annotations(api: FakeCluster) -> dict[str, str]:
    """The slowdown of each node that has one."""
    notes = {name: node["metadata"].get("annotations") or {} for (_, name), node in api.objects[NODES.plural].items()}
    return {name: written[SLOWDOWN] for name, written in notes.items() if SLOWDOWN in written}


def watch(arnold: Arnold, url: str, tmp_path: Path, *more: str) -> Any:
    """One round of the watch with a sample in five seconds."""
    store = tmp_path / "flags.db"
    asked = ("--cluster", "kube:", "--prometheus", url, "--store", store, "--sample-interval", "5", "--once", *more)
    return arnold("watch", *asked)


def test_the_slow_node_is_priced_and_no_other(api: FakeCluster, arnold: Arnold, tmp_path: Path) -> None:
    """A node at two thirds of its own gang's power is slow by 1 / .67 = 1.49, with an end; no gang's node is flagged
    for training another model than its neighbours.
    """
    with serving(power({"n11": 0.67})) as prometheus:
        found = watch(arnold, prometheus.url, tmp_path, "--json").json
    assert [(gang["gang"], gang["nodes"], gang["judged"]) for gang in found["gangs"]] == [
        ("a", 8, True),
        ("b", 8, True),
        ("c", 8, True),
    ]
    (change,) = found["changes"]
    assert (change["node"], change["done"]) == ("n11", "applied")
    assert float(annotations(api)["n11"]) == pytest.approx(1 / 0.67, abs=0.03)  # noise of 5 W on 268 W
    assert {*annotations(api)} == {"n11"}
    assert SLOWDOWN_UNTIL in api.objects[NODES.plural]["", "n11"]["metadata"]["annotations"]


def test_healthy_gangs_are_left_alone(api: FakeCluster, arnold: Arnold, tmp_path: Path) -> None:
    """Nothing is written, and the line says how many gangs were compared."""
    with serving(power({})) as prometheus:
        ran = watch(arnold, prometheus.url, tmp_path)
    assert (ran.code, annotations(api)) == (0, {})
    assert says(ran.out, "3 of 3 gangs")


def test_a_server_that_is_away_clears_nothing(api: FakeCluster, arnold: Arnold, tmp_path: Path) -> None:
    """What was annotated stays, the round says what it could not do, and the command ends with 2."""
    with serving(power({"n11": 0.67})) as prometheus:
        watch(arnold, prometheus.url, tmp_path)
    ran = watch(arnold, "http://127.0.0.1:9", tmp_path, "--json")
    assert (ran.code, ran.json["changes"]) == (2, [])
    assert ran.json["error"]["kind"] == "EndpointAway"
    assert {*annotations(api)} == {"n11"}


def test_what_does_not_work_is_no_price(api: FakeCluster, arnold: Arnold, tmp_path: Path) -> None:
    """At a tenth of its peers' power a node takes no part in the training: it is faulty."""
    with serving(power({"n20": 0.1})) as prometheus:
        watch(arnold, prometheus.url, tmp_path)
    assert annotations(api) == {"n20": "faulty"}


def test_a_round_that_finds_too_many_changes_nothing(
    api: FakeCluster, arnold: Arnold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of 24 nodes, one in each gang, are more than a tenth: neither store nor nodes are written to, unless a
    person says so.
    """
    monkeypatch.setattr("topology.flag_sources.CLUSTER_SHARE", 0.1)  # of a quarter of a gang none would be an outlier
    idle = dict.fromkeys(("n01", "n09", "n17"), 0.1)
    with serving(power(idle)) as prometheus:
        found = watch(arnold, prometheus.url, tmp_path, "--json")
        assert (found.code, found.json["recorded"], annotations(api)) == (2, None, {})
        assert says(found.json["error"]["fix"], "--yes")
        assert arnold("flags", "show", "--store", tmp_path / "flags.db", "--json").json["flags"] == []
        watch(arnold, prometheus.url, tmp_path, "--yes")
    assert annotations(api) == dict.fromkeys(idle, "faulty")


def test_nodes_of_no_gang_are_asked_of_nobody(api: FakeCluster, arnold: Arnold, tmp_path: Path) -> None:
    """Where --only names no node of a gang there is nothing to compare, and nothing to ask."""
    with serving(power({})) as prometheus:
        ran = watch(arnold, prometheus.url, tmp_path, "--only", "n24", "--json")
    assert (ran.code, ran.json["gangs"], prometheus.asked) == (0, [], [])


def test_only_a_live_kubernetes_is_watched(arnold: Arnold, tmp_path: Path) -> None:
    """A file has no gangs that run."""
    ran = arnold("watch", "--cluster", "cluster.csv", "--prometheus", "http://p:1", "--store", tmp_path / "s", "--json")
    assert (ran.code, ran.json["error"]["where"]) == (2, "--cluster")
