"""``arnold kube``: gangs, one gang and nodes of a cluster in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from arnold import main
from extender.cluster_api.client import GANGPLANS, NODES, PODS, refusal
from extender.plans.gang_plan import GangPlan, PlanPhase, PlanSpec, encode_plan
from scheduler.job import Hold, Job, Parallelism
from tests.extender.fake_cluster import FakeCluster, stand_in
from tests.extender.things import MINIPOD, RACK, key, member_json, node_json, pod_json
from tests.facts import says

Arnold = Callable[..., Any]

LEVELS = ("--levels", f"{MINIPOD},{RACK}")
JOB = Job(
    "team/llm",
    Parallelism(tp=8, dp=2, pp=2),
    alpha=0.3,
    level=MINIPOD,
    holds=(Hold("dp", MINIPOD),),
    gpu_types=("H100",),
)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Two minipods of three nodes, n00 to n12, in racks of two and one; a gang on two of each, and one that waits.

    Of stages in a minipod each S = 1, R = 2, and the objective 0.3 x 1 + 0.7 x 2; said to be proved down to racks.
    """
    api = FakeCluster()
    for minipod in range(2):
        for i in range(3):
            labels = {MINIPOD: f"mp{minipod}", RACK: f"r{minipod}{i // 2}", "nvidia.com/gpu.product": "H100"}
            api.put(NODES, node_json(f"n{minipod}{i}", labels=labels))
    spec = PlanSpec.of(JOB, dialect="job", priority=0)
    bound = GangPlan(key("llm"), PlanPhase.BOUND, spec=spec, nodes=("n00", "n02", "n10", "n11"), bound_pods=4)
    bound = bound.replace(spread=(1, 2), objective=1.7, bound=1.7, gap=0.0, proved_to=RACK, reason="Bound", message="")
    bound = bound.with_condition("Healthy", True, "AsPlanned", "", datetime(2026, 11, 21, tzinfo=UTC))
    api.put(GANGPLANS, encode_plan(bound))
    waiting = GangPlan(key("next"), PlanPhase.WAITING, reason="PodsMissing", message="ranks 2, 3 are missing")
    api.put(GANGPLANS, encode_plan(waiting))
    stand_in(api, monkeypatch)
    return api


def test_gangs_with_their_plans(api: FakeCluster, arnold: Arnold) -> None:
    """By namespace and name; what belongs to a placement is null where there is none; -n chooses a namespace."""
    first, second = arnold("kube", "gangs", "--json").json["gangs"]
    assert first == {
        "namespace": "team",
        "gang": "llm",
        "phase": "Bound",
        "pods": 4,
        "bound_pods": 4,
        "gpus": 32,
        "level": MINIPOD,
        "spread": {"dp": 1, "pp": 2},
        "objective": 1.7,
        "bound": 1.7,
        "gap": 0.0,
        "proved_to": RACK,
        "reason": "Bound",
        "message": "",
    }
    assert (second["gang"], second["phase"], second["spread"], second["pods"]) == ("next", "Waiting", None, 0)
    assert arnold("kube", "gangs", "-n", "other", "--json").json == {"gangs": []}
    assert arnold("kube", "gangs", "-n", "other").out == "no gangs\n"
    text = arnold("kube", "gangs").out
    assert "team/llm   Bound     4/4    32           1/2        1.7  0.0%  rack" in text
    assert "team/next  Waiting     -     -             -          -     -  -       ranks 2, 3 are missing" in text
    assert {verb for verb, _, _ in api.asked} == {"page"}


def test_one_gang_rank_by_rank(api: FakeCluster, arnold: Arnold) -> None:
    """Ranks 0 and 1 are stage 0 in mp0, which lie in two racks, ranks 2 and 3 stage 1 in mp1, in one: counted from the
    labels, DP spread 1 and PP spread 2 in minipods as planned, and in racks 2 and 2.
    """
    found = arnold("kube", "describe", "llm", *LEVELS, "--json").json
    assert [(one["rank"], one["dp"], one["pp"], one["node"]) for one in found["assignment"]] == [
        (0, 0, 0, "n00"),
        (1, 1, 0, "n02"),
        (2, 0, 1, "n10"),
        (3, 1, 1, "n11"),
    ]
    assert found["assignment"][1]["domains"] == {MINIPOD: "mp0", RACK: "r01"}
    spread = {level: (of["dp"], of["pp"]) for level, of in found["spread_by_level"].items()}
    assert spread == {MINIPOD: (1, 2), RACK: (2, 2)}
    assert (found["parallelism"], found["alpha"]) == ("tp=8,cp=1,ep=1,dp=2,pp=2", 0.3)
    assert found["constraints"] == [f"every dp group inside one {MINIPOD}"]
    assert [one["type"] for one in found["conditions"]] == ["Healthy"]
    text = arnold("kube", "describe", "team/llm", *LEVELS).out
    assert says(text, "DP/PP spread 1/2", "example.com/minipod", "objective 1.7", "gap 0.0%")
    assert "GPUs of the type H100" in text


