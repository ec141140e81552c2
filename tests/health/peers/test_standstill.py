"""Whether a job stands still and who holds it up, from counters of its nodes: what is told, and what is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from health.peers.prometheus import from_series
from health.peers.standstill import PROGRESS, Headway, progress_of, standstill_flags
from tests.facts import says

QUIET, UNTIL, STEP = 300.0, 1_800_000_000.0, 15.0
NODES = [f"n{k}" for k in range(8)]


def counter(*, stopped: float = 0.0, at: float = 1_000.0, heard: float = 0.0, rate: float = 0.1) -> list[list[object]]:
    """A process that came to a count so many seconds ago, and was heard of until so many ago."""
    times = [UNTIL - 900.0 + k * STEP for k in range(61)]
    kept = [time for time in times if time <= UNTIL - heard]
    return [[time, f"{at - rate * max(0.0, UNTIL - stopped - time):.0f}"] for time in kept]


def seen(
    nodes: Mapping[str, list[list[object]]], *, of: Sequence[str] = NODES, gpus: Sequence[str] | None = None
) -> Headway:
    """What is told of a job whose nodes count so, each GPU alike where there are several."""
    labels = [{}] if gpus is None else [{"gpu": gpu} for gpu in gpus]
    series = [
        (PROGRESS, {"metric": {"node": name, **label}, "values": values})
        for name, values in nodes.items()
        for label in labels
    ]
    return progress_of(from_series(series, source="made"), of, until=UNTIL, quiet=QUIET)


def test_a_job_that_moves() -> None:
    """Each node counts to the end."""
    assert seen(dict.fromkeys(NODES, counter())).stands is False


def test_who_is_behind_holds_the_others_up() -> None:
    """Seven have begun what the eighth has not: it alone is suspected, of its program as well."""
    found = seen({**dict.fromkeys(NODES, counter(stopped=400.0)), "n3": counter(stopped=400.0, at=999.0)})
    assert (found.stands, [*found.suspects], found.gone) == (True, ["n3"], frozenset())
    assert found.since is not None
    # it moved last 400 s ago, seen by samples 15 s apart
    assert 385.0 <= UNTIL - found.since.timestamp() <= 415.0
    assert says(found.suspects["n3"], "999", "7 others", "1000")
    (flag,) = standstill_flags(found, {"n3": 3}, source="s", moves=False)
    assert (flag.node, flag.kind, flag.rank, flag.slowdown) == ("n3", "degraded", 3, 1.05)
    (flag,) = standstill_flags(found, {"n3": 3}, source="s", moves=True)
    assert (flag.kind, flag.rank, flag.needs_repair) == ("faulty", 3, False)


def test_a_node_of_which_all_processes_are_silent() -> None:
    """All eight GPUs of it at once: the node, not a program."""
    gone = {**dict.fromkeys(NODES, counter(stopped=400.0)), "n5": counter(stopped=400.0, heard=380.0)}
    found = seen(gone, gpus=[str(gpu) for gpu in range(8)])
    assert (found.stands, [*found.suspects], found.gone) == (True, ["n5"], frozenset({"n5"}))
    (flag,) = standstill_flags(found, {"n5": 5}, source="s", moves=False)
    assert (flag.kind, flag.rank) == ("faulty", None)
    # of one process it may be the program
    assert seen(gone).gone == frozenset()


def test_a_pause_accuses_nobody() -> None:
    """All have come equally far: a checkpoint, an evaluation, or a fault that the counters do not show."""
    found = seen(dict.fromkeys(NODES, counter(stopped=400.0)))
    assert (found.stands, found.suspects) == (True, {})


def test_too_many_to_be_at_fault() -> None:
    """Three of eight behind: a switch or the program; and where no count is that of most, none is right."""
    behind = counter(stopped=400.0, at=999.0)
    found = seen({**dict.fromkeys(NODES, counter(stopped=400.0)), **dict.fromkeys(NODES[:3], behind)})
    assert (found.stands, found.suspects) == (True, {})
    apart = {name: counter(stopped=400.0, at=1_000.0 + k) for k, name in enumerate(NODES)}
    assert seen(apart).suspects == {}


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ({name: counter(stopped=400.0) for name in NODES[:4]}, "half of it is not known"),
        (dict.fromkeys(NODES, counter(stopped=400.0, at=0.0, rate=0.0)), "it has not begun"),
        (
            {**dict.fromkeys(NODES, counter(stopped=400.0)), "n1": counter(at=3.0, stopped=30.0)[-3:]},
            "a process was started just now, and the others wait for it",
        ),
    ],
    ids=["unknown", "not begun", "starting"],
)
def test_what_cannot_be_told(nodes: dict[str, list[list[object]]], why: str) -> None:
    """Neither that it stands still, nor that it goes on."""
    assert seen(nodes).stands is None, why


def test_a_job_that_starts_again_has_not_come_through_yet() -> None:
    """All counters fell to nothing a minute ago and have not risen since."""
    falls = [*counter(stopped=400.0)[:-4], *([UNTIL - 45.0 + k * STEP, "0"] for k in range(4))]
    assert seen(dict.fromkeys(NODES, falls)).stands is None


def test_nodes_of_other_jobs_count_for_nothing() -> None:
    """A neighbour that moves keeps nobody's standstill from being seen."""
    nodes = {**dict.fromkeys(NODES, counter(stopped=400.0)), "other": counter()}
    assert seen(nodes).stands is True
