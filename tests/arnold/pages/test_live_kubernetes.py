"""What the live page is told of a Kubernetes cluster, and when it says that it does not know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

import pytest

from arnold.pages.live_kubernetes import KubernetesSource
from extender.cluster_api.client import GANGPLANS, NODES, ClusterApi, NotFound, Refused, Resource, Unreachable
from extender.cluster_api.connect import WhichCluster
from tests.extender.fake_cluster import FakeCluster
from tests.extender.things import (
    GRID,
    MINIPOD,
    NOW,
    RACK,
    gang_pods,
    minipods,
    node,
    node_json,
    plan_all,
    pod,
    reserve,
    state_of,
)


def source_of(nodes: list[Any], pods: list[Any]) -> KubernetesSource:
    """A source whose cache has these, and the plans of one round."""
    source = KubernetesSource(WhichCluster(), (MINIPOD, RACK), {})
    source.cache = state_of(nodes, pods)
    plan_all(source.cache)
    return source


def test_gangs_that_run_and_wait_and_nodes_with_something_against_them() -> None:
    """Of 12 nodes a gang has eight and one is cordoned: another of eight waits, with the reason of its plan; a flag, a
    taint and a pod of others stand at their nodes.
    """
    nodes = minipods(8, 2)
    nodes += [
        node("slow", "mp1", "mp1r0", annotations={"arnold.dev/slowdown": "1.4"}),
        node("out", "mp1", "mp1r0", unschedulable=True),
        node("tainted", "mp1", "mp1r0", taints=[{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]),
    ]
    others = pod("other", node="m1-0", gpus=4, schedulerName="default-scheduler")
    pods = [*gang_pods("first", 8, GRID), *gang_pods("second", 8, GRID), others]
    look = source_of(nodes, pods).look()
    cluster = look.cluster
    assert cluster is not None
    placed, waiting = sorted(look.gangs, key=lambda gang: not gang.placed)
    assert (placed.name, placed.placed, placed.gpus, placed.pods) == ("team/first", True, 64, "0/8")
    assert placed.spread == (1, 1)
    assert placed.proof == "proved"
    assert (waiting.name, waiting.placed) == ("team/second", False)
    assert waiting.message
    assert waiting.since == (NOW - timedelta(hours=1)).timestamp()  # when its pods were made
    assert set(look.holders.values()) == {"team/first"}
    assert len(look.holders) == 8
    free = dict(zip(cluster.names, cluster.free_gpus.tolist(), strict=True))
    # what is promised is in use by nobody yet
    assert (free["m1-0"], free["m1-1"], {free[name] for name in look.holders}) == (4, 8, {8})
    against = {cluster.names[i]: flag.kind for i, flag in cluster.flags.items()}
    assert against == {"slow": "straggler", "out": "faulty"}
    assert {cluster.names[i]: why for i, why in cluster.kept_out.items()} == {
        "tainted": "kept out by the taint dedicated=x"
    }


def test_a_reservation() -> None:
    """It is told with its times and what its status says."""
    source = source_of(minipods(4), [])
    reserve(source.cache, "m0-0", "m0-1", name="big")
    (held,) = source.look().reservations
    assert (held.name, held.phase, held.nodes) == ("team/big", "Held", 2)
    # it arrives in four hours, and is kept for another
    assert (held.begin, held.end) == tuple((NOW + timedelta(hours=hours)).timestamp() for hours in (4, 5))


@asynccontextmanager
async def following(api: FakeCluster) -> AsyncIterator[KubernetesSource]:
    """A source that follows a made cluster while the block runs."""
    source = KubernetesSource(WhichCluster(), (MINIPOD, RACK), {})
    task = asyncio.create_task(source.follow_by(cast("ClusterApi", api)))
    try:
        for _ in range(200):
            await asyncio.sleep(0.01)
            if source.synced:
                break
        yield source
    finally:
        task.cancel()


def test_it_follows_a_cluster_and_says_when_it_cannot() -> None:
    """Nodes that come are seen; while the API server gives no answer the cluster is lost and was seen before that."""

    async def run() -> None:
        api = FakeCluster()
        api.put(NODES, node_json("a"))
        async with following(api) as source:
            assert (source.lost, source.name) == ("", "kube:made")
            before, changes = source.seen, source.changes
            assert before is not None
            api.put(NODES, node_json("b"))
            await asyncio.sleep(0.05)
            look = source.look()
            assert look.cluster is not None
            assert set(look.cluster.names) == {"a", "b"}
            assert source.changes > changes
            seen = source.seen
            api.fail_next("read", Unreachable("connection refused"))
            await source.knock(cast("ClusterApi", api))
            assert (source.lost, source.seen) == ("connection refused", seen)
            await source.knock(cast("ClusterApi", api))
            assert source.lost == ""
            assert source.seen is not None
            assert seen is not None
            assert source.seen > seen

    asyncio.run(run())


def test_an_api_server_that_hangs_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connections stand and it says nothing: a watch alone would believe for a minute and a half that nothing is
    new.
    """
    monkeypatch.setattr("extender.service.followed_cluster.KNOCK_PATIENCE", 0.05)

    async def run() -> None:
        api = FakeCluster()
        api.put(NODES, node_json("a"))
        async with following(api) as source:
            seen = source.seen

            async def silent(_: str) -> bytes:
                await asyncio.sleep(60.0)
                return b""

            api.read = silent  # type: ignore[method-assign]
            await source.knock(cast("ClusterApi", api))
            assert "not answered" in source.lost
            assert source.seen == seen

    asyncio.run(run())


def test_a_cluster_without_our_kinds_or_rights_is_shown_and_says_so() -> None:
    """What may not be listed is said, and taken for none; a user who may not read /version is there all the same."""

    async def run() -> None:
        api = FakeCluster()
        api.put(NODES, node_json("a"))
        page = api.page

        async def refusing(resource: Resource, **about: Any) -> bytes:
            if resource.plural == GANGPLANS.plural:
                raise NotFound("no such kind", status=404, reason="NotFound")
            return await page(resource, **about)

        api.page = refusing  # type: ignore[method-assign]
        async with following(api) as source:
            assert any("gangplans" in note and "no such kind" in note for note in source.absent)
            api.fail_next("read", Refused("you may not", status=403, reason="Forbidden"))
            await source.knock(cast("ClusterApi", api))
            assert source.lost == ""

    asyncio.run(run())
