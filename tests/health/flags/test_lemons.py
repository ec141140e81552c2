"""Repeat offenders by the history of jobs alone: found where failures cluster, nobody where they do not."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from health.flags.lemons import DAY, JobRun, lemons, lemons_of_incidents, mixed_tail
from tests.case_counts import examples


def history(seed: int, *, lemon: int | None = None) -> list[JobRun]:
    """Four weeks of 40 nodes: 20 programs of 1 to 8 nodes, each with a rate of failures of its own, restarted at times.

    On the lemon every second run fails as well.
    """
    random = np.random.default_rng(seed)
    programs = [(f"u{k}", float(random.beta(1, 8)), int(random.choice([1, 1, 2, 4, 8]))) for k in range(20)]
    runs = []
    for _ in range(800):
        name, rate, size = programs[int(random.integers(20))]
        first, ended = int(random.integers(41 - size)), float(random.uniform(0, 28 * DAY))
        nodes = tuple(f"n{k:02}" for k in range(first, first + size))
        bad = lemon is not None and first <= lemon < first + size and random.random() < 0.5
        runs.append(JobRun(nodes, name, ended, bool(random.random() < rate or bad)))
        if runs[-1].failed and random.random() < 0.5:
            runs += [JobRun(nodes, name, ended + 600.0 * k, True) for k in range(4)]
    return runs


def test_a_lemon_is_found_and_nobody_else() -> None:
    """Its neighbours share its failed jobs, and are not accused once it is out; most such nodes are found."""
    found = [[lemon.node for lemon in lemons(history(seed, lemon=17))] for seed in range(8)]
    assert {node for nodes in found for node in nodes} == {"n17"}
    assert sum(map(bool, found)) >= 6


def test_healthy_clusters_have_no_lemons() -> None:
    """One in a hundred may, by the correction for many nodes; restarts of programs that fail do not count."""
    assert [seed for seed in range(12) if lemons(history(seed))] == []


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=40), st.integers(0, 2**32 - 1))
@examples(40)
def test_a_node_is_no_lemon_for_what_is_run_on_it(used: list[float], seed: int) -> None:
    """However unevenly nodes are used, by programs that run many times a day: each fails as often wherever it runs.

    The chance is one in a hundred for all nodes together; one in 100,000 says the same of any drawn cluster.
    """
    random = np.random.default_rng(seed)
    share = np.array(used) / sum(used)
    rates = random.beta(1, 8, 6)
    drawn = zip(random.choice(len(used), 2_000, p=share), random.integers(6, size=2_000), strict=True)
    runs = [
        JobRun((f"n{node}",), f"u{program}", float(random.uniform(0, 28 * DAY)), bool(random.random() < rates[program]))
        for node, program in drawn
    ]
    assert all(lemon.chance > 1e-5 for lemon in lemons(runs))


@pytest.mark.parametrize("hour", [0, 9, 23])
def test_a_day_begins_with_the_failure(hour: int) -> None:
    """Three programs that begin anew for five hours after they failed on n1 fail once each, over midnight too."""
    runs = [JobRun(("n1",), name, (hour + 0.5 * k) * 3600.0, True) for k in range(10) for name in "abc"]
    assert [lemon.failed for lemon in lemons_of_incidents(runs, 200)] == [3]
    well = [JobRun((f"n{k}",), name, 3 * DAY + day, False) for k in range(20) for day in range(10) for name in "abc"]
    assert [(lemon.node, lemon.failed) for lemon in lemons([*runs, *well])] == [("n1", 3)]


def test_a_program_alone_accuses_no_node() -> None:
    """Thirty failures of one program on one node, day after day, where others run well."""
    runs = [JobRun(("n1",), "mine", day * DAY, True) for day in range(30)]
    runs += [JobRun((f"n{k}",), "other", day * DAY, False) for k in range(20) for day in range(30)]
    assert lemons(runs) == []


def test_the_tail_of_a_poisson_distribution() -> None:
    """Of mean 1 at least 1 is 1 - 1/e, at least 2 is 1 - 2/e; it falls, and is never 0."""
    assert mixed_tail(1, 1.0, 0.0) == pytest.approx(1 - np.exp(-1))
    assert mixed_tail(2, 1.0, 0.0) == pytest.approx(1 - 2 * np.exp(-1))
    assert all(a > b > 0.0 for a, b in pairwise(mixed_tail(k, 2.5, 0.0) for k in range(1, 40)))


def test_the_tail_where_means_vary() -> None:
    """Where the mean is exponential, of mean 2 and variance 4, each more is 2/3 as likely: at least 3 has (2/3)^3."""
    assert mixed_tail(3, 2.0, 1.0) == pytest.approx((2 / 3) ** 3)
    assert mixed_tail(3, 2.0, 1e-9) == pytest.approx(mixed_tail(3, 2.0, 0.0), rel=1e-6)


def incidents(seed: int, *, lemon: int | None = None) -> list[JobRun]:
    """Six weeks of 200 nodes and 30 programs: 60 incidents, each held up by a node, where some nodes are used twice as
    much as others; a lemon holds up eight gangs more.
    """
    random = np.random.default_rng(seed)
    used = random.uniform(1, 2, 200)
    blamed = [*random.choice(200, 60, p=used / used.sum()), *([lemon] * 8 if lemon is not None else ())]
    programs, ends = random.integers(30, size=len(blamed)), random.uniform(0, 42 * DAY, len(blamed))
    return [
        JobRun((f"n{node:03}",), f"u{program}", float(ended), True)
        for node, program, ended in zip(blamed, programs, ends, strict=True)
    ]


def test_incidents_of_gangs_name_a_lemon_and_nobody_else() -> None:
    """Of 300 healthy clusters none has one, and one with eight incidents in six weeks is found in 48 of 50."""
    assert [seed for seed in range(300) if lemons_of_incidents(incidents(seed), 200)] == []
    found = [[lemon.node for lemon in lemons_of_incidents(incidents(seed, lemon=17), 200)] for seed in range(50)]
    assert {node for nodes in found for node in nodes} == {"n017"}
    assert sum(map(bool, found)) >= 48


def test_nodes_that_are_used_more_hold_up_more_gangs() -> None:
    """One node in twenty is used ten times as much: of 100 clusters 23 had a lemon where use was taken as even."""
    random = np.random.default_rng(0)
    accused = 0
    for _ in range(100):
        used = np.where(random.random(200) < 0.05, 10.0, 1.0)
        blamed = random.choice(200, 60, p=used / used.sum())
        when = random.uniform(0, 42 * DAY, 60)
        runs = [
            JobRun((f"n{node}",), f"u{random.integers(30)}", float(at), True)
            for node, at in zip(blamed, when, strict=True)
        ]
        accused += bool(lemons_of_incidents(runs, 200))
    assert accused <= 2


def test_incidents_of_one_program_accuse_no_node() -> None:
    """Nor do many of it within a day."""
    same = [JobRun(("n1",), "mine", day * DAY, True) for day in range(30)]
    assert lemons_of_incidents(same, 200) == []
    assert lemons_of_incidents([JobRun(("n1",), name, 60.0 * k, True) for k in range(9) for name in "ab"], 200) == []
