"""What is stored of gangs that ended: small, counted once, and believed only where it can be true."""

from __future__ import annotations

import tracemalloc
from math import log
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.gangs.types import GangKey
from extender.plans import gang_history
from extender.plans.gang_history import (
    LONGEST,
    LONGEST_PATTERN,
    MOST_COUNTED,
    MOST_KINDS,
    MOST_KINDS_KEPT,
    SHORTEST,
    AlikeGangs,
    EndedRun,
    GangHistory,
    GangPredictor,
    decode_history,
    encode_history,
    likeness_of,
    name_pattern,
)
from ground.errors import InvalidInput
from scheduler.queue.run_times import FEWEST, Likeness, Prediction, RunTimes
from tests.extender.things import SPACE, uid


def run(name: str, seconds: float = 60.0, *, gpus: int = 8, plan: str | None = None) -> EndedRun:
    """A gang that ended."""
    return EndedRun(GangKey(SPACE, name), uid(plan or name), gpus, seconds)


def history(*runs: EndedRun) -> GangHistory:
    """The history after some gangs."""
    found = GangHistory(namespace=SPACE)
    for one in runs:
        found = found.learnt(one)
    return found


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("llm", "llm"),
        ("llm-7", "llm-#"),
        ("llm-12", "llm-#"),
        ("llm-20b-run17.v2", "llm-#b-run#.v#"),
        # what generateName appends, and the hash of a commit; words of five letters have vowels
        ("llm-x7k2p", "llm-#"),
        ("llm-bcdfg-worker", "llm-#-worker"),
        ("llm-5d41402abc4b", "llm-#"),
        ("llm-small", "llm-small"),
        ("llm-deadbeef", "llm-deadbeef"),
        ("bcdfg", "bcdfg"),
        ("", ""),
    ],
)
def test_names_that_differ_by_numbers_are_alike(name: str, pattern: str) -> None:
    """Numbers and made-up ends become one sign."""
    assert name_pattern(name) == pattern
    assert likeness_of(GangKey("team", name), 96) == Likeness("team", pattern, 96)


@given(st.text(max_size=300))
def test_a_pattern_is_short_whatever_users_write(name: str) -> None:
    """At most 63 bytes, without a digit."""
    pattern = name_pattern(name)
    assert len(pattern.encode("utf-8", "replace")) <= LONGEST_PATTERN
    assert not set(pattern) & set("0123456789")


RUNS = st.lists(
    st.builds(run, st.text(max_size=80), st.floats(-1e9, 1e12, allow_nan=False), gpus=st.integers(0, 10**7)),
    max_size=30,
)


@given(RUNS)
def test_it_comes_back_from_the_api_server_bit_for_bit(runs: list[EndedRun]) -> None:
    """Whatever gangs were called and however wrong clocks were, what is written can be read, and says the same."""
    made = history(*runs)
    document = msgspec.json.encode(encode_history(made.replace(uid="u", resource_version="7")))
    assert decode_history(document) == made.replace(uid="u", resource_version="7")
    for one in made.kinds:
        assert SHORTEST * (1 - 1e-9) <= one.run_times.seconds <= LONGEST * (1 + 1e-9)


def test_a_gang_is_counted_once() -> None:
    """Its plan is known by its UID: one that is counted again after a crash changes nothing, a namesake's does."""
    once = history(run("llm-1", 100.0))
    assert once.learnt(run("llm-1", 100.0)) is once
    again = once.learnt(run("llm-1", 300.0, plan="another"))
    assert [(one.pattern, one.run_times.jobs, one.run_times.seconds) for one in again.kinds] == [("llm-#", 2, 200.0)]


def test_it_does_not_grow_for_ever() -> None:
    """Of many kinds the ones of which a gang ended last stay, of many plans the last; etcd takes 1.5 MB."""
    # letters that make no number and no made-up end
    names = [f"{'y' * 40}{chr(0x4E00 + i)}" for i in range(MOST_KINDS + 10)]
    found = history(*(run(name) for name in names))
    found = found.learnt(run(names[20], plan="late")).learnt(run("new"))
    assert len(found.kinds) == MOST_KINDS
    assert [one.pattern for one in found.kinds[-2:]] == [name_pattern(names[20]), "new"]
    # ten were too many, and "new" took the place of one more
    assert found.kinds[0].pattern == name_pattern(names[11])
    found = found.replace(counted=tuple(uid(str(i)) for i in range(MOST_COUNTED))).learnt(run("last"))
    assert (len(found.counted), found.counted[-2:]) == (MOST_COUNTED, (uid(str(MOST_COUNTED - 1)), uid("last")))
    assert len(msgspec.json.encode(encode_history(found))) < 150_000


def document(**sums: Any) -> dict[str, Any]:
    """A history with one kind of gangs whose sums are those, as somebody may have written it."""
    run_times = {"jobs": 5, "seconds": 60.0, "logs": 4.0, "squares": 1.0} | sums
    kinds = [{"pattern": "llm-#", "gpus": 8, "runTimes": run_times}]
    return {"metadata": {"name": "arnold", "namespace": SPACE}, "spec": {"kinds": kinds, "counted": []}}


@pytest.mark.parametrize(
    "sums",
    [
        {"jobs": 0},
        {"jobs": -5},
        {"jobs": "5"},
        {"seconds": -1.0},
        {"seconds": 1e300},
        {"logs": 700.0},
        {"squares": -1.0},
        {"squares": 1e300},
        {"squares": None},
    ],
)
def test_forged_sums_are_refused(sums: dict[str, Any]) -> None:
    """Numbers that no gangs can have made never reach the queue."""
    decode_history(document())
    with pytest.raises(InvalidInput, match="GangHistory cannot be read") as error:
        decode_history(document(**sums))
    assert error.value.where == f"{SPACE}/arnold"


