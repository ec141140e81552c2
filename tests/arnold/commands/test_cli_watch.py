"""``arnold watch``: gangs of a cluster in memory, their nodes in a stand-in for Prometheus."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extender.cluster_api.client import GANGPLANS, HISTORIES, NODES, PODS
from extender.plans.gang_plan import GangPlan, PlanPhase, PlanSpec, encode_plan
from scheduler.job import Job, Parallelism
from tests.extender.fake_cluster import FakeCluster, stand_in
from tests.extender.things import MINIPOD, key, node_json, pod_json, uid
from tests.facts import says
from tests.health.collectives.made_dumps import SHAPES, dumps
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


STEPS = "max by (node) (training_steps)"


def steps(
    behind: dict[str, int], *, standing: str | None = "b", moved: str = "n11"
) -> Callable[[str, float, float, float], Any]:
    """What Prometheus says of steps: one gang came to 100 and stands, but for nodes that are behind; of nothing else.

    :param moved: the node of rank 3 of gang b.
    """

    def answer(query: str, start: float, end: float, step: float) -> Any:
        series = []
        for gang, numbers in GANGS.items():
            for number in numbers if "steps" in query else ():
                name = moved if number == 11 else f"n{number:02}"
                times = np.arange(start, end + step / 2.0, step)
                came = np.full(len(times), 100 - behind.get(name, 0)) if gang == standing else times // 10.0
                pairs = [[float(at), f"{count:.0f}"] for at, count in zip(times, came, strict=True)]
                series.append({"metric": {"node": name}, "values": pairs})
        return {"status": "success", "data": {"resultType": "matrix", "result": series}}

    return answer


def run_pods(api: FakeCluster, **moved: str) -> None:
    """The pods of gang b, which a Job makes, run where its plan says; some have moved."""
    pods = tuple(uid(f"b-{rank}") for rank in range(8))
    spec = PlanSpec.of(Job("g", Parallelism(tp=8, dp=8), level=MINIPOD), dialect="job", priority=0)
    nodes = tuple(moved.get(name, name) for name in (f"n{number:02}" for number in GANGS["b"]))
    plan = GangPlan(key("b"), PlanPhase.BOUND, spec=spec, nodes=nodes, pods=pods, bound_pods=8)
    api.put(GANGPLANS, encode_plan(plan))
    for rank, node in enumerate(nodes):
        api.put(PODS, pod_json(f"b-{rank}", node=node, phase="Running", owner=("Job", "b")))


def hung_in_a_collective(api: FakeCluster, tmp_path: Path) -> Path:
    """The dumps of a gang b of four ranks, one on a node, of which rank 2 never began the fifth collective."""
    spec = PlanSpec.of(Job("g", Parallelism(dp=4), gpus_per_node=1, level=MINIPOD), dialect="job", priority=0)
    nodes = tuple(f"n{number:02}" for number in GANGS["b"])[:4]
    api.put(GANGPLANS, encode_plan(GangPlan(key("b"), PlanPhase.BOUND, spec=spec, nodes=nodes, bound_pods=4)))
    folder = tmp_path / "dumps" / "team" / "b"
    folder.mkdir(parents=True)
    # what is retired without completion has timed out
    for dump in dumps("absent", SHAPES["events"]._replace(waiting=("started", True))):
        (folder / dump.name).write_text(dump.text, encoding="utf-8")
    return folder


def annotations(api: FakeCluster) -> dict[str, str]:
    """The slowdown of each node that has one."""
    notes = {name: node["metadata"].get("annotations") or {} for (_, name), node in api.objects[NODES.plural].items()}
    return {name: written[SLOWDOWN] for name, written in notes.items() if SLOWDOWN in written}


def sources(arnold: Arnold, tmp_path: Path) -> list[tuple[str, str]]:
    """The nodes that are flagged, and by whom."""
    flags = arnold("flags", "show", "--store", tmp_path / "flags.db", "--json").json["flags"]
    return [(flag["node"], flag["source"]) for flag in flags]


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


def test_what_was_left_out_is_told_once(api: FakeCluster, arnold: Arnold, tmp_path: Path) -> None:
    """What Prometheus warns of, metrics without a series, and a node of a gang that sent nothing: in JSON where it
    belongs, as text on standard error, once though each of the three gangs was judged by the same answers.
    """
    healthy = power({})

    def answer(query: str, start: float, end: float, step: float) -> Any:
        made = healthy(query, start, end, step)
        made["data"]["result"] = [of for of in made["data"]["result"] if of["metric"]["Hostname"] != "n11"]
        return made | {"warnings": ["store a: unavailable"]}

    with serving(answer) as prometheus:
        found = watch(arnold, prometheus.url, tmp_path, "--json").json
        text = watch(arnold, prometheus.url, tmp_path)
    assert says(found["notes"], "store a: unavailable")
    assert says(found["notes"], "no series of")
    of_gang = {gang["gang"]: says(gang["notes"], "no sample of", "n11") for gang in found["gangs"]}
    assert of_gang == {"a": False, "b": True, "c": False}
    assert text.err.count("store a: unavailable") == 1
    assert says(text.err, "team/b", "n11")


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


def test_gangs_of_which_none_can_be_judged(api: FakeCluster, arnold: Arnold, tmp_path: Path) -> None:
    """Two nodes of a gang have no peers: the round says so and ends with 2, as where there is no metric of any."""
    with serving(power({})) as prometheus:
        ran = watch(arnold, prometheus.url, tmp_path, "--only", "n[00-01]", "--json")
    assert (ran.code, [gang["judged"] for gang in ran.json["gangs"]]) == (2, [False])


def test_only_a_live_kubernetes_is_watched(arnold: Arnold, tmp_path: Path) -> None:
    """A file has no gangs that run."""
    ran = arnold("watch", "--cluster", "cluster.csv", "--prometheus", "http://p:1", "--store", tmp_path / "s", "--json")
    assert (ran.code, ran.json["error"]["where"]) == (2, "--cluster")


def test_who_acts_on_gangs_that_stand_still_looks_for_them(arnold: Arnold, tmp_path: Path) -> None:
    """An empty query, as the manifests have it until one is written there, finds none."""
    ran = watch(arnold, "http://p:1", tmp_path, "--progress", "", "--policy", "act", "--json")
    assert (ran.code, ran.json["error"]["where"]) == (2, "--progress")


def test_a_gang_that_stands_still_is_told_of(api: FakeCluster, arnold: Arnold, tmp_path: Path) -> None:
    """By default nothing is stopped: the node that is behind is dearer by a warning, and the advice is kept."""
    run_pods(api)
    with serving(steps({"n11": 1})) as prometheus:
        ran = watch(arnold, prometheus.url, tmp_path, "--progress", STEPS, "--json")
        again = watch(arnold, prometheus.url, tmp_path, "--progress", STEPS, "--json").json
    # nothing is known of the metrics by which nodes are compared, which the round says
    assert (ran.code, ran.json["error"]["where"]) == (2, prometheus.url)
    (gang,) = ran.json["stalls"]
    assert ran.json["recorded"]["events"]
    assert (gang["gang"], gang["nodes"], gang["ranks"]) == ("b", ["n11"], [3])
    assert [step["did"] for step in gang["steps"]] == ["StandsStill", "Named", "Advised"]
    assert again["stalls"] == []
    assert annotations(api) == {"n11": "1.05"}
    assert not any(verb == "evict" for verb, *_ in api.asked)


def test_a_process_of_before_holds_nobody_up(api: FakeCluster, arnold: Arnold, tmp_path: Path) -> None:
    """The counter of n09's last attempt is scraped beside that of this one, for the last minutes: who of them has come
    how far is not known, and n09 is neither behind nor silent.
    """

    def answer(query: str, start: float, end: float, step: float) -> Any:
        said = steps({})(query, start, end, step)
        for series in [one for one in said["data"]["result"] if one["metric"]["node"] == "n09"]:
            old = [[at, "50"] for at, _ in series["values"] if at > end - 200.0]
            said["data"]["result"].append({"metric": {"node": "n09", "pod": "old"}, "values": old})
        return said

    run_pods(api)
    with serving(answer) as prometheus:
        (stall,) = watch(arnold, prometheus.url, tmp_path, "--progress", STEPS, "--json").json["stalls"]
    assert stall["nodes"] == []


def test_dumps_name_whom_counters_do_not(api: FakeCluster, arnold: Arnold, tmp_path: Path) -> None:
    """All came to 100 and wait: by counters nobody holds them up, by the dumps rank 2 never began the fifth collective.
    Dumps of an earlier standstill, or such that others may yet join, say nothing.
    """
    folder = hung_in_a_collective(api, tmp_path)
    told = []
    with serving(steps({})) as prometheus:
        for ago in (86_400.0, 0.0, 60.0):
            for file in folder.iterdir():
                os.utime(file, (time.time() - ago,) * 2)
            ran = watch(arnold, prometheus.url, tmp_path, "--progress", STEPS, "--dumps", tmp_path / "dumps", "--json")
            told.append([gang["nodes"] for gang in ran.json["stalls"]])
    assert told == [[[]], [], [["n10"]]]
    assert annotations(api) == {"n10": "1.05"}  # by its program, perhaps: a warning's price
    assert sources(arnold, tmp_path) == [("n10", "dumps of team/b")]
    found = arnold("kube", "describe", "b", "--json").json
    (incident,) = found["incidents"]
    assert [step["did"] for step in incident["steps"]] == ["StandsStill", "Named", "Advised"]
    assert says(incident["steps"][1]["why"], "n10", "rank 2")
    assert says(arnold("kube", "describe", "b").out, "Stood still", "StandsStill", "Named", "n10", "Advised")


def test_whom_dumps_name_is_out_where_the_watch_acts(api: FakeCluster, arnold: Arnold, tmp_path: Path) -> None:
    """By the policy act the node whose rank never began the collective is moved away from, not made dearer."""
    for file in hung_in_a_collective(api, tmp_path).iterdir():
        os.utime(file, (time.time() - 60.0,) * 2)
    asked = ("--progress", STEPS, "--dumps", str(tmp_path / "dumps"), "--policy", "act", "--json")
    with serving(steps({})) as prometheus:
        (gang,) = watch(arnold, prometheus.url, tmp_path, *asked).json["stalls"]
    assert (gang["nodes"], gang["ranks"]) == (["n10"], [2])
    assert annotations(api) == {"n10": "faulty"}
    assert sources(arnold, tmp_path) == [("n10", "standstill of team/b")]


def test_a_gang_that_stands_still_is_helped_once(api: FakeCluster, arnold: Arnold, tmp_path: Path) -> None:
    """By the policy act the node is out and its pod evicted; the same rank on another node is the program's fault,
    which takes no second node, and the first comes back.
    """
    act = ("--progress", STEPS, "--policy", "act", "--json")
    run_pods(api)
    with serving(steps({"n11": 1})) as prometheus:
        watch(arnold, prometheus.url, tmp_path, *act)
    assert annotations(api) == {"n11": "faulty"}
    assert [name for verb, _, name in api.asked if verb == "evict"] == ["b-3"]
    run_pods(api, n11="n24")  # the extender has moved it, and its Job has made it anew
    with serving(steps({}, standing=None, moved="n24")) as prometheus:
        (gang,) = watch(arnold, prometheus.url, tmp_path, *act).json["stalls"]
    assert [step["did"] for step in gang["steps"][2:]] == ["Evicted", "Moved", "Resumed"]
    with serving(steps({"n24": 1}, moved="n24")) as prometheus:
        (gang,) = watch(arnold, prometheus.url, tmp_path, *act).json["stalls"]
    assert (gang["nodes"], gang["steps"][-1]["did"]) == (["n24"], "Withheld")
    assert annotations(api) == {}
    kept = api.find(HISTORIES, "arnold", "team")["spec"]["incidents"]
    assert [[step["did"] for step in incident["steps"]][-1] for incident in kept] == ["Resumed", "Withheld"]
