"""The loop of evidence on a control plane: `arnold watch` with its component's token, gangs that run, made metrics.

Rounds are made in fast time: each is one of a day that has just ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import urllib3
import yaml

from arnold.gang_watch import GangWatch
from extender.cluster_api.connect import WhichCluster
from health.peers.comparison import ComparisonSettings
from health.peers.sample_sources import DEFAULT_QUERIES, StallPlan, WatchPlan
from health.peers.watch import Endpoint
from tests.e2e.harness.arnold import running
from tests.e2e.harness.certificates import LOOPBACK
from tests.e2e.harness.client import Client
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import bound, indexed_job
from tests.e2e.harness.process import Healthy, Process
from tests.e2e.harness.programs import Unavailable, Unfetched, from_module
from tests.e2e.harness.waiting import wait_until
from tests.facts import says
from tests.health.peers.fake_prometheus import serving
from tests.manifests.rendering import MANIFESTS, SYSTEM
from tests.ports import free_port
from topology.generate import generate
from topology.kubernetes.nodes import SLOWDOWN

SIZE = 8
STEP = 15.0
WATTS, SHARE = {"a": 550.0, "b": 400.0, "c": 480.0}, {"a": 97.0, "b": 88.0, "c": 92.0}
BEGUN, POWER, DUTY, HEAT = (
    "collectives_begun",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_GPU_TEMP",
)
STALL = StallPlan(progress=f"max by (Hostname) ({BEGUN})", policy="act")


@dataclass
class Fleet:
    """What the nodes of three gangs do: they train different models, pause for checkpoints, and lose scrapes."""

    gangs: dict[str, list[str]] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)  # node -> part of its peers' power
    since: float = 0.0  # when it became slow, seconds since 1970
    begun: dict[str, int] = field(default_factory=dict)  # node -> collectives that it has begun, where it stands still

    def series(self, name: str, times: Any) -> Iterator[tuple[dict[str, str], Any, Any]]:
        """Yield labels, times and values of each series of a metric; 1.5 % of the scrapes fail."""
        for gang, nodes in self.gangs.items():
            # four minutes of every hour nobody works
            pauses = (times + 700.0 * ord(gang[0])) % 3_600.0 < 240.0
            for node in nodes:
                for gpu in range(2):
                    rng = np.random.default_rng([*node.encode(), gpu, int(times[0]), *name.encode()])
                    noise, there = rng.normal(0.0, 1.0, len(times)), rng.random(len(times)) > 0.015
                    part = np.where(times >= self.since, self.slow.get(node, 1.0), 1.0)
                    if name == BEGUN:
                        came = np.full(len(times), self.begun[node]) if node in self.begun else times // 5.0
                    elif name == POWER:
                        came = np.where(pauses, 90.0, WATTS[gang] * part) + 5.0 * noise
                    elif name == DUTY:
                        came = np.where(pauses, 0.0, np.minimum(100.0, SHARE[gang] + noise))
                    else:
                        came = np.where(pauses, 45.0, 62.0 + 3.0 * np.sin(times / 13_750.0)) + 0.5 * noise
                    yield {"Hostname": node, "gpu": str(gpu)}, times[there], came[there]

    def answer(self, query: str, start: float, end: float, step: float) -> Any:
        """Stand in for Prometheus where it cannot be had."""
        times, answers = np.arange(start, end + step / 2.0, step), []
        for name in (name for name in (BEGUN, POWER, DUTY, HEAT) if name in query):
            for labels, at, values in self.series(name, times):
                pairs = [[when, f"{value:.1f}"] for when, value in zip(at.tolist(), values.tolist(), strict=True)]
                answers.append({"metric": labels, "values": pairs})
        return {"status": "success", "data": {"resultType": "matrix", "result": answers}}


@dataclass(frozen=True)
class Loop:
    """Three gangs that run on a control plane, and a watch over them."""

    plane: ControlPlane
    namespace: str
    fleet: Fleet
    watch: GangWatch

    @property
    def admin(self) -> Client:
        """Who may do everything."""
        return self.plane.admin

    def annotated(self) -> dict[str, str]:
        """The slowdown of each node that has one."""
        notes = {
            thing["metadata"]["name"]: thing["metadata"].get("annotations", {}) for thing in self.admin.all("nodes")
        }
        return {name: of_node[SLOWDOWN] for name, of_node in notes.items() if SLOWDOWN in of_node}


@pytest.fixture(scope="module")
def prometheus_for_plane(say: Callable[[str], None]) -> Path:
    """The server, built like the programs of the control plane."""
    try:
        return from_module("github.com/prometheus/prometheus/cmd/prometheus", "v0.316.0", say, tags="remove_all_sd")
    except (Unavailable, Unfetched) as reason:
        pytest.skip(f"Prometheus cannot be had: {reason}")


@contextmanager
def recorded(server: Path, fleet: Fleet, begin: float, folder: Path) -> Iterator[str]:
    """A real Prometheus, told of a day of the fleet by OTLP, half an hour at a time; yields its address."""
    settings = {"storage": {"tsdb": {"out_of_order_time_window": "1d"}}}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    options: dict[str, object] = {"config.file": folder / "prometheus.yaml", "storage.tsdb.path": folder / "tsdb"}
    options["web.listen-address"] = address = f"{LOOPBACK}:{free_port()}"
    command = [str(server), "--web.enable-otlp-receiver", *(f"--{name}={value}" for name, value in options.items())]
    ready = Healthy(f"http://{address}/-/ready")
    process = Process("prometheus", command, log=folder / "prometheus.log", ready=ready)
    process.start()
    try:
        for start in np.arange(begin, begin + 86_400.0, 1_800.0):
            metrics = []
            for name in (POWER, DUTY, HEAT):
                points = []
                for labels, times, values in fleet.series(name, np.arange(start, start + 1_800.0, STEP)):
                    tags = [{"key": key, "value": {"stringValue": value}} for key, value in labels.items()]
                    pairs = zip(times.tolist(), values.tolist(), strict=True)
                    points += [
                        {"attributes": tags, "timeUnixNano": f"{at:.0f}000000000", "asDouble": value}
                        for at, value in pairs
                    ]
                metrics.append({"name": name, "gauge": {"dataPoints": points}})
            document = {"resourceMetrics": [{"resource": {}, "scopeMetrics": [{"metrics": metrics}]}]}
            told = urllib3.request("POST", f"http://{address}/api/v1/otlp/v1/metrics", json=document)
            assert told.status == 200, told.data
        yield f"http://{address}"
    finally:
        process.kill()


@contextmanager
def loop(plane: ControlPlane, namespace: str, folder: Path) -> Iterator[Loop]:
    """Three gangs of eight nodes run, two nodes are spare, and the watch has its own token."""
    cluster = make_real(plane.admin, generate("minipods", minipods=2, nodes=3 * SIZE + 2))
    for file in ("health/watch.yaml", "health-act/rbac.yaml"):
        for thing in yaml.safe_load_all((MANIFESTS / "components" / file).read_text(encoding="utf-8")):
            if thing["kind"] not in ("Deployment", "PersistentVolumeClaim", "NetworkPolicy"):
                plane.admin.apply(thing)
    fleet = Fleet()
    with running(plane, levels=level_labels(cluster)), guarded(plane), serving(fleet.answer) as prometheus:
        for gang in WATTS:
            plane.admin.create(indexed_job(gang, namespace, size=SIZE, parallelism="tp=8,pp=2,dp=4"))
        for gang in WATTS:
            of_gang = partial(plan_in, plane.admin, gang, namespace, "Bound")
            fleet.gangs[gang] = [*wait_until(of_gang, f"{gang} on its nodes").nodes]
        kubeconfig = plane.service_account("arnold-watch", SYSTEM)
        watch = GangWatch(
            WhichCluster(kubeconfig=str(kubeconfig)),
            Endpoint(prometheus.url, timeout=60.0),
            WatchPlan(queries=DEFAULT_QUERIES, step=STEP),
            ComparisonSettings(step=STEP),
            STALL,
            str(folder / "flags.db"),
        )
        yield Loop(plane, namespace, fleet, watch)


def test_one_slow_node_of_three_gangs_in_a_day(
    arnold_plane: ControlPlane, namespace: str, prometheus_for_plane: Path, tmp_path: Path
) -> None:
    """From the sixth hour on a node draws .67 of its peers' power: within two rounds it is slow by 1 / .67, and in 179
    rounds no other is.
    """
    with loop(arnold_plane, namespace, tmp_path) as day:
        slow, *_ = day.fleet.gangs["b"]
        begin = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
        day.fleet.slow, day.fleet.since = {slow: 0.67}, (begin + timedelta(hours=6)).timestamp()
        flagged: dict[str, datetime] = {}
        with recorded(prometheus_for_plane, day.fleet, begin.timestamp(), tmp_path) as url:
            watch = replace(day.watch, endpoint=Endpoint(url, timeout=60.0), stalls=StallPlan())
            # a scrape may be missing at the end of the first window
            for number in range(2, 181):
                now = begin + number * timedelta(seconds=watch.plan.every)
                made = watch.round(now)
                assert (made.error, [gang.judged for gang in made.gangs]) == (None, [True] * 3)
                for change in made.changes:
                    flagged.setdefault(change.node, now)
        assert {*flagged} == {slow}
        assert flagged[slow].timestamp() - day.fleet.since <= 2 * watch.plan.every
        # noise of 5 W on 268 W
        (annotation,) = day.annotated().values()
        assert float(annotation) == pytest.approx(1.0 / 0.67, abs=0.05)


def test_a_gang_that_hangs_goes_on_elsewhere(arnold_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """A process of gang b begins one collective less, and all of b wait: its node is out, its pod evicted, its Job
    makes it anew, the extender puts it on a spare node, and it goes on; a and c, and the other seven pods, stay.
    """
    with loop(arnold_plane, namespace, tmp_path) as it:
        nodes, before = it.fleet.gangs["b"], bound(it.admin, namespace)
        it.fleet.begun = {**dict.fromkeys(nodes, 1_000), nodes[3]: 999}
        now = datetime.now(UTC)
        (told,) = it.watch.round(now, compares=False).stalls
        assert [step.did for step in told.steps] == ["StandsStill", "Named", "Evicted"]
        assert it.annotated() == {nodes[3]: "faulty"}

        def moved() -> list[str] | None:
            plan = plan_in(it.admin, "b", namespace, "Bound")
            whole = plan is not None and len(bound(it.admin, namespace)) == 3 * SIZE
            return [*plan.nodes] if plan is not None and whole and nodes[3] not in plan.nodes else None

        after = wait_until(moved, "rank 3 on another node")
        assert [rank for rank in range(SIZE) if nodes[rank] != after[rank]] == [3]
        assert len(before.items() & bound(it.admin, namespace).items()) == 3 * SIZE - 1
        it.fleet.gangs["b"], it.fleet.begun = after, {}
        (told,) = it.watch.round(now + timedelta(minutes=6), compares=False).stalls
        assert [step.did for step in told.steps[3:]] == ["Moved", "Resumed"]
        assert says(told.steps[3].why, "rank 3", nodes[3], after[3])
        history = it.admin.get("ganghistories", "arnold", namespace)
        (kept,) = history["spec"]["incidents"]
        assert [step["did"] for step in kept["steps"]] == [step.did for step in told.steps]
        posted = {event["reason"] for event in it.admin.all("events", namespace)}
        assert {"StandsStill", "Named", "Evicted", "Moved", "Resumed"} <= posted
