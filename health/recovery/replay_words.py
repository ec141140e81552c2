"""A replay in sentences: the plan, the culprit, and when not to believe it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from health.recovery.eviction_words import machine_names
from health.recovery.machines import Machines
from health.recovery.two_phase_replay import ReplayPlan

Answer = Literal["plan", "culprit", "suspects", "nobody"]


def replay_answer(suspects: Sequence[int], *, failed: bool) -> Answer:
    """Return what the failed groups, if any were given, amount to."""
    if not failed:
        return "plan"
    return "nobody" if not suspects else "culprit" if len(suspects) == 1 else "suspects"


def replay_sentence(plan: ReplayPlan, machines: Machines, suspects: Sequence[int], *, failed: bool) -> str:
    """Return the plan, or who is left."""
    names = machine_names(machines, suspects)
    match replay_answer(suspects, failed=failed):
        case "culprit":
            return f"The culprit is {names}: it alone is in the failed groups of both runs."
        case "suspects":
            return f"{len(suspects):,} machines are left: {names}."
        case "nobody":
            return "No machine is in the failed groups of both runs: one fault alone does not explain them."
    runs = f"Run the job twice in {plan.groups} parts of {plan.group_size} machines (DP {plan.k} each)"
    if plan.unique:
        return f"{runs}: the part that fails in each run leaves exactly one machine."
    return f"{runs}: the part that fails in each run leaves up to {plan.most_suspects} machines, not one."


def replay_notes(
    plan: ReplayPlan, suspects: Sequence[int], *, horizontal: Sequence[int], vertical: Sequence[int]
) -> tuple[str, ...]:
    """Return what is worth knowing about a plan and its outcome."""
    notes = []
    if not plan.unique:
        notes.append(
            f"One culprit is certain only where m <= n; here m = {plan.group_size}, n = {plan.groups}. "
            f"{'Fewer suspects are impossible: ' if plan.k == 1 else 'A smaller --k leaves fewer suspects; '}"
            "exchange all that are left for standby machines, or test them one by one."
        )
    if plan.k == 1 and plan.unique:
        notes.append(
            "Groups of one replica reduce no gradients between replicas: a fault of that traffic stays hidden."
        )
    if bool(horizontal) != bool(vertical):
        other = "second" if horizontal else "first"
        notes.append(f"Only one run has a failed group: the {other} narrows it down.")
    if horizontal and vertical and not suspects:
        notes.append("Two machines may be at fault, or the fault does not show every time: run both phases again.")
    if len(set(horizontal)) > 1 or len(set(vertical)) > 1:
        notes.append("More than one group failed in a run, so more than one machine is at fault, or the job itself is.")
    return tuple(notes)
