"""When to do things again."""

from __future__ import annotations

import pytest

from extender.controller import pacing
from extender.controller.pacing import (
    GANG_SHARE,
    LONGEST_PAUSE,
    LONGEST_REST,
    PAUSE,
    SHARE,
    GangLooks,
    pause_after,
)
from tests.extender.things import key


def test_decisions_leave_the_event_loop_to_others() -> None:
    """A burst of changes is one decision; after a long one others have as much time, up to a quarter of a second."""
    assert pause_after(0.0) == PAUSE
    assert pause_after(0.08) == 0.08 / SHARE
    assert pause_after(5.0) == LONGEST_PAUSE


def test_news_of_a_gang_wait_as_long_as_a_look_at_it_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    """While pods come or are bound one by one; the last to come, one that goes and writes of ours are heard at once."""
    clock = 100.0
    monkeypatch.setattr(pacing, "monotonic", lambda: clock)
    looks = GangLooks()
    assert looks.due(key("g"), gathering=True) == 0.0
    looks.looked(key("g"), 0.004, gathering=True)
    assert looks.due(key("g"), gathering=True) == clock + 0.004 / GANG_SHARE
    assert looks.due(key("g"), gathering=False) == 0.0
    looks.looked(key("g"), 9.0, gathering=False)
    assert looks.due(key("g"), gathering=False) == clock + LONGEST_REST
    assert looks.due(key("g"), gathering=True) == 0.0
    assert looks.due(key("other"), gathering=False) == 0.0
    looks.forget(key("g"))
    assert looks.due(key("g"), gathering=False) == 0.0
