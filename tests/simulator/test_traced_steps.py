"""Step and compute share of op traces: made ones, and the two public ones in the folder that ``ARNOLD_DATA`` names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from health.whatif.synthetic import make_trace, trace_file
from simulator.capacity.powered_site import traced_step
from tests.health.whatif.recipes import Recipe


def test_a_made_trace(tmp_path: Path) -> None:
    """Twice the microbatches take longer, and leave a smaller share for the bubbles: workers compute for more of it."""
    found = []
    for microbatches in (2, 8):
        file = tmp_path / f"{microbatches}.parquet"
        file.write_bytes(trace_file(make_trace(Recipe(steps=2, microbatches=microbatches))))
        found.append(traced_step(str(file)))
    assert found[0][0] < found[1][0]
    assert 0.0 < found[0][1] < found[1][1] <= 1.0


@pytest.mark.parametrize(("name", "seconds", "share"), [("ST", 2.2144, 0.4587), ("AR", 46.649, 0.4519)])
def test_public_traces(name: str, seconds: float, share: float) -> None:
    """0.45 and 0.021 Hz, as found in these traces by independent means; the shares are those of power.md (docs)."""
    folder = os.environ.get("ARNOLD_DATA")
    if not folder:
        pytest.skip("ARNOLD_DATA is not set: the public traces are not part of the project")
    found = traced_step(str(Path(folder) / "straggler" / f"trace-{name}.parquet"))
    assert found == pytest.approx((seconds, share), rel=1e-3)
