"""The uncertain inputs of the question of power: compute share, power while communicating, each job's step."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.capacity.uncertain_input import UncertainInput, given_input, seed_input
from simulator.power.power_file import PowerSettings

STEPS, SHARES, DIPS = "2.2..47", "0.45..0.85", "0.35..0.7"
SOURCES = {
    STEPS: "from one to another of the public traces of arXiv 2505.05713",
    SHARES: "from 0.45 of two of these traces; the upper end is assumed",
    DIPS: "assumed",
}
"""Where neither an option, nor a trace, nor a power file says it."""


def power_inputs(
    jobs: Sequence[str],
    traced: Sequence[tuple[float, float]],
    told: PowerSettings | None,
    *,
    steps: str | None,
    share: str | None,
    dip: str | None,
) -> tuple[UncertainInput, ...]:
    """Return the seed, then what a step is like (``share``, ``dip``), then the seconds of each job's (``step0``, ..).

    :param traced: seconds and compute share of traced steps, of the jobs in turn; empty = none.
    :param told: what the power file says; ``None`` = there is none.
    :raises InvalidInput: what is given is neither a number nor a range, or out of bounds.
    """
    file = told or PowerSettings()
    shares = sorted(one for _, one in traced)
    ratio = file.watts.communicate / max(file.watts.compute, 1e-9)

    def known(given: str | None, measured: str, said: float, usual: str) -> tuple[str, str]:
        """Return the value that counts, and where it is from."""
        of_file = "" if told is None else f"{said:.6g}"
        sources = ((given, "given"), (measured, "op traces"), (of_file, "the power file"), (usual, SOURCES[usual]))
        return next((value, source) for value, source in sources if value)

    measured = f"{shares[0]:.4f}..{shares[-1]:.4f}" if shares else ""
    rows = [
        ("share", "compute share of a step", "--compute-share", known(share, measured, file.compute_share, SHARES)),
        ("dip", "power while communicating, share", "--communicate-share", known(dip, "", ratio, DIPS)),
    ]
    for i, job in enumerate(jobs):
        seconds = f"{traced[i % len(traced)][0]:.4f}" if traced else ""
        words = f"seconds of a step of job {i + 1}, {job}"
        rows.append((f"step{i}", words, "--step-seconds", known(steps, seconds, file.step_seconds, STEPS)))
    found = [seed_input()]
    for name, words, option, (value, source) in rows:
        least, most = (0.05, 1e4) if option == "--step-seconds" else (0.0, 1.0)
        found.append(given_input(value, name, words, where=option, least=least, most=most, source=source))
    return tuple(found)
