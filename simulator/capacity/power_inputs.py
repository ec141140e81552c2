"""The uncertain inputs of the question of power: compute share, power while communicating, each job's step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.capacity.uncertain_input import UncertainInput, given_input, seed_input

if TYPE_CHECKING:
    from simulator.capacity.power_question import PowerQuestion

STEPS, SHARES, DIPS = "2.2..47", "0.45..0.85", "0.35..0.7"
SOURCES = {
    STEPS: "from one to another of the public traces of arXiv 2505.05713",
    SHARES: "from 0.45 of two of these traces; the upper end is assumed",
    DIPS: "assumed",
}
"""Where neither an option, nor a trace, nor a power file says it."""


def power_inputs(asked: PowerQuestion) -> tuple[UncertainInput, ...]:
    """Return the seed, then what a step is like (``share``, ``dip``), then the seconds of each job's (``step0``, ..).

    An option counts first, then the op traces, of the jobs in turn, then the power file.

    :raises InvalidInput: what is given is neither a number nor a range, or out of bounds; or a trace is none.
    """
    from simulator.power.traced_steps import traced_step

    traced, file = [traced_step(trace) for trace in asked.traces], asked.settings
    shares = sorted(share for _, share in traced)
    share = f"{shares[0]:.4f}..{shares[-1]:.4f}" if shares else ""
    ratio = file.watts.communicate / max(file.watts.compute, 1e-9)
    rows = [
        ("share", "compute share of a step", "compute_share", share, file.compute_share, SHARES),
        ("dip", "power while communicating, share", "communicate_share", "", ratio, DIPS),
    ]
    for i, job in enumerate(asked.jobs):
        words, seconds = (
            f"seconds of a step of job {i + 1}, {job}",
            f"{traced[i % len(traced)][0]:.4f}" if traced else "",
        )
        rows.append((f"step{i}", words, "step_seconds", seconds, file.step_seconds, STEPS))
    found = [seed_input()]
    for name, words, option, measured, said, usual in rows:
        of_file = "" if asked.power is None else f"{said:.6g}"
        sources = {
            "given": getattr(asked, option),
            "op traces": measured,
            "the power file": of_file,
            SOURCES[usual]: usual,
        }
        source, value = next((source, value) for source, value in sources.items() if value)
        least, most = (0.05, 1e4) if option == "step_seconds" else (0.0, 1.0)
        where = f"--{option.replace('_', '-')}"
        found.append(given_input(value, name, words, where=where, least=least, most=most, source=source))
    return tuple(found)
