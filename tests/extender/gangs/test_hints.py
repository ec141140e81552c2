"""What pods say for queue policies: durations, and whether they may be stopped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.gangs.annotations import hints_of, parse_duration
from extender.gangs.types import InvalidGang
from extender.plans.gang_plan import PlanPhase
from tests.case_counts import examples
from tests.extender.things import gang_of, gang_pods, minipods, plan_all, pod, state_of
from tests.facts import says

LENGTH, STOP = "arnold.dev/expected-duration", "arnold.dev/preemptible"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("36h", 129_600),
        ("1h30m", 5_400),
        ("1.5h", 5_400),
        (" 90m ", 5_400),
        ("5400", 5_400),
        ("5400.5", 5_400.5),
        ("300ms", 0.3),
        (".5s", 0.5),
        ("1h0m1s", 3_601),
        ("2\u00b5s", 2e-6),
    ],
)
def test_durations_are_gos_or_seconds(text: str, seconds: float) -> None:
    """Hours, minutes, seconds and their parts, as ``time.ParseDuration`` reads them; a number alone is seconds."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "soon", "1h" + 99 * " " + "x", "2 hours", "-1h", "1d", "h", "1h30", "0", "0s", "1e9", "inf", "\u0663h"]
)
def test_what_is_no_duration_is_said_to_be_none(text: str) -> None:
    """With what to write instead; a job of no length is none either."""
    with pytest.raises(InvalidGang, match="is no duration") as caught:
        parse_duration(text)
    assert (caught.value.reason, caught.value.where) == ("BadDuration", LENGTH)
    assert "36h" in caught.value.fix


@given(st.text(max_size=30))
@examples(100)
def test_any_text_is_a_number_or_a_mistake(text: str) -> None:
    """Whatever users write."""
    hints = hints_of([pod("a", annotations={LENGTH: text})])
    assert (hints.seconds is None) is (not text or bool(hints.doubts))
    assert hints.seconds is None or 0 < hints.seconds < 1e17


def test_a_gang_runs_as_long_as_its_longest_pod_says() -> None:
    """Pods that say nothing agree, as with all annotations; a mistake of one leaves the word of the others."""
    pods = [pod("a", annotations={LENGTH: "1h"}), pod("b", annotations={LENGTH: "2h"}), pod("c")]
    assert hints_of(pods).seconds == 7_200
    hints = hints_of([*pods, pod("d", annotations={LENGTH: "long"})])
    assert (hints.seconds, [doubt.reason for doubt in hints.doubts]) == (7_200, ["BadDuration"])


def test_only_a_gang_of_which_all_pods_may_be_stopped_may_be() -> None:
    """One that does not say so, or not clearly, keeps the others: a gang stops whole or not at all."""
    yes, no, odd = pod("a", annotations={STOP: "true"}), pod("b"), pod("c", annotations={STOP: "yes"})
    assert hints_of([yes]).preemptible
    assert not hints_of([yes, no]).preemptible
    hints = hints_of([yes, odd])
    assert (hints.preemptible, hints.doubts[0].reason) == (False, "BadPreemptible")


def test_a_hint_that_cannot_be_read_is_a_warning() -> None:
    """The gang is placed all the same, and its plan says what is not understood; once mended, that it is."""
    state = state_of(minipods(4), gang_pods("g", 2, {LENGTH: "2 hours"}))
    plan = plan_all(state)["g"].plan
    told = plan.condition("HintsRead")
    assert told is not None
    assert (plan.phase, told.status, told.reason) == ("Planned", "False", "BadDuration")
    assert says(told.message, "'2 hours'", "To fix:", "hours")
    for one in gang_pods("g", 2, {LENGTH: "2h"}):
        state.put_pod(one)
    assert (gang_of(state, "g").seconds, gang_of(state, "g").doubts) == (7_200, ())
    state.put_plan(plan.replace(phase=PlanPhase.QUEUED, nodes=()))
    mended = plan_all(state)["g"].plan.condition("HintsRead")
    assert mended is not None
    assert mended.status == "True"
