"""Groups that wait for one another: the first one stuck is found, its victims are not blamed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from health.collectives.diagnosis import diagnose_snapshot
from health.collectives.recording import Member, RankGroup
from health.collectives.stalls import Mismatch, Snapshot, Stall, find_roots
from tests.case_counts import examples

NOBODY: frozenset[int] = frozenset()


def stall(group: int, standing: set[int], absent: set[int]) -> Stall:
    """Collective 7 of a group."""
    return Stall(group, 7, "AllReduce", frozenset(standing), frozenset(absent))


def snapshot(*stalls: Stall, members: int = 12, **known: object) -> Snapshot:
    """A job with as many groups as stalls."""
    groups = tuple(RankGroup(f"g{s.group}", "", tuple(sorted(s.standing | s.absent))) for s in stalls)
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


def test_a_circle_of_two_names_both() -> None:
    """One against one: either may have crossed."""
    (root,) = find_roots(snapshot(stall(0, {0}, {1}), stall(1, {1}, {0})))
    assert root.suspects == (0, 1)


def test_another_operation_under_the_same_number() -> None:
    """All launched number 7, one as another operation: that one crossed the order inside its group."""
    odd = Mismatch(0, 7, "AllReduce", ((2, "AllGather"),))
    (root,) = find_roots(snapshot(stall(0, {0, 1, 2, 3}, set()), mismatches=(odd,)))
    assert (root.kind, root.suspects) == ("crossed-order", (2,))


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
