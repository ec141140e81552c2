"""The answer of ``arnold calibrate``."""

from arnold.console.output import Console, print_rows, print_sentences
from ground.records import JsonRecord, record_of
from simulator.cost.gain_fit import LEAST_STEPS, GainEstimate, GainFit, MeasuredPlacement

ASSUMPTIONS = (
    "Over more than two domains what spread costs grows as the published losses of NCCL do.",
    "The step of a run is its median, so a few slow steps do not count.",
    "Bands are 95% intervals of the noise of steps, and of runs where a pair of spreads has several: not of what else "
    "differs between runs, such as nodes, neighbours and the time of day.",
)


class CalibrateDocument(JsonRecord, kw_only=True):
    """What spread costs a job, from its step times."""

    source: str
    """The file of step times."""
    verdict: str
    """The finding in one sentence."""
    dp_gain: GainEstimate | None
    """j_dp, percent of the step that the spread of DP groups over two domains costs; null = cannot be told."""
    pp_gain: GainEstimate | None
    """j_pp, the same of PP groups."""
    alpha: GainEstimate | None
    """j_dp / (j_dp + j_pp), a loss counting as 0; null = cannot be told."""
    step_seconds: float
    """The step without the spread that is told, by the fit."""
    misfit: float | None
    """Largest distance of a placement from the fit, percent; null = no more placements than unknowns."""
    placements: tuple[MeasuredPlacement, ...]
    """What was measured, by pair of spreads."""
    notes: tuple[str, ...]
    """What cannot be told, and why; what looks wrong."""
    assumptions: tuple[str, ...]
    """What has to be true for the numbers to be."""


def calibrate_document(fit: GainFit, *, source: str) -> CalibrateDocument:
    """Return the document of a fit."""
    if fit.together:
        verdict = "What spread costs cannot be told by family: S and R change together."
        notes = [
            "Measure a placement in which one of them is as small as can be, such as with PP groups aligned (R = 1)."
        ]
    else:
        costs = ", ".join(
            f"{family} groups {'cannot be told' if gain is None else f'{name} = ' + in_words(gain, '%')}"
            for family, name, gain in (("DP", "j_dp", fit.dp), ("PP", "j_pp", fit.pp))
        )
        alpha = "" if fit.alpha is None else f"; alpha {in_words(fit.alpha)}"
        verdict = f"Over two domains instead of one the step takes longer by: {costs}{alpha}."
        notes, first = [], next(iter(fit.placements))
        for family, letter, spread, gain in (("DP", "S", first.dp, fit.dp), ("PP", "R", first.pp, fit.pp)):
            if gain is None:
                notes.append(
                    f"What spread costs {family} groups cannot be told: {letter} is {spread} in all placements."
                )
            elif gain.value < 0.0:
                sure = "" if gain.high is None or gain.high >= 0.0 else ", by more than the noise of steps"
                notes.append(
                    f"Steps are shorter with more spread of {family} groups{sure}: a file has it as a gain of 0."
                )
        if any(placement.steps < LEAST_STEPS for placement in fit.placements):
            notes.append(
                f"How sure the numbers are is not known: a pair of spreads has fewer than {LEAST_STEPS} step times."
            )
    unknowns = 1 + (fit.dp is not None) + (fit.pp is not None)
    off = max(abs(placement.seconds / placement.fitted - 1.0) for placement in fit.placements)
    return record_of(
        CalibrateDocument,
        fit,
        source=source,
        verdict=verdict,
        dp_gain=fit.dp,
        pp_gain=fit.pp,
        misfit=100.0 * off if len(fit.placements) > unknowns and not fit.together else None,
        notes=tuple(notes),
        assumptions=ASSUMPTIONS,
    )


def in_words(estimate: GainEstimate, unit: str = "") -> str:
    """Return an estimate with its band: ``1.8% (1.4 to 2.2)``."""
    band = "not known how sure" if estimate.band is None else f"{estimate.band[0]:.2f} to {estimate.band[1]:.2f}"
    return f"{estimate.value:.2f}{unit} ({band})"


def print_calibration(out: Console, document: CalibrateDocument) -> None:
    """Print what spread costs, what was measured, and how sure that is."""
    out.print(document.verdict)
    rows = [
        (
            placement.dp,
            placement.pp,
            placement.runs,
            placement.steps,
            f"{placement.seconds:.4g} s",
            f"{placement.fitted:.4g} s",
        )
        for placement in document.placements
    ]
    headers = ("DP spread (S)", "PP spread (R)", "runs", "steps", "median step", "by the fit")
    print_rows(out, headers, rows, title="What was measured")
    if document.misfit is not None:
        out.print(f"The placements lie within {document.misfit:.2f}% of the fit.")
    print_sentences(out, "Notes", document.notes)
    print_sentences(out, "Assumptions", document.assumptions)
