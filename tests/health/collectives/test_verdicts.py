"""What a diagnosis says: the sentence for people, the flags for the scheduler, and why there are none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from health.collectives.diagnosis import (
    CAUSES,
    PROGRAM,
    Cause,
    Certainty,
    Culprit,
    Diagnosis,
    Status,
    diagnose_snapshot,
    verdict,
)
from health.collectives.flagging import HOLD, KINDS, flags_of, nodes_of, withheld
from health.collectives.recording import Member, RankGroup
from health.collectives.stalls import Snapshot
from tests.facts import says
from topology.flags import FAULTY, WARNING

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
MEMBERS = tuple(Member(f"rank {i}", i, None if i == 5 else f"n{i // 2}") for i in range(8))
"""Two ranks on a node; where rank 5 is is not recorded."""
ALL_CAUSES: tuple[Cause, ...] = get_args(Cause)
CERTAINTIES: tuple[Certainty, ...] = get_args(Certainty)

DIAGNOSES = st.builds(
    lambda status, cause, culprits, settled, groups, since: Diagnosis(
        MEMBERS,
        tuple(RankGroup(f"g{i}", "", (0, 1)) for i in range(6)),
        status,
        cause if status != "healthy" else "none",
        tuple(culprits) if status != "healthy" else (),
        tuple(range(groups)),
        settled=settled,
        since=since,
    ),
    st.sampled_from(get_args(Status)),
    st.sampled_from(ALL_CAUSES),
    st.lists(
        st.builds(Culprit, st.integers(0, 7), st.sampled_from(CERTAINTIES), st.none() | st.floats(0.5, 9)), max_size=7
    ).map(lambda found: sorted(found, key=lambda one: CERTAINTIES.index(one.certainty))),
    st.booleans(),
    st.integers(0, 6),
    st.none() | st.floats(1e9, 2e9),
)


@given(DIAGNOSES)
def test_only_what_is_certain_and_on_a_known_node_is_flagged(found: Diagnosis) -> None:
    """One flag for each node of a certain culprit, of the kind that the cause has, for a day from when it was seen."""
    nodes = nodes_of(found.members)
    flags = flags_of(found, nodes, now=NOW)
    certain = [culprit for culprit in found.culprits if culprit.certainty == "certain" and culprit.member != 5]
    expected = {f"n{culprit.member // 2}" for culprit in certain} if found.cause in KINDS else set()
    assert {flag.node for flag in flags} == expected
    assert len(flags) == len(expected)
    since = NOW if found.since is None else datetime.fromtimestamp(found.since, UTC)
    for flag in flags:
        first = next(one for one in certain if f"n{one.member // 2}" == flag.node)
        # evidence about a process is a small price, unless both ranks of the node are gone
        gone = {one.member for one in found.culprits} >= {first.member, first.member ^ 1}
        process = found.cause == "not-launched" or (found.cause == "unreachable" and not gone)
        kind = "degraded" if process else KINDS[found.cause]
        assert (flag.kind, flag.since, flag.until) == (kind, since, since + HOLD)
        assert (flag.rank is not None) == process
        price = WARNING if process or first.factor is None else max(1.0, first.factor)
        assert flag.slowdown == (FAULTY if flag.kind == "faulty" else price)
        assert flag.evidence.startswith(f"rank {first.member}: {CAUSES[found.cause]}")


@given(DIAGNOSES)
def test_a_reason_is_given_exactly_where_something_is_wrong_and_no_culprit_is_certain(found: Diagnosis) -> None:
    """A healthy job needs none, nor one whose surest culprit is certain, settled, on a node and not the program's."""
    nodes = nodes_of(found.members)
    clear = (
        found.certainty == "certain"
        and found.settled
        and found.cause not in PROGRAM
        and any(one.member in nodes for one in found.culprits)
    )
    assert bool(withheld(found, nodes)) == (found.status != "healthy" and not clear)