def test_other_forgeries_are_refused() -> None:
    """Another name, a pattern that is too long, more kinds than there can be, no JSON at all."""
    other = document()
    other["metadata"]["name"] = "mine"
    long = document()
    long["spec"]["kinds"][0]["pattern"] = "x" * (LONGEST_PATTERN + 1)
    many = document()
    many["spec"]["kinds"] *= MOST_KINDS + 1
    for forged in (other, long, many, b"{", b"[]", b'{"metadata": {}}'):
        with pytest.raises(InvalidInput, match="GangHistory cannot be read"):
            decode_history(forged)


def test_foreseeing_needs_five_and_asks_the_most_alike() -> None:
    """Of the namespace, pattern and size first; other namespaces are asked where one's own has too few."""
    predictor, asked = GangPredictor(), Likeness(SPACE, "llm-#", 8)
    mine = history(*(run(f"llm-{i}", 100.0) for i in range(FEWEST - 1)))
    predictor.put(mine)
    assert predictor.predict(asked) is None
    theirs = history(*(run(f"llm-{i}", 400.0) for i in range(FEWEST))).replace(namespace="others")
    predictor.put(theirs)
    found = predictor.predict(asked)
    # 4 of 100 s and 5 of 400 s
    assert found is not None
    assert (found.seconds, found.jobs) == (pytest.approx(2400 / 9), 9)
    predictor.put(mine.learnt(run("llm-9", 100.0)))
    own = predictor.predict(asked)
    assert own is not None
    assert (own.seconds, own.jobs) == (pytest.approx(100.0), FEWEST)
    predictor.drop("others")
    predictor.drop(SPACE)
    assert predictor.predict(asked) is None


def full(namespace: str, kinds: int, *, jobs: int = FEWEST, seconds: float = 60.0) -> GangHistory:
    """A namespace with so many kinds of gangs, each of which so many ended."""
    times = RunTimes(jobs, seconds, log(seconds))
    made = tuple(AlikeGangs(pattern=f"{namespace}-{i}", gpus=8, run_times=times) for i in range(kinds))
    return GangHistory(namespace=namespace, kinds=made)


def test_many_namespaces_take_no_more_room_than_some() -> None:
    """78 full ones are all that is kept sums of, 20,000 kinds; with four times as many no more memory is taken."""
    stored = [full(f"n{i:03}", MOST_KINDS) for i in range(4 * (MOST_KINDS_KEPT // MOST_KINDS + 1))]

    def taken(histories: list[GangHistory]) -> int:
        tracemalloc.start()
        predictor = GangPredictor()
        for one in histories:
            predictor.put(one)
        assert predictor.predict(Likeness("new", "llm-#", 8)) is not None
        bytes_taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return bytes_taken

    some, many = taken(stored[: len(stored) // 4]), taken(stored)
    assert some < 40e6
    assert many < 1.1 * some


def test_a_namespace_always_knows_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for 40 kinds, two namespaces of 20: those of which most gangs ended tell about others; one's own does too,
    whatever it is.
    """
    monkeypatch.setattr(gang_history, "MOST_KINDS_KEPT", 40)
    predictor = GangPredictor()
    for name, jobs, seconds in (("a", 5, 10.0), ("b", 7, 20.0), ("c", 6, 40.0)):
        predictor.put(full(name, 1, jobs=jobs, seconds=seconds))
    stranger = predictor.predict(Likeness("new", "other", 8))
    # 7 of 20 s and 6 of 40 s
    assert stranger is not None
    assert (stranger.seconds, stranger.jobs) == (pytest.approx(380 / 13), 13)
    own = predictor.predict(Likeness("a", "a-0", 8))
    assert own is not None
    assert (own.seconds, own.jobs) == (pytest.approx(10.0), 5)
    # its own 5 of 10 s beside the others
    new_kind = predictor.predict(Likeness("a", "other", 8))
    assert new_kind is not None
    assert (new_kind.seconds, new_kind.jobs) == (pytest.approx(430 / 18), 18)
    predictor.drop("b")
    left = predictor.predict(Likeness("new", "other", 8))
    assert left is not None
    assert left.jobs == 11


@pytest.mark.parametrize("room", [MOST_KINDS_KEPT, 60])
@given(order=st.permutations(range(4)))
def test_it_does_not_matter_in_which_order_namespaces_are_heard_of(order: list[int], room: int) -> None:
    """A replica that starts hears of them in another order than one that was there; they foresee the same bits, also
    where there is room for three of the four.
    """
    stored = [
        history(*(run(f"llm-{i}", 10.0 + 7.1 * i * (number + 1)) for i in range(3))).replace(namespace=f"n{number}")
        for number in range(4)
    ]

    def foreseen(histories: list[GangHistory]) -> Prediction | None:
        predictor = GangPredictor()
        for one in histories:
            predictor.put(one)
        with patch.object(gang_history, "MOST_KINDS_KEPT", room):
            return predictor.predict(Likeness("new", "llm-#", 8))

    found = foreseen([stored[number] for number in order])
    assert found == foreseen(stored)
    assert found is not None
    assert found.jobs == (12 if room == MOST_KINDS_KEPT else 9)
