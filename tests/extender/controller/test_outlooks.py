"""Gangs that wait are told when they start, and who would have to be stopped so that they start now."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from extender.cluster_api.client import PODS
from extender.controller import pacing
from extender.kubernetes_names import EXPECTED_DURATION, PREEMPTIBLE
from extender.plans.gang_plan import PlanPhase
from tests.extender.controller.test_gang_controller import bind, cluster, phase, plan, run, running, submit, until
from tests.extender.fake_cluster import FakeCluster


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop without its pauses, which are there for real clusters."""
    monkeypatch.setattr(pacing, "PAUSE", 0.001)
    monkeypatch.setattr(pacing, "LOOK", 0.01)
    monkeypatch.setattr(pacing, "LONGEST_IDLE", 0.01)


def message(api: FakeCluster, gang: str) -> str:
    """What the plan of a gang says."""
    found = plan(api, gang)
    return "" if found is None else found.message


async def placed(api: FakeCluster, gang: str, **annotations: str) -> None:
    """Submit a gang of four, and bind it."""
    submit(api, gang, 4, annotations=annotations, created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
    await until(lambda: phase(api, gang) is PlanPhase.RELEASED, "the gang to be released")
    bind(api, gang)
    await until(lambda: phase(api, gang) is PlanPhase.BOUND, "the gang to be bound")


def test_a_gang_that_waits_is_told_when_it_starts() -> None:
    """Eight nodes, of which a has four for an hour at most, and b, which may be stopped, four for nobody knows how
    long: a gang of four starts when a ends, at any time within that hour, or now without b; why it waits stays said.
    """

    async def scenario() -> None:
        api = cluster()
        async with running(api):
            await placed(api, "a", **{EXPECTED_DURATION: "1h"})
            await placed(api, "b", **{PREEMPTIBLE: "true"})
            submit(api, "c", 4, priority=5)
            await until(lambda: "starts in" in message(api, "c"), "the gang to be told")
            told = message(api, "c")
            span = re.search(r"starts in (\d+) to (\d+) min when gang a ends", told)
            assert span is not None, told
            assert 0 < int(span[1]) < int(span[2]) <= 60
            assert "stopping gang b (4 nodes, priority 0) would start it now\nTo fix:" in told
            assert told.startswith("the job needs 4 free nodes")

    run(scenario)


@pytest.mark.parametrize("priority", [0, 5])
def test_what_nobody_knows_cannot_be_told(priority: int) -> None:
    """Of neither gang an end is known, and a gang of the same priority is never named as one to stop."""

    async def scenario() -> None:
        api = cluster()
        async with running(api):
            await placed(api, "a")
            await placed(api, "b", **{PREEMPTIBLE: "true"})
            submit(api, "c", 4, priority=priority)
            await until(lambda: "cannot be told" in message(api, "c"), "the gang to be told")
            assert ("stopping gang b" in message(api, "c")) is (priority > 0)

    run(scenario)


def test_the_sentence_goes_with_the_wait() -> None:
    """When a has gone, c starts, and its plan says nothing of waiting."""

    async def scenario() -> None:
        api = cluster(1)
        async with running(api):
            await placed(api, "a", **{EXPECTED_DURATION: "1h"})
            submit(api, "c", 4)
            await until(lambda: "starts in" in message(api, "c"), "the gang to be told")
            for pod in [pod for pod in api.objects["pods"].values() if pod["metadata"]["name"].startswith("a-")]:
                api.remove(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
            await until(lambda: phase(api, "c") is PlanPhase.RELEASED, "the gang to be released")
            assert "starts in" not in message(api, "c")

    run(scenario)