@given(DIAGNOSES)
def test_a_verdict_names_each_culprit_or_says_that_none_can_be(found: Diagnosis) -> None:
    """Up to four names are written out, of more the number; the cause is always said; the words are one line."""
    words = verdict(found)
    assert "\n" not in words
    if found.status == "healthy":
        assert words.startswith("No collective stands still" if found.settled else "Nothing shows")
        return
    assert CAUSES[found.cause] in words
    assert ("no rank can be named" in words) == (not found.culprits)
    for one in found.culprits[:4]:
        assert f"rank {one.member}" in words
    if len(found.culprits) > 4:
        assert f"{len(found.culprits) - 4} more" in words
    assert ("first in g0" in words) == bool(found.groups)
    assert ("to blame is" in words) == (found.settled and bool(found.culprits))


def test_every_cause_has_words_and_those_of_a_node_a_kind() -> None:
    """No cause is without a sentence; what is the program's, or not known, points at no node."""
    assert set(CAUSES) == set(ALL_CAUSES)
    assert set(ALL_CAUSES) - set(KINDS) == {"none", *PROGRAM, "late", "no-record", "unknown"}


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([0], "rank 0 on n0"),
        ([0, 3], "rank 0 on n0 or rank 3 on n1"),
        ([5], "rank 5:"),
        ([0, 1, 2, 3, 4, 5], "rank 0 on n0, rank 1 on n0, rank 2 on n1, rank 3 on n1 or 2 more"),
    ],
)
def test_places_are_said_with_their_hosts(names: list[int], words: str) -> None:
    """A rank with its host, if that is known; the last of several after "or", as only some of them are at fault."""
    culprits = tuple(Culprit(member, "possible") for member in names)
    assert words in verdict(Diagnosis(MEMBERS, (), "failure", "not-launched", culprits))


def test_each_rank_is_told_its_own_cause_and_doubt() -> None:
    """Rank 2 stands in what others have completed; rank 4 left no record, which is less sure: nothing else is said."""
    behind = Culprit(2, "certain", cause="not-completed"), Culprit(4, "likely", cause="no-record")
    found = Diagnosis(MEMBERS, (), "failure", "not-completed", behind)
    of_two, of_four = verdict(found).split("; ")[-2:]
    assert says(of_two, "rank 2 on n1", CAUSES["not-completed"])
    assert says(of_four, "likely rank 4 on n2", CAUSES["no-record"])
    assert "rank 4" not in of_two
    gone = Culprit(2, "certain", cause="not-completed"), Culprit(0, "certain", cause="unreachable")
    flags = flags_of(Diagnosis(MEMBERS, (), "failure", "not-completed", gone), nodes_of(MEMBERS), now=NOW)
    assert [flag.evidence.partition(": ")[2] for flag in flags] == [CAUSES["not-completed"], CAUSES["unreachable"]]


def test_all_that_are_unreachable_are_at_fault() -> None:
    """Of dead members each one is: they are joined by "and"."""
    dead = tuple(Culprit(member, "certain") for member in (0, 2))
    assert "rank 0 on n0 and rank 2 on n1" in verdict(Diagnosis(MEMBERS, (), "failure", "unreachable", dead))


@given(st.sets(st.integers(0, 7), min_size=1, max_size=4))
def test_the_dead_are_certain_on_one_known_host_alone(gone: set[int]) -> None:
    """Members that answer no more: on one host it is that host; on several, or unknown ones, it may be the network."""
    groups = (RankGroup("low", "", (0, 1, 2, 3)), RankGroup("high", "", (4, 5, 6, 7)))
    found = diagnose_snapshot(Snapshot(MEMBERS, groups, (), gone=frozenset(gone)), ["a note"])
    hosts = {MEMBERS[member].host for member in gone}
    sure = "certain" if len(hosts) == 1 and None not in hosts else "likely"
    assert [(one.member, one.certainty) for one in found.culprits] == [(member, sure) for member in sorted(gone)]
    assert (found.status, found.cause, found.notes) == ("failure", "unreachable", ("a note",))
    assert found.groups == tuple(i for i, group in enumerate(groups) if gone & set(group.members))


def test_a_flag_lasts_a_day_from_when_the_culprit_was_named() -> None:
    """Named an hour after all was well: 25 hours from then."""
    named = Diagnosis(MEMBERS, (), "failure", "not-launched", (Culprit(0, "certain"),), since=1e9, localised=1e9 + 3600)
    (flag,) = flags_of(named, {0: "n0"}, now=NOW)
    assert flag.until is not None
    assert flag.since is not None
    assert flag.until - flag.since == HOLD + timedelta(hours=1)
