"""Groups that wait for one another: the first one stuck is found, its victims are not blamed."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from health.collectives.diagnosis import diagnose_snapshot
from health.collectives.recording import Member, RankGroup
from health.collectives.stalls import Mismatch, Snapshot, Stall, find_roots
from tests.case_counts import examples
from tests.facts import says

NOBODY: frozenset[int] = frozenset()


def stall(
    group: int, standing: set[int], absent: set[int], passed: Set[int] = NOBODY, behind: Set[int] = NOBODY
) -> Stall:
    """Collective 7 of a group."""
    sets = (frozenset(members) for members in (standing, absent, passed, behind))
    return Stall(group, 7, "AllReduce", next(sets), next(sets), None, *sets)


def snapshot(*stalls: Stall, members: int = 12, **known: object) -> Snapshot:
    """A job with as many groups as stalls; members without records are in all."""
    unseen: frozenset[int] = known.get("unseen", NOBODY)  # type: ignore[assignment]
    groups = tuple(
        RankGroup(f"g{s.group}", "", tuple(sorted(s.standing | s.absent | s.passed | s.behind | unseen)))
        for s in stalls
    )
    made = tuple(Member(f"rank {i}", i, f"n{i}") for i in range(members))
    return Snapshot(made, groups, stalls, **known)  # type: ignore[arg-type]


def test_a_chain_ends_at_the_member_that_came_nowhere() -> None:
    """g0 waits for 3, who stands in g1, which waits for 5, who stands in g2, which waits for 8, who is nowhere."""
    (root,) = find_roots(snapshot(stall(0, {0, 1}, {3}), stall(1, {3, 4}, {5}), stall(2, {5, 6}, {8})))
    assert (root.kind, root.suspects, root.victims) == ("not-launched", (8,), (0, 1))


def test_all_came_and_nothing_moves() -> None:
    """A collective that all launched waits for nobody: the fault is in its transfer."""
    (root,) = find_roots(snapshot(stall(0, {0, 1}, {3}), stall(1, {3, 4, 5}, set())))
    assert (root.kind, root.stalls[0].group, root.victims) == ("transfer", 1, (0,))


def test_a_circle_is_a_crossed_order_and_the_few_crossed_it() -> None:
    """0, 1, 2 wait in g0 for 3; 3 waits in g1 for them: 3 went the other way, and no node is at fault."""
    (root,) = find_roots(snapshot(stall(0, {0, 1, 2}, {3}), stall(1, {3}, {0, 1, 2})))
    assert (root.kind, root.suspects) == ("crossed-order", (3,))
    found = diagnose_snapshot(snapshot(stall(0, {0, 1, 2}, {3}), stall(1, {3}, {0, 1, 2})))
    assert [culprit.certainty for culprit in found.culprits] == ["likely"]


def test_the_one_without_whom_there_is_no_circle() -> None:
    """2 waits for 0, 1 and 3; 0 and 3 wait for 2, and 1 for 3: each stands alone, and all circles go through 2."""
    (root,) = find_roots(snapshot(stall(0, {2}, {0, 1, 3}), stall(1, {0}, {2}), stall(2, {1}, {3}), stall(3, {3}, {2})))
    assert (root.kind, root.suspects) == ("crossed-order", (2,))


def test_a_circle_of_two_names_both() -> None:
    """One against one: either may have crossed."""
    (root,) = find_roots(snapshot(stall(0, {0}, {1}), stall(1, {1}, {0})))
    assert root.suspects == (0, 1)


def test_another_operation_under_the_same_number() -> None:
    """All launched number 7, one as another operation: that one crossed the order inside its group."""
    odd = Mismatch(0, 7, "AllReduce", ((2, "AllGather"),))
    (root,) = find_roots(snapshot(stall(0, {0, 1, 2, 3}, set()), mismatches=(odd,)))
    assert (root.kind, root.suspects) == ("crossed-order", (2,))


def test_who_stands_in_what_the_others_completed_holds_up_the_rest() -> None:
    """g0 waits for 3, who launched it and stands in g1 first, which 4 and 5 have completed: 3 alone is to blame."""
    (root,) = find_roots(snapshot(stall(0, {0, 1}, set(), behind={3}), stall(1, {3}, set(), passed={4, 5})))
    assert (root.kind, root.suspects, root.victims) == ("not-completed", (3,), (0,))


def test_one_of_two_that_stands_in_what_the_other_completed() -> None:
    """In a group of two nobody else can hold it up; with another that it may wait for, nobody is named."""
    (root,) = find_roots(snapshot(stall(0, {0}, set(), passed={1})))
    assert (root.kind, root.suspects) == ("not-completed", (0,))
    (root,) = find_roots(snapshot(stall(0, {0}, set(), passed={1}, behind={2})))
    assert (root.kind, root.suspects) == ("transfer", ())


def test_half_that_stand_are_not_blamed() -> None:
    """As many stand in it as have completed it: a link between the halves may be broken, and nobody is named.  It holds
    up nothing earlier: whoever stood before in what all others have completed is named.
    """
    halves = snapshot(stall(0, {0, 1}, set(), passed={2, 3}))
    (root,) = find_roots(halves)
    assert (root.kind, root.suspects) == ("transfer", ())
    (root,) = find_roots(replace(halves, late=frozenset({1})))
    assert (root.kind, root.suspects) == ("not-completed", (1,))


def test_every_member_that_came_nowhere_is_named() -> None:
    """2 stands in g1, which waits for 4; g0 waits for 2, and for 3, who is nowhere, as 4 is: both are to blame."""
    found = diagnose_snapshot(snapshot(stall(0, {0, 1}, {2, 3}), stall(1, {2}, {4})))
    assert sorted((culprit.member, culprit.cause) for culprit in found.culprits) == [
        (3, "not-launched"),
        (4, "not-launched"),
    ]
    assert found.certainty == "likely"


def test_roots_with_suspects_come_first() -> None:
    """More wait for a transfer that does not move than for the member that never came: it is named all the same."""
    stalls = (stall(0, {0, 1}, set()), stall(1, {2}, {0}), stall(2, {3}, {1}), stall(3, {4}, {5}))
    assert [root.suspects for root in find_roots(snapshot(*stalls))] == [(5,), ()]


def test_what_may_run_at_the_same_time_is_no_crossed_order() -> None:
    """0 and 1 launched both, each stands in another first: on a device both may move, so nobody is named."""
    (root,) = find_roots(snapshot(stall(0, {0}, set(), behind={1}), stall(1, {1}, set(), behind={0})))
    assert (root.kind, root.suspects) == ("transfer", ())


def test_a_member_without_records_in_a_collective_in_which_all_others_are() -> None:
    """0 and 1 stand in g0, of which only 3 is not known: it died, likely; nobody where half of the job is unknown."""
    one = diagnose_snapshot(snapshot(stall(0, {0, 1}, set()), unseen=frozenset({3})))
    assert [(culprit.member, culprit.cause) for culprit in one.culprits] == [(3, "no-record")]
    half = diagnose_snapshot(snapshot(stall(0, {0, 1}, set()), members=4, unseen=frozenset({2, 3})))
    assert half.culprits == ()


def test_who_may_wait_for_another_unseen_is_not_named() -> None:
    """2 and 3 came nowhere, and exchange what is not recorded: one of them waits for the other; 5 is named, alone."""
    stalls = (stall(0, {0}, {2}), stall(1, {1}, {3}), stall(2, {4}, {5}))
    found = diagnose_snapshot(snapshot(*stalls, unrecorded=(frozenset({2, 3}),)))
    assert [culprit.member for culprit in found.culprits] == [5]
    assert says(found.notes, "rank 2 and rank 3", "not recorded")


def test_who_called_alone_what_the_others_did_not() -> None:
    """2 stands alone in g0, for which 0, 1 and 3 have not come; 0 is nowhere, and may receive from 2: it is 2."""
    stalls = (stall(0, {2}, {0, 1, 3}), stall(1, {1}, set(), behind={2}), stall(2, {3}, set(), behind={2}))
    (root,) = find_roots(snapshot(*stalls, unrecorded=(frozenset({0, 2}),)))
    assert (root.kind, root.suspects) == ("crossed-order", (2,))


def test_the_only_one_nowhere_is_named_though_it_exchanges_with_who_waits_for_it() -> None:
    """0, 1 and 2 wait in g0 for 3, which exchanges with 1: that 3 waits for 1 in turn is the lesser guess."""
    (root,) = find_roots(snapshot(stall(0, {0, 1, 2}, {3}), unrecorded=(frozenset({1, 3}),)))
    assert (root.kind, root.suspects) == ("not-launched", (3,))


def test_two_that_stand_nowhere_and_exchange_are_not_told_apart() -> None:
    """0 waits for 2, 1 for 3, and these exchange: the job stands still, and nobody is named."""
    found = diagnose_snapshot(snapshot(stall(0, {0}, {2}), stall(1, {1}, {3}), unrecorded=(frozenset({2, 3}),)))
    assert (found.status, found.culprits, len(found.groups)) == ("failure", (), 2)


def test_whoever_is_busy_elsewhere_is_not_blamed() -> None:
    """The absent member has just completed something: the stall is not its fault, and there is no root."""
    assert find_roots(snapshot(stall(0, {0, 1}, {3}), busy=frozenset({3}))) == []


def test_a_member_without_records_is_never_certain() -> None:
    """There is no dump of rank 3: it looks as if it never came, but nobody knows."""
    found = diagnose_snapshot(snapshot(stall(0, {0, 1}, {3}), unseen=frozenset({3})))
    assert [(culprit.member, culprit.certainty) for culprit in found.culprits] == [(3, "likely")]


def test_dead_members_go_before_everything() -> None:
    """Who is known to be dead is the culprit; two on different hosts may as well be cut off."""
    stalls = (stall(0, {0, 1}, {3}),)
    one = diagnose_snapshot(snapshot(*stalls, gone=frozenset({3})))
    assert (one.cause, [c.certainty for c in one.culprits]) == ("unreachable", ["certain"])
    two = diagnose_snapshot(snapshot(*stalls, gone=frozenset({3, 4})))
    assert {c.certainty for c in two.culprits} == {"likely"}


@examples(60)
@given(st.lists(st.integers(2, 4), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_any_chain_leads_to_its_end(sizes: list[int], random: object) -> None:
    """However long a chain of groups is, and in whichever order they are listed, its end is the only root."""
    stalls, first = [], 0
    for number, size in enumerate(sizes):
        standing = set(range(first, first + size))
        first += size
        stalls.append(stall(number, standing, {first}))
    random.shuffle(stalls)  # type: ignore[attr-defined]
    made = tuple(Member(f"rank {i}", i, None) for i in range(first + 1))
    groups = tuple(RankGroup(f"g{i}", "", ()) for i in range(len(sizes)))
    (root,) = find_roots(Snapshot(made, groups, tuple(stalls)))
    assert root.suspects == (first,)
    assert len(root.victims) == len(sizes) - 1
