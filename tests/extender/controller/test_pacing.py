"""When to do things again."""

from __future__ import annotations

import pytest

from extender.controller import pacing
from extender.controller.pacing import REMIND, Reminders
from tests.extender.things import key


def test_who_waits_is_told_newer_numbers_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before half a minute has passed; each gang has its own; one that is gone is forgotten."""
    clock = 0.0
    monkeypatch.setattr(pacing, "monotonic", lambda: clock)
    reminders = Reminders()
    assert reminders.due(key("a")), "nobody knows when another replica told it"
    reminders.written(key("a"))
    clock = REMIND - 1.0
    reminders.written(key("b"))
    assert not reminders.due(key("a"))
    clock = REMIND
    assert (reminders.due(key("a")), reminders.due(key("b"))) == (True, False)
    reminders.keep({key("a")})
    assert reminders.due(key("b"))
