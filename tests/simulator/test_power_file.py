"""The power file: what it says comes back, and every mistake has its line and what to do."""

from __future__ import annotations

import pytest

from ground.errors import ArnoldError
from ground.files import Source
from simulator.power_file import NodeWatts, PowerSettings, read_power
from tests.simulator.feeds import fed_racks

WHOLE = """
watts: {compute: 10000, communicate: 6000, idle: 1500}
types: {H100: {compute: 9000, communicate: 4000, idle: 1000}}
step_seconds: 4
band: [0.2, 3]
caps: {feed1: 25000}
jobs:
  big: {step_seconds: 8}
"""


def test_what_it_says() -> None:
    """Types and caps by name; what is left out has its default."""
    cluster = fed_racks().with_gpu_types({0: "H100"})
    found = read_power(Source("power.yaml", WHOLE), cluster)
    assert found.watts_of("H100") == NodeWatts(9_000.0, 4_000.0, 1_000.0)
    assert found.watts_of("") == NodeWatts(10_000.0, 6_000.0, 1_500.0)
    assert (found.band, found.caps["feed1"], found.jobs["big"].step_seconds) == ((0.2, 3.0), 25_000.0, 8.0)
    assert found.compute_share == PowerSettings().compute_share
    assert found.capped


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("watts:\n  compute: -5\n", 2, "compute"),
        ("watts:\n  compute: 100\n", 1, "at most compute"),
        ("step_seconds: 5\ncompute_share: 1.5\n", 2, "compute_share"),
        ("step_seconds: 0\n", 1, "step_seconds"),
        ("floor_share: .nan\n", 1, "floor_share"),
        ("band: [20, 0.1]\n", 1, "must rise"),
        ("cap_watts: 5\ncaps:\n  feed0: 10\n  feed9: 10\n", 4, "feed1"),
        ("level: '@power'\ncaps: {feed0: -1}\n", 2, "feed0"),
        ("cap_watts: 7\nlevel: '@powr'\n", 2, "@power"),
        ("level: '@powr'\n", 1, "@power"),
        ("types:\n  H200: {}\n", 2, "type of GPU"),
        ("step_secs: 5\n", 1, "step_seconds"),
    ],
)
def test_mistakes(text: str, line: int, word: str) -> None:
    """Each is refused with its line, the word that helps, and what to do."""
    with pytest.raises(ArnoldError) as caught:
        read_power(Source("power.yaml", text), fed_racks())
    assert caught.value.where == f"power.yaml:{line}"
    assert word in f"{caught.value.message} {caught.value.fix}"
    assert caught.value.fix
