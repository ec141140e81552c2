"""Caps of power domains in replays: a job whose peak does not fit waits; no state ever draws more than a cap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import TraceFormatError
from scheduler.power_caps import power_caps
from simulator.history import run_history
from simulator.job_record import JobRecord
from simulator.power_file import NodeWatts, PowerSettings
from simulator.replay import Replay, prepare
from simulator.replay_settings import ReplaySettings
from simulator.results import replayed_power
from simulator.site_power import node_watts
from simulator.traces import JobTrace
from tests.case_counts import examples
from tests.simulator.feeds import fed_racks

POWER = PowerSettings(watts=NodeWatts(10_000.0, 5_000.0, 1_000.0))
# a feed of four nodes, three of which may be at their peak: 3 x 10 + 1 kW
THREE = replace(POWER, cap_watts=31_000.0)


def replayed(power: PowerSettings | None, *gangs: tuple[float, float, int], policy: str = "fifo") -> Replay:
    """A finished run of gangs: submission, duration, nodes."""
    records = [JobRecord(f"j{i}", at, lasts, 8.0 * nodes, nodes=nodes) for i, (at, lasts, nodes) in enumerate(gangs)]
    settings = ReplaySettings(policy=policy, power=power)
    run = prepare(JobTrace(tuple(records), {}, source="jobs.csv"), fed_racks(), settings)
    run.engine.run()
    return run


def test_a_job_without_power_waits() -> None:
    """Six nodes of two gangs are all that the feeds have power for: the third waits until the first is over."""
    gangs = ((0.0, 100.0, 4), (0.0, 300.0, 2), (10.0, 50.0, 2))
    starts = [job.first_start for job in replayed(THREE, *gangs).engine.jobs]
    assert starts == [0.0, 0.0, 100.0]
    assert [job.first_start for job in replayed(POWER, *gangs).engine.jobs] == [0.0, 0.0, 10.0]


def test_a_gang_is_spread_over_feeds() -> None:
    """Six nodes lie three on each feed, where the network alone would fill a minipod with four first."""
    run = replayed(THREE, (0.0, 10.0, 6))
    feeds = fed_racks().level("@power").domain_of[list(run.engine.jobs[0].places)]
    assert np.bincount(feeds).tolist() == [3, 3]


def test_a_job_that_no_cap_lets_run() -> None:
    """Seven nodes need more than the caps ever give: refused before the run, as what the cluster cannot hold is."""
    with pytest.raises(TraceFormatError, match="power cap") as caught:
        replayed(THREE, (0.0, 10.0, 7))
    assert "raise the caps" in caught.value.fix


@examples(40)
@given(
    st.lists(st.tuples(st.floats(0.0, 50.0), st.floats(1.0, 60.0), st.integers(1, 4)), min_size=1, max_size=8),
    st.sampled_from(["fifo", "fifo-backfill", "priority-age"]),
)
def test_no_instant_above_a_cap(gangs: list[tuple[float, float, int]], policy: str) -> None:
    """Every job ends, and at each start the peaks of what runs on a feed are within its cap."""
    run = replayed(THREE, *sorted(gangs), policy=policy)
    engine, level = run.engine, run.cluster.level("@power")
    assert engine.completed == len(gangs)
    for at in (job.first_start for job in engine.jobs):
        held = [node for job in engine.jobs if job.first_start <= at < job.end for node in job.places]
        assert np.bincount(level.domain_of[held], minlength=len(level)).max() <= 3


def test_what_is_admitted() -> None:
    """Of four candidates on a feed with power for two stay those of the minipod that has most candidates."""
    cluster, idle = fed_racks(), node_watts(fed_racks(), POWER)[0]
    caps = power_caps(cluster.level("@power"), each=None, named={"feed0": 4 * 1_000.0 + 2 * 9_000.0})
    more = np.full(8, 9_000.0)
    candidates = np.ones(8, dtype=np.bool_)
    candidates[2] = False  # the first minipod has three candidates
    admitted = caps.admitted(cluster, candidates, more, idle)
    assert np.flatnonzero(admitted).tolist() == [3, 4, 5, 6, 7]
    assert caps.admitted(cluster, admitted, more, idle) is admitted


def test_power_of_a_replay() -> None:
    """Around the most GPUs held: 6 nodes swing by 5 kW each, and a start from idle is no larger than their peak."""
    run = replayed(POWER, (0.0, 600.0, 4), (100.0, 100.0, 2))
    moments = replayed_power(run_history(run.engine, run.log, run.places), POWER, seed=0)
    assert [(one.moment, one.domain) for one in moments[:1]] == [("most GPUs held", "site")]
    assert [one.seconds for one in moments] == [100.0, 100.0, 0.0, 0.0]
    first = moments[0].figures
    # 2 nodes idle; the others between communication of four, before the second starts, and the peak of six
    assert first.peak_megawatts <= (6 * 10 + 2 * 1) / 1e3 + 1e-9
    assert first.peak_megawatts - first.swing_megawatts == pytest.approx((4 * 5 + 4 * 1) / 1e3)
