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
    GangPace,
    pause_after,
)


def test_decisions_leave_the_event_loop_to_others() -> None:
    """A burst of changes is one decision; after a long one others have as much time, up to a quarter of a second."""
    assert pause_after(0.0) == PAUSE
    assert pause_after(0.08) == 0.08 / SHARE
    assert pause_after(5.0) == LONGEST_PAUSE


def test_news_of_a_gang_wait_as_long_as_a_look_at_it_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    """While pods come or are bound one by one; the last to come, one that goes and writes of ours are heard at once."""
    clock = 100.0
    monkeypatch.setattr(pacing, "monotonic", lambda: clock)
    pace = GangPace()
    assert pace.due(gathering=True) == pace.due(gathering=False) == 0.0
    pace.looked(0.004, gathering=True)
    assert pace.due(gathering=True) == clock + 0.004 / GANG_SHARE
    assert pace.due(gathering=False) == 0.0
    pace.looked(9.0, gathering=False)
    assert pace.due(gathering=False) == clock + LONGEST_REST
    assert pace.due(gathering=True) == 0.0