def test_levels_of_a_gang_where_none_are_named(api: FakeCluster, arnold: Arnold) -> None:
    """The labels are in no preset, so the gang's own level is the one that is shown."""
    found = arnold("kube", "describe", "llm", "--json").json
    assert list(found["spread_by_level"]) == [MINIPOD]
    assert found["notes"] == []


def test_a_gang_of_which_a_node_is_gone(api: FakeCluster, arnold: Arnold) -> None:
    """No spread is counted from what is left, and the rank keeps the name of its node."""
    api.remove(NODES, "n10")
    found = arnold("kube", "describe", "llm", *LEVELS, "--json").json
    assert found["spread_by_level"] is None
    assert (found["assignment"][2]["node"], found["assignment"][2]["domains"]) == ("n10", {})
    assert "n10" in arnold("kube", "describe", "llm", *LEVELS).out


def test_a_gang_without_nodes(api: FakeCluster, arnold: Arnold) -> None:
    """What is known of it is shown, and nothing else."""
    found = arnold("kube", "describe", "next", "--json").json
    assert (found["assignment"], found["spread_by_level"], found["parallelism"]) == ([], None, None)
    assert "ranks 2, 3 are missing" in arnold("kube", "describe", "next", *LEVELS).out


def test_who_may_not_see_nodes_sees_plans(api: FakeCluster, arnold: Arnold, monkeypatch: pytest.MonkeyPatch) -> None:
    """The role `view` has plans and no nodes: ranks and nodes are shown without domains."""
    page = api.page

    async def refusing(resource: Any, **more: Any) -> bytes:
        if resource is NODES:
            raise refusal(403, b'{"message": "nodes is forbidden"}', where="GET /api/v1/nodes")
        return await page(resource, **more)

    async def no_history(*_: Any, **__: Any) -> bytes:
        raise refusal(403, b'{"message": "ganghistories is forbidden"}', where="GET /apis/arnold.dev")

    monkeypatch.setattr(api, "page", refusing)
    monkeypatch.setattr(api, "get", no_history)
    found = arnold("kube", "describe", "llm", "--json").json
    assert [one["node"] for one in found["assignment"]] == ["n00", "n02", "n10", "n11"]
    assert "nodes is forbidden" in found["notes"][0]
    assert (found["incidents"], "ganghistories is forbidden" in found["notes"][1]) == ([], True)
    assert arnold("kube", "gangs").code == 0
    assert says(arnold("kube", "nodes").err, "the verb list", "nodes")


def test_names_of_gangs(api: FakeCluster, arnold: Arnold) -> None:
    """A slip, a namespace that has none, a name that two namespaces have."""
    other = encode_plan(GangPlan(key("llm"), PlanPhase.WAITING))
    other["metadata"]["namespace"] = "other"
    api.put(GANGPLANS, other)
    assert "did you mean 'next'?" in arnold("kube", "describe", "nxet").err
    assert says(arnold("kube", "describe", "other/next").err, "'next'", "other")
    ran = arnold("kube", "describe", "llm", "--json")
    assert (ran.code, ran.json["error"]["kind"]) == (2, "InvalidInput")
    assert ran.json["error"]["fix"] == "give NAMESPACE/llm"
    assert arnold("kube", "describe", "llm", "-n", "other", "--json").json["phase"] == "Waiting"
    assert arnold("kube", "describe", "team/llm", "-n", "other").code == 2


