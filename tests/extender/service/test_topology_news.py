"""What operators are told of the nodes."""

from __future__ import annotations

import asyncio

import pytest

from extender.cluster_cache import ClusterCache
from extender.service import server
from tests.extender.things import MINIPOD, RACK, minipods, node
from tests.facts import says


def test_levels_and_what_is_wrong_with_them(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which labels are the levels is told once; nodes that lack one are told, and that they do not any more."""
    monkeypatch.setattr(server, "LOOK_SECONDS", 0)
    state = ClusterCache([MINIPOD, RACK])
    for one in minipods(2):
        state.put_node(one)
    listed = False

    async def scenario() -> None:
        nonlocal listed
        task = asyncio.create_task(server.log_topology(state, ready=lambda: listed))
        await asyncio.sleep(0)
        assert caplog.messages == []
        listed = True
        await asyncio.sleep(0.01)
        state.put_node(node("m0-1", labels={MINIPOD: "mp0"}))
        await asyncio.sleep(0.01)
        state.put_node(node("m0-1"))
        await asyncio.sleep(0.01)
        task.cancel()

    with caplog.at_level("INFO"):
        asyncio.run(scenario())
    levels, lacking, mended = caplog.messages
    assert says(levels, f"{MINIPOD}, {RACK}", "as configured")
    assert says(lacking, "1 of 2", RACK, "m0-1")
    assert "To fix: " in lacking
    assert mended.startswith("mended: 1 of 2")
