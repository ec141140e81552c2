"""Published rates and mixes: what the sources say, by arithmetic."""

from __future__ import annotations

import pytest

from ground.errors import InvalidInput, UnknownName
from ground.quantities import HOUR
from simulator.failures.rates import MEASURED_MTTF_HOURS, MIXES, RATES, failure_mix, failure_rate, mttf
from tests.facts import saying


def test_published_rates() -> None:
    """Per 1,000 node-days as published; that of Llama 3 follows from 419 failures in 54 days of 2,048 nodes: 3.79."""
    assert RATES["rsc-1"].per_thousand_node_days == 6.50
    assert RATES["rsc-2"].per_thousand_node_days == 2.34
    assert RATES["llama3"].per_thousand_node_days == pytest.approx(3.79, abs=0.005)
    assert RATES["byterobust"].per_thousand_node_days == 1.2


def test_mean_time_to_failure() -> None:
    """1 / (N r): 128 nodes at 6.5e-3 a day fail every 1.202 days, 28.8 hours, where 7.9 were measured."""
    assert mttf(RATES["rsc-1"], 128) / HOUR == pytest.approx(24.0 / (128 * 6.5e-3))
    assert mttf(RATES["rsc-1"], 128) / HOUR == pytest.approx(28.8, abs=0.05)
    assert MEASURED_MTTF_HOURS == 7.9
    assert mttf(failure_rate("0"), 128) == float("inf")


def test_a_rate_by_name_or_number() -> None:
    """Names of any case, and numbers per 1,000 node-days."""
    assert failure_rate(" RSC-1 ") is RATES["rsc-1"]
    assert failure_rate("6.5").per_node_day == pytest.approx(6.5e-3)
    assert failure_rate("6.5").source == "given"


@pytest.mark.parametrize("text", ["rsc1", "", "-3", "nan", "inf", "1e999"])
def test_no_rate(text: str) -> None:
    """Words that are no name and no number are refused with the names that exist."""
    with pytest.raises(UnknownName, match="rsc-1"):
        failure_rate(text)


def test_a_rate_beyond_every_day() -> None:
    """More than a failure per node and day is a slip of the unit."""
    with pytest.raises(InvalidInput, match=saying("one per node and day")):
        failure_rate("6500")


def test_the_mix_of_llama3_is_complete() -> None:
    """Table 5 lists 419 unexpected interruptions; 148 of them are faulty GPUs and 72 their memory."""
    mix = failure_mix("llama3")
    assert mix.total == 419
    assert {kind.name: kind.count for kind in mix.kinds}["faulty GPU"] == 148
    # 54 software bugs, 32 maintenance, 7 watchdog timeouts and 2 dependencies leave 324 of 419 for hardware.
    assert sum(kind.count for kind in mix.kinds if kind.hardware) == 324


def test_the_mix_of_byterobust_leaves_out_what_no_node_explains() -> None:
    """Hangs dominate; user code and shared storage are not there."""
    mix = MIXES["byterobust"]
    hangs = sum(kind.count for kind in mix.kinds if kind.symptom == "hang")
    assert (hangs, mix.total) == (5506, 5506 + 1599 + 203 + 188 + 76 + 47)
    assert not {"CUDA error", "HDFS", "code or data change"} & {kind.name for kind in mix.kinds}


def test_no_mix_of_that_name() -> None:
    """The error names those that exist."""
    with pytest.raises(UnknownName, match="llama3, byterobust"):
        failure_mix("lama")