def test_nodes_with_flags_and_gangs(api: FakeCluster, arnold: Arnold) -> None:
    """n01 is slow by annotation, n12 cordoned; the four of the gang have nothing left."""
    slow = {MINIPOD: "mp0", RACK: "r00", "nvidia.com/gpu.product": "H100"}
    api.put(NODES, node_json("n01", labels=slow, annotations={"arnold.dev/slowdown": "1.3"}))
    api.put(NODES, node_json("n12", "mp1", "r11", unschedulable=True))
    found = arnold("kube", "nodes", *LEVELS, "--json").json
    assert (found["cluster"], found["levels"]) == ("kube:made", [MINIPOD, RACK])
    rows = {one["node"]: one for one in found["nodes"]}
    assert {name: one["gang"] for name, one in rows.items() if one["gang"]} == dict.fromkeys(
        ("n00", "n02", "n10", "n11"), "team/llm"
    )
    assert {one["free_gpus"] for one in rows.values() if one["gang"]} == {0}
    assert (rows["n01"]["flag"]["slowdown"], rows["n12"]["flag"]["kind"]) == (1.3, "faulty")
    assert (rows["n01"]["gpu_type"], rows["n01"]["domains"]) == ("H100", {MINIPOD: "mp0", RACK: "r00"})
    text = arnold("kube", "nodes", *LEVELS).out
    assert says(text, "kube:made", "6 nodes with GPUs", "0 free")
    assert "cordoned" in text


def test_a_node_with_a_taint_is_not_free(api: FakeCluster, arnold: Arnold) -> None:
    """Of n01 and n12, idle both, no job gets n12: ``top`` says so, and so does the list of nodes."""
    api.put(NODES, node_json("n12", "mp1", "r11", taints=[{"key": "team", "value": "b", "effect": "NoExecute"}]))
    rows = {one["node"]: one for one in arnold("kube", "nodes", *LEVELS, "--json").json["nodes"]}
    assert (rows["n01"]["kept_out"], rows["n12"]["kept_out"]) == ("", "kept out by the taint team=b")
    text = arnold("kube", "nodes", *LEVELS).out
    assert says(text, "1 free and without a flag")
    assert "by the taint team=b" in text.split("Notes")[0]


def test_what_the_gpus_of_each_domain_do(api: FakeCluster, arnold: Arnold) -> None:
    """Of three nodes of 8 in mp0 two are promised to the gang, which has pods on one of them; on the third a pod has
    two GPUs.  In mp1 two are promised, and the third is cordoned.
    """
    api.put(PODS, member_json("llm", 0, 4, node="n00"))
    api.put(PODS, pod_json("small", gpus=2, node="n01"))
    api.put(NODES, node_json("n12", "mp1", "r11", unschedulable=True))
    ran = arnold("kube", "top", *LEVELS, "--json")
    first, second = (domain for domain in ran.json["domains"] if domain["level"] == MINIPOD)
    names = ("nodes", "gpus", "free", "promised", "in_use", "unusable", "fragmented", "gangs")
    assert [first[name] for name in names] == [3, 24, 6, 8, 10, 0, 6, ["team/llm"]]
    assert [second[name] for name in names] == [3, 24, 0, 16, 0, 8, 0, ["team/llm"]]
    racks = [domain for domain in ran.json["domains"] if domain["level"] == RACK]
    assert [sum(rack[name] for rack in racks) for name in names[:-1]] == [6, 48, 6, 24, 10, 8, 6]
    assert says(arnold("kube", "top", *LEVELS).out, "mp0", "promised", "fragmented", "team/llm")


