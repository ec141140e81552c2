"""A site with jobs placed on it: each beside those before, what remedies and events change, and even spreads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ground.errors import Infeasible
from scheduler.placement.types import Limits
from simulator.capacity.power import PowerQuestion
from simulator.capacity.powered_site import PoweredSite, place_in_turn
from topology.generate import minipods

LIMITS = Limits(seconds=0.5, workers=1, clock="work")
WATTS = "watts: {compute: 10000, communicate: 5000, idle: 1000}\nstep_seconds: 4\ncompute_share: 0.5\nedge_seconds: 0\n"


def site_of(tmp_path: Path, *jobs: str) -> tuple[PoweredSite, dict[str, float]]:
    """A site of 16 nodes on feeds of 4, and the inputs at their medians."""
    file = tmp_path / "power.yaml"
    file.write_text(WATTS)
    question = PowerQuestion(made="2x8", power=str(file), jobs=jobs, feed_nodes=4, seconds=20.0, draws=10)
    return question.powered, dict(question.points.values[question.points.draws])


def test_jobs_are_placed_beside_each_other() -> None:
    """Three jobs of 8, 4 and 4 nodes fill 16: no node twice, each in one minipod; a fourth finds no room."""
    cluster, jobs = minipods(minipods=2, nodes=16), ("8x2x4", "8x2x2", "8x1x4")
    gangs = place_in_turn(cluster, jobs, LIMITS)
    nodes = np.concatenate([gang.nodes.ravel() for gang in gangs])
    assert sorted(nodes.tolist()) == list(range(16))
    assert all((gang.worth.dp, gang.worth.pp) == (1, 1) for gang in gangs)
    with pytest.raises(Infeasible, match="job 8x1x1 finds no room"):
        place_in_turn(cluster, (*jobs, "8x1x1"), LIMITS)


def test_the_largest_job(tmp_path: Path) -> None:
    """The one with the most nodes, wherever it stands; its loads are those of its nodes."""
    site, values = site_of(tmp_path, "8x1x2", "8x2x4")
    assert site.largest == 1
    loads = site.loads(values)
    assert sum(load.nodes.size for load in loads) == 2 + 8
    assert {int(load.nodes[0]) for load in loads} <= {int(node) for gang in site.gangs for node in gang.nodes.ravel()}
    assert all(0.0 <= load.phase < 1.0 for load in loads)


def test_remedies_change_what_they_say(tmp_path: Path) -> None:
    """A floor only adds power and lifts the lowest; storage takes none more and swings no more."""
    site, values = site_of(tmp_path, "8x2x4")
    remedies = site.power_by_remedy(site.loads(values))
    now, _ = remedies["as it comes"]
    assert [more for name, (_, more) in remedies.items() if not name.startswith("floor")] == [0.0] * 4
    ((floored, more),) = (found for name, found in remedies.items() if name.startswith("floor"))
    assert more > 0.0
    assert (floored >= now - 1e-6).all()
    assert floored.max() == pytest.approx(now.max())
    ((smooth, _),) = (found for name, found in remedies.items() if name.startswith("storage"))
    assert np.ptp(smooth) <= np.ptp(now) + 1e-6
    # one job alone: in phase and staggered are shifts of the same wave, 8 x 10 and 8 x 5 kW beside 8 idle nodes
    for name in ("as it comes", "all in phase", "staggered"):
        assert (remedies[name][0].min(), remedies[name][0].max()) == pytest.approx((48_000.0, 88_000.0))


def test_events_of_the_largest_job(tmp_path: Path) -> None:
    """Before it starts, and after it has stopped, its 8 nodes idle: the site draws 16 kW, and no less at any time."""
    site, values = site_of(tmp_path, "8x2x4")
    events = site.events(site.loads(values))
    starts, stops = events["the largest job starts"], events["the largest job stops"]
    quarter = len(starts) // 4  # of the time; it happens in the middle
    assert starts[:quarter].max() == pytest.approx(16_000.0)
    assert stops[-quarter:].max() == pytest.approx(16_000.0)
    assert min(watts.min() for watts in events.values()) == pytest.approx(16_000.0)
    assert starts[-quarter:].max() == pytest.approx(88_000.0, rel=0.01)  # a sample is a mean over its time
