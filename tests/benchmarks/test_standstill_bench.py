"""The simulated week of `benchmarks standstill`: a gang whose nodes hang and crash for some hours."""

from __future__ import annotations

from unittest.mock import patch

from benchmarks import standstill
from benchmarks.standstill import measure
from simulator.failures.rates import FailureRate

OFTEN = FailureRate("often", 1_000.0, "made")


def test_hours_of_faults_on_few_nodes() -> None:
    """Of 16 nodes one fails in an hour and a half: hangs are seen after the patience and a look at most, each has its
    whole chain, and no healthy node is flagged; without the time from hang to help nothing else is lost than was said.
    """
    few = {"NODES_OF_GANG": 16, "SPARES": 8, "GRID": "tp=8,pp=2,dp=8"}
    with patch.multiple(standstill, **few), patch.dict("simulator.failures.rates.RATES", {"llama3": OFTEN}):
        week = measure(180.0, days=0.25, seed=3)
    assert week.faults["hang"] >= 2
    assert len(week.seen) + week.withheld == week.faults["hang"]
    # a look is a fifth of the patience, a sample a twentieth
    assert all(seconds + 9.0 >= 180.0 and seconds <= 180.0 * 1.25 for seconds in week.seen), week.seen
    assert (week.chains, week.wrong) == (len(week.seen), 0)
    assert 0.0 < week.ettr < 1.0