@pytest.fixture
def queue(api: FakeCluster) -> FakeCluster:
    """The gang has all its pods, for an hour at most, and may be stopped; one of three nodes waits for two of its."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    hints = {"arnold.dev/expected-duration": "1h", "arnold.dev/preemptible": "true"}
    for rank, node in enumerate(("n00", "n02", "n10", "n11")):
        api.put(PODS, member_json("llm", rank, 4, hints, node=node, created=now))
    spec = PlanSpec.of(Job("team/next", Parallelism(tp=8, dp=3), alpha=0.3, level=MINIPOD), dialect="job", priority=7)
    api.put(GANGPLANS, encode_plan(GangPlan(key("next"), PlanPhase.QUEUED, spec=spec, reason="NoRoom")))
    return api


@pytest.mark.usefixtures("queue")
def test_the_plain_commands_are_asked_of_the_live_cluster(arnold: Arnold) -> None:
    """A gang that waits is named as a job: it starts within the hour in which llm ends, and at once without llm; how
    good llm lies is what `arnold score` says of it.
    """
    when = arnold("kube", "explain", "team/next", *LEVELS, "--when", "--json")
    assert (when.code, when.json["after"], when.json["job"]["name"]) == (0, ["team/llm"], "team/next")
    assert not says(" ".join(when.json["notes"]), "wait before it")  # it does not wait for itself
    plain = arnold("explain", "--cluster", "kube:", "team/next", *LEVELS, "--stop", "--json").json
    live = arnold("kube", "explain", "team/next", *LEVELS, "--stop", "--json").json
    assert [job["name"] for job in live["stop"]] == [job["name"] for job in plain["stop"]] == ["team/llm"]
    for named in (["team/llm"], ["--nodes", "team/llm"]):
        scored = arnold("kube", "score", *named, *LEVELS, "--json").json
        assert (scored["objective"], scored["spread"]) == (1.7, {"dp": 1, "pp": 2})


@pytest.mark.usefixtures("queue")
def test_a_manifest_is_placed_dry(arnold: Arnold, tmp_path: Path) -> None:
    """As kubectl calls a file, ``-f``: two whole nodes are free, n01 and n12 in two minipods; nothing is written."""
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}}
    template |= {"metadata": {"labels": {"arnold.dev/gang": "two"}, "annotations": {"arnold.dev/level": MINIPOD}}}
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "two"}, "spec": spec}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    found = arnold("kube", "place", "-f", tmp_path / "job.yaml", *LEVELS, "--json").json
    assert sorted(row["node"] for row in found["assignment"]) == ["n01", "n12"]
    assert (found["spread"], found["proved_to"]) == ({"dp": 2, "pp": 1}, "all")


def test_a_cluster_without_arnold(api: FakeCluster, arnold: Arnold, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind of our plans is not known there: the error says how to install it."""
    api.fail_next("page", refusal(404, b"404 page not found", where="GET /apis/arnold.dev/v1alpha1/gangplans"))
    ran = arnold("kube", "gangs", "--json")
    assert (ran.code, ran.json["error"]["kind"]) == (2, "NotFound")
    assert "kubectl apply -k manifests/" in ran.json["error"]["fix"]


def test_the_plug_in_is_arnold_kube(api: FakeCluster, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """``kubectl-arnold gangs`` prints what ``arnold kube gangs`` does."""
    monkeypatch.setattr("sys.argv", ["kubectl-arnold", "gangs", "-n", "other"])
    monkeypatch.setattr("arnold.console.interrupts.watch_for_interrupts", lambda: None)
    with pytest.raises(SystemExit) as ended:
        main.kubectl()
    assert (ended.value.code, capsys.readouterr().out) == (0, "no gangs\n")


def test_a_plan_whose_job_is_another(api: FakeCluster, arnold: Arnold) -> None:
    """A plan that some other version wrote: three replicas on two nodes; it is shown as far as it can be read."""
    spec = PlanSpec.of(JOB, dialect="job", priority=0).replace(parallelism="tp=8,dp=3")
    odd = GangPlan(key("odd"), PlanPhase.BOUND, spec=spec, nodes=("n00", "n01"), pods=(None, None))
    api.put(GANGPLANS, encode_plan(odd))
    found = arnold("kube", "describe", "odd", *LEVELS, "--json").json
    assert [(one["node"], one["dp"], one["pp"]) for one in found["assignment"]] == [
        ("n00", None, None),
        ("n01", None, None),
    ]


def test_pods_that_share_nodes(api: FakeCluster, arnold: Arnold) -> None:
    """Four replicas of four GPUs, two pods a node of eight: each pod is shown on the cell of its node, and the two
    nodes lie in two minipods.
    """
    asked = Job("team/half", Parallelism(tp=4, dp=4), gpus_per_node=4, level=MINIPOD)
    spec = PlanSpec.of(asked, dialect="job", priority=0)
    nodes = ("n00", "n00", "n10", "n10")
    plan = GangPlan(key("half"), PlanPhase.BOUND, spec=spec, nodes=nodes, pods=(None,) * 4, pods_per_node=2)
    api.put(GANGPLANS, encode_plan(plan))
    found = arnold("kube", "describe", "half", *LEVELS, "--json").json
    assert [(one["rank"], one["dp"], one["node"]) for one in found["assignment"]] == [
        (0, 0, "n00"),
        (1, 0, "n00"),
        (2, 1, "n10"),
        (3, 1, "n10"),
    ]
    assert found["spread_by_level"][MINIPOD]["dp"] == 2
    rows = {one["node"]: one["gang"] for one in arnold("kube", "nodes", *LEVELS, "--json").json["nodes"]}
    assert rows["n10"] is not None
