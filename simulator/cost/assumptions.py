"""Sentences that several models have in common."""

from __future__ import annotations

from simulator.cost.calibration import Calibration
from simulator.cost.tiers import Oversubscription
from simulator.cost.traffic import MICROBATCHES_A_STAGE


def of_compute(calibration: Calibration) -> tuple[str, ...]:
    """Return what holds for every model."""
    return (
        f"Without spread, communication between nodes is {calibration.communication_share:.0%} of the step; compute is "
        f"what is left, and all of it on one node.",
        "The slowest node stretches compute, by the same factor in every model, and nothing else.",
    )


def of_volumes(calibration: Calibration) -> tuple[str, ...]:
    """Return what holds for every model that knows volumes."""
    hidden = calibration.overlap
    return (
        *of_compute(calibration),
        "Of the network only the proportions matter.",
        "Gradients are reduced once a step, activations sent for each microbatch; expert and context parallel traffic "
        "is not counted.",
        f"A job that does not say what it trains sends what a 7B model sends, in {MICROBATCHES_A_STAGE} microbatches "
        f"for each pipeline stage unless it says how many.",
        f"{hidden:.0%} of the reduction of gradients is hidden behind compute."
        if hidden
        else "Nothing of the reduction of gradients is hidden behind compute.",
        "The slowest DP group and the slowest PP group set the pace.",
    )


def of_tiers(calibration: Calibration, oversubscription: Oversubscription | None) -> str:
    """Return how narrow the tiers are."""
    if oversubscription is None:
        return (
            f"Minipods have {calibration.send_recv_stretch:.3g} times less bandwidth upwards than below: what "
            f"send-recv loses when all nodes send between minipods.  Closer levels are not oversubscribed."
        )
    ratios = ", ".join(f"{level} {ratio:g}" for level, ratio in oversubscription.items()) or "none anywhere"
    return f"Oversubscription: {ratios}."
