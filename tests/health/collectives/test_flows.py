"""The rules on the three counters of the flows of one collective."""

from __future__ import annotations

import pytest

from health.collectives.stalls import DOWN, P2P, RING, UP, Flow, blame, conditions, cover, first_blocked

Counters = tuple[int, int, int]


def ring(*counters: Counters, total: int = 40, channel: int = 0) -> list[Flow]:
    """The flows of a ring 0 -> 1 -> ... -> 0; counters ready, transmitted, done of each."""
    n = len(counters)
    return [Flow(i, (i + 1) % n, channel, RING, total, *counters[i]) for i in range(n)]


def test_a_flow_that_is_ready_and_not_transmitted_has_two_suspects() -> None:
    """1 > 2: the sender's network, or a receiver that is not ready; one flow does not tell them apart."""
    # Rank 0 could make chunks up to 8 ready and has sent none; 1 has its lead of 4, the others what came since.
    found = blame(ring((8, 0, 0), (4, 4, 4), (8, 8, 8), (12, 12, 12)))
    assert (found.cause, found.suspects) == ("not-transmitted", (0, 1))


def test_two_rings_in_opposite_order_name_the_sender() -> None:
    """Both flows that rank 0 sends on stand still, to different peers: what they share is rank 0."""
    forward = ring((8, 0, 0), (4, 4, 4), (8, 8, 8), (12, 12, 12))
    backward = [Flow(0, 3, 1, RING, 40, 8, 0, 0), Flow(3, 2, 1, RING, 40, 4, 4, 4)]
    backward += [Flow(2, 1, 1, RING, 40, 8, 8, 8), Flow(1, 0, 1, RING, 40, 12, 12, 12)]
    found = blame([*forward, *backward])
    assert (found.cause, found.suspects) == ("not-transmitted", (0,))


def test_not_delivered_goes_before_not_transmitted() -> None:
    """2 > 3: the chunks in flight never arrive; that more are ready behind them follows from it."""
    found = blame(ring((16, 8, 0), (4, 4, 4), (8, 8, 8), (12, 12, 12)))
    assert (found.cause, found.suspects) == ("not-delivered", (0, 1))


def test_the_gpu_that_had_everything_is_blamed_and_those_that_starve_are_not() -> None:
    """1 = 2 = 3 > 0: of the ranks that made nothing ready only rank 1 had the chunks for more."""
    # The lead is 4: rank 0 sent 20, so rank 1 could have 24 and has 8; rank 2 has the 8 + 4 it could have, rank 3 16.
    flows = ring((20, 20, 20), (8, 8, 8), (12, 12, 12), (16, 16, 16))
    assert conditions(flows) == ["starved", "gpu-not-ready", "starved", "starved"]
    assert blame(flows).suspects == (1,)


def test_slack_forgives_a_gpu_that_is_a_chunk_behind() -> None:
    """While data move a GPU is allowed to be behind by the slack, not by more."""
    # The lead is 4 (26 against 22), 20 have come in: rank 1 could have 24 and has 22.
    flows = ring((20, 20, 20), (22, 22, 22), (26, 26, 26), (30, 30, 30))
    assert conditions(flows)[1] == "gpu-not-ready"
    assert conditions(flows, slack=2)[1] == "starved"


def test_a_tree_knows_what_each_flow_needs() -> None:
    """A leaf needs nothing, an inner rank its children, the root's way down all of them."""
    # 2 and 3 are leaves below 1, 1 is below the root 0; leaf 3 stopped at 5, so 1 and 0 can have no more than 5.
    up = [Flow(2, 1, 0, UP, 40, 13, 13, 13), Flow(3, 1, 0, UP, 40, 5, 5, 5), Flow(1, 0, 0, UP, 40, 5, 5, 5)]
    down = [Flow(0, 1, 0, DOWN, 40, 5, 5, 5), Flow(1, 2, 0, DOWN, 40, 5, 5, 5), Flow(1, 3, 0, DOWN, 40, 5, 5, 5)]
    found = conditions([*up, *down])
    assert found[1] == "gpu-not-ready"
    assert set(found[2:]) == {"starved"}
    # The other leaf has stopped too, but could have gone on: both are suspects, nobody alone is to blame.
    assert blame([*up, *down]).suspects == (2, 3)


def test_a_flow_behind_a_blocked_flow_is_a_victim() -> None:
    """Backpressure: 2 -> 3 is blocked because 3 cannot pass on; 3 -> 0 is the first. 2 must not be blamed."""
    blocked = [Flow(2, 3, 0, RING, 40, 20, 12, 12), Flow(3, 0, 0, RING, 40, 16, 8, 8)]
    assert first_blocked(blocked) == [blocked[1]]
    assert set(blame([*blocked, Flow(0, 1, 0, RING, 40, 12, 12, 12)]).suspects) == {0, 3}


def test_a_circle_of_blocked_flows_keeps_all() -> None:
    """Where every flow is blocked behind another, none can be left out."""
    blocked = [Flow(0, 1, 0, RING, 40, 8, 0, 0), Flow(1, 0, 0, RING, 40, 8, 0, 0)]
    assert first_blocked(blocked) == blocked


def test_a_send_has_two_ends() -> None:
    """A lone send that is not delivered: sender, receiver or the way; never one for certain."""
    found = blame([Flow(4, 9, 0, P2P, 16, 16, 12, 4)])
    assert found.suspects == (4, 9)


@pytest.mark.parametrize(
    ("pairs", "suspects"),
    [
        ([(0, 1)], (0, 1)),
        ([(0, 1), (0, 2)], (0,)),
        ([(0, 1), (2, 0), (0, 3)], (0,)),
        ([(0, 1), (1, 0)], (0, 1)),
        # 0 has two of three: the third pair keeps it from being alone.
        ([(0, 1), (0, 2), (3, 4)], (0, 1, 2, 3, 4)),
        ([(0, 1), (2, 3)], (0, 1, 2, 3)),
    ],
)
def test_cover(pairs: list[tuple[int, int]], suspects: tuple[int, ...]) -> None:
    """One common end is alone only if every pair has it."""
    assert cover(pairs) == suspects
