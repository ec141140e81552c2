"""When a finding becomes a flag and when a flag ends: the numbers, and how people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from ground.files import Source
from ground.records import json_data, read_json
from health.flags.rules import LONGEST, Rule, Rules, parse_duration, read_rules
from tests.case_counts import examples


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("12h", 43_200), ("1.5d", 129_600), (" 2 w", 1_209_600)]
)
def test_durations(text: str, seconds: int) -> None:
    """A number and a unit."""
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "0s", "-1h", "1y", "1e3s", "99999999w", "nan s"])
def test_no_durations(text: str) -> None:
    """Anything else, nothing at all, and more than ten years."""
    with pytest.raises(ValueError, match="no time such as"):
        parse_duration(text)


def test_each_relapse_doubles_the_quiet_time() -> None:
    """A day, two, four, eight; then two weeks and no more, however often."""
    rule = Rule()
    assert [rule.quiet_after(n).days for n in (0, 1, 2, 3, 4, 5, 10_000)] == [1, 2, 4, 8, 14, 14, 14]
    assert rule.all_clear_after(2) == timedelta(hours=2)


def test_a_quiet_time_longer_than_the_longest_stays() -> None:
    """``longest`` bounds what relapses add, not what was asked for; and an all-clear never makes it longer."""
    rule = Rule(quiet=timedelta(days=30), all_clear=timedelta(days=60))
    assert rule.quiet_after(3) == timedelta(days=30)
    assert rule.all_clear_after(0) == timedelta(days=30)


@examples(50)
@given(st.floats(1e-3, LONGEST.total_seconds()), st.integers(0, 10**6))
def test_times_stay_dates(quiet: float, relapses: int) -> None:
    """Whatever the rule and however often a node relapses."""
    rule = Rule(quiet=timedelta(seconds=quiet), longest=LONGEST)
    assert timedelta(0) < rule.all_clear_after(relapses) <= rule.quiet_after(relapses) <= LONGEST


def test_rules_survive_the_store() -> None:
    """What is written there is read again."""
    rules = Rules(Rule(raise_after=3, score=0.5), {"peers": Rule(quiet=timedelta(minutes=90))})
    assert read_json(Rules, json_data(Rules, rules)) == rules


def test_a_rules_file() -> None:
    """What is said for all holds for a source too, unless it says otherwise; the rest is the default."""
    rules = read_rules(Source("rules", "raise_after: 2\nquiet: 6h\nsources:\n  peers: {raise_after: 3, score: 4.5}\n"))
    assert (rules.of("other").raise_after, rules.of("other").quiet) == (2, timedelta(hours=6))
    assert (rules.of("peers").raise_after, rules.of("peers").score) == (3, 4.5)
    assert rules.of("peers").quiet == timedelta(hours=6)
    assert rules.of("peers").memory == Rule().memory


@pytest.mark.parametrize(
    ("text", "complaint", "where"),
    [
        ("quiet: 5", "write a time such as", "rules:1"),
        ("raise_after: 2\nquiet: soon", "no time such as", "rules:2"),
        ("raise_after: 0", "greater than or equal to 1", "rules:1"),
        ("raise_after: 101", "less than or equal to 100", "rules:1"),
        ("quite: 1h", "unknown key 'quite'", "rules:1"),
        ("sources:\n  peers: {score: .nan}", "finite number", "rules:2"),
        ("- quiet: 1h", "keys with values", "rules:1"),
    ],
)
def test_bad_rules_files(text: str, complaint: str, where: str) -> None:
    """With the line."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read_rules(Source("rules", text))
    assert caught.value.where == where
