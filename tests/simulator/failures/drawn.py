"""Failures and slow spells, drawn at once as a replay draws them window by window."""

from __future__ import annotations

import numpy as np

from simulator.failures.cluster_failures import Breakdown, FailureModel, SlowSpell, draw_breakdowns, draw_spells


def draw_failures(
    model: FailureModel, *, nodes: int, horizon: float, seed: int
) -> tuple[list[Breakdown], list[SlowSpell]]:
    """Failures and slow spells before the horizon, each by a generator of its own.

    :param horizon: seconds.
    :param seed: same seed, same failures.
    """
    for_breakdowns, for_spells = (np.random.default_rng(stream) for stream in np.random.SeedSequence(seed).spawn(2))
    return (
        draw_breakdowns(model, nodes=nodes, horizon=horizon, rng=for_breakdowns),
        draw_spells(model.slowness, nodes=nodes, horizon=horizon, rng=for_spells),
    )
