"""Several machines that stand out at once, and machines beside their own past."""

from __future__ import annotations

import numpy as np
import pytest

from ground.records import json_data
from health.peers.comparison import ComparisonSettings, at_moment, detect
from health.peers.verdict import PeersVerdict, judge
from tests.facts import says
from tests.health.peers.made import Array, recording, values


def verdict(metrics: dict[str, Array]) -> PeersVerdict:
    """The verdict on made metrics."""
    given = recording(metrics)
    return judge(given, list(detect(given, ComparisonSettings())))


def two_groups() -> Array:
    """Step times of ten workers: five take 58, five 240, each 2 % about that.

    Like those of a public recording of Alibaba, in which two of the slow ones then slow down to 960 and 730.
    """
    level = np.where(np.arange(10) % 2, 240.0, 58.0)[:, None]
    return level * np.random.default_rng(9).normal(1.0, 0.02, (10, 600))


def test_two_machines_that_slow_down_together_are_both_named() -> None:
    """n05 and n07 go to 960 and 730 at 300 s: both are flagged within the minute and a window, which is soon enough."""
    made = two_groups()
    made[5, 300:] *= 4.0
    made[7, 300:] *= 3.05
    found = verdict({"step_time": made})
    assert [flag.node for flag in found.flags] == ["n05", "n07"]
    for one in found.metrics[0].alerts:
        assert 293 <= one.start <= 300
        assert one.alert is not None
        assert one.alert <= 300 + 60 + 7


def test_a_machine_is_told_beside_its_peers_and_its_own_past() -> None:
    """From 240 to 960 where the middle peer takes 58 to 240: four times its own past, whatever its peers take."""
    made = two_groups()
    made[5, 300:] *= 4.0
    found = verdict({"step_time": made})
    (one,) = found.metrics[0].alerts
    assert one.past == pytest.approx(240.0, rel=0.01)
    assert one.own == pytest.approx(960.0, rel=0.01)
    assert one.peers == pytest.approx(58.0, rel=0.05)
    by = f"({one.own / one.peers:.3g}x its peers, {one.own / one.past:.3g}x its own past)"
    assert by in found.flags[0].evidence
    assert json_data(PeersVerdict, found)["metrics"][0]["stretches"][0]["past"] == one.past


def test_what_was_there_from_the_beginning_has_no_past() -> None:
    """A machine that stood out at once has nothing to be compared with, and the text says nothing of it."""
    made = values()
    made[3] *= 0.1
    found = verdict({"cpu_usage": made})
    (one,) = found.metrics[0].alerts
    assert one.past is None
    assert "own past" not in found.flags[0].evidence


def test_two_that_differ_for_good_have_roles_of_their_own() -> None:
    """Two workers take a fifth longer throughout: no fault, as long as neither differs from its own past."""
    made = 50.0 * np.random.default_rng(2).normal(1.0, 0.005, (10, 600))
    made[[3, 4]] *= 1.2
    assert verdict({"step_time": made}).flags == ()
    made[3, 300:] *= 1.2
    assert [flag.node for flag in verdict({"step_time": made}).flags] == ["n03"]


def test_two_faulty_machines_of_twelve_are_both_excluded() -> None:
    """CPU usage of two drops to 5 and 10 for good; of three that do, nobody is believed to be faulty."""
    made = values()
    made[3, 200:] *= 0.1
    made[8, 200:] *= 0.2
    assert [flag.node for flag in verdict({"cpu_usage": made}).flags] == ["n03", "n08"]
    made[10, 200:] *= 0.15
    assert verdict({"cpu_usage": made}).flags == ()


def test_one_moment_names_all_that_stand_out() -> None:
    """Two of twelve machines differ in one scrape: both are told, nobody is judged."""
    made = values(seconds=1)
    made[3] -= 40.0
    made[8] += 90.0
    found = at_moment(recording({"gpu_power_draw": 10.0 * made}))
    assert says(found.verdict, "n08 in GPU power draw", "n03 in GPU power draw")
    assert found.flags == ()
