"""What `arnold slurm check` finds of a Slurm that is not as it should be."""

from __future__ import annotations

import pytest

from ground.files import Source
from slurm import checks
from slurm.live import Eyes
from tests.slurm.made_slurm import NOW, looked


@pytest.mark.parametrize(("skew", "ok"), [(-59.0, True), (61.0, False), (-61.0, False)])
def test_clocks_that_differ(monkeypatch: pytest.MonkeyPatch, skew: float, ok: bool) -> None:
    """By more than a minute: a user's own begin could no longer be told from ours."""
    monkeypatch.setattr(checks, "configured", dict)
    monkeypatch.setattr(checks, "ask", lambda *_: (Source("--version", "slurm 26.05.5"), ""))
    monkeypatch.setattr(Eyes, "look", lambda _: looked())
    monkeypatch.setattr(checks, "time", lambda: NOW + skew)
    clock = next(check for check in checks.checks(None) if check.what == "clock")
    assert (clock.ok, f"{skew:+.0f} s" in clock.found, "chrony" in clock.fix) == (ok, True, not ok)
