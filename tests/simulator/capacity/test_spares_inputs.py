"""Inputs of the question of spares: sources by name, numbers, ranges, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput, UnknownName
from simulator.capacity.question import HIGH, LOW, MEDIAN, UncertainInput
from simulator.capacity.spares import PUBLISHED, REPAIR, RESTART, failures_input, repair_input, restart_input
from simulator.failures.rates import RATES, parse_restart
from tests.case_counts import examples


@pytest.mark.parametrize("name", sorted(RATES))
def test_one_source_alone_is_certain(name: str) -> None:
    """Its rate at every draw, whatever the case of its name, and its source is said."""
    found = failures_input(f" {name.upper()} ")
    assert found.certain
    assert found.quantile(MEDIAN) == pytest.approx(RATES[name].per_thousand_node_days)
    assert found.source == RATES[name].source


def test_all_sources_together_are_a_range() -> None:
    """The published rates lie around it: its P10 is not below half of the least, its P90 not above twice the most."""
    found, rates = failures_input(PUBLISHED), [rate.per_thousand_node_days for rate in RATES.values()]
    assert not found.certain
    assert min(rates) / 2 <= found.quantile(LOW) < found.quantile(MEDIAN) < found.quantile(HIGH) <= 2 * max(rates)
    assert all(name in found.source for name in RATES)


@examples(24)
@given(low=st.floats(0.1, 50.0), times=st.floats(1.5, 9.0))
def test_a_range_is_from_p10_to_p90(low: float, times: float) -> None:
    """Its ends are the percentiles, and the median of a log-normal is their geometric mean."""
    high = low * times
    for make in (failures_input, repair_input):
        found = make(f"{low:.6f}..{high:.6f}")
        assert (found.quantile(LOW), found.quantile(HIGH)) == pytest.approx((low, high), rel=1e-4)
        assert found.quantile(MEDIAN) == pytest.approx((low * high) ** 0.5, rel=1e-4)


@pytest.mark.parametrize(("gpus", "name"), [(8, "hot-update"), (8, "requeue"), (16_384, "requeue")])
def test_ways_to_restart(gpus: int, name: str) -> None:
    """As measured there, for a job of so many GPUs."""
    found = restart_input(name, gpus=gpus)
    assert found.certain
    assert found.quantile(MEDIAN) == pytest.approx(parse_restart(name).mean_seconds(gpus=gpus))
    assert found.source == f"ByteRobust's {name}"


def test_what_was_assumed_is_said() -> None:
    """Of the defaults the source says so, of own numbers that they are given."""
    assert repair_input(REPAIR).source == "assumed: no publication says"
    assert repair_input("24").source == "given"
    assert "ByteRobust" in restart_input(RESTART, gpus=8).source
    assert restart_input("300", gpus=8).source == "given"


@pytest.mark.parametrize(
    ("make", "text", "error", "words"),
    [
        (failures_input, "rsc-9", UnknownName, PUBLISHED),
        (failures_input, "2..1", InvalidInput, "--failures"),
        (failures_input, "1..1e9", InvalidInput, "--failures"),
        (repair_input, "0", InvalidInput, "--repair-hours"),
        (repair_input, "1e9", InvalidInput, "--repair-hours"),
        (lambda text: restart_input(text, gpus=8), "5..1", InvalidInput, "--restart"),
        (lambda text: restart_input(text, gpus=8), "reboot", InvalidInput, "--restart"),
    ],
)
def test_what_is_no_input(make: Callable[[str], UncertainInput], text: str, error: type[Exception], words: str) -> None:
    """The error names the option, or what there is."""
    with pytest.raises(error, match=words):
        make(text)
