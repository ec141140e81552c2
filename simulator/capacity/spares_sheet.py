"""The answer about spares, ready to be shown."""

from __future__ import annotations

from simulator.capacity.sheet import Chart, Series, Sheet, Table
from simulator.capacity.spares import SparesAnswer, assumptions
from simulator.failures.rates import MEASURED_MTTF_GPUS, MEASURED_MTTF_HOURS


def spares_sheet(answer: SparesAnswer) -> Sheet:
    """Verdict, tables, chart and assumptions."""
    q = answer.question
    return Sheet(
        title=f"Spares for a job of {q.nodes:,} nodes and an ETTR of {q.target:.1%}",
        verdict=_verdict(answer),
        tables=(_facts(answer), _rows(answer)),
        charts=(_chart(answer),),
        assumptions=assumptions(answer),
    )


def _verdict(answer: SparesAnswer) -> str:
    if answer.needed is None:
        return f"{answer.why_not[:1].upper()}{answer.why_not[1:]}."
    row = next(row for row in answer.rows if row.spares == answer.needed)
    return (
        f"Keep {answer.needed} spares for {answer.question.nodes:,} nodes: ETTR {row.formula:.4f} by formula, "
        f"{row.simulated.mean:.4f} ± {row.simulated.half_width:.4f} by Monte Carlo; no number of spares gives more "
        f"than {answer.unlimited:.4f}."
    )


def _facts(answer: SparesAnswer) -> Table:
    at_1024 = f"{answer.published_mttf_hours:.1f} h by the rate, {MEASURED_MTTF_HOURS} h measured on RSC-1"
    return Table(
        "The job",
        ("", "value"),
        (
            ("mean time to failure", f"{answer.mttf_hours:.2f} h"),
            (
                f"the same at {MEASURED_MTTF_GPUS:,} GPUs",
                at_1024,
            ),
            ("nodes away on average", f"{answer.away:.2f}"),
            ("checkpoint interval", f"{answer.interval:,.0f} s"),
            ("ETTR with a spare always at hand", f"{answer.unlimited:.4f}, exact {answer.exact_unlimited:.4f}"),
            ("standby pool, P99 of a day's failures", f"{answer.standby} (filled up again within a day)"),
        ),
    )


def _rows(answer: SparesAnswer) -> Table:
    return Table(
        "ETTR by number of spares",
        ("spares", "waits for a repair", "formula", "exact", "Monte Carlo", "apart", "failures a run"),
        [
            (
                f"{row.spares}{' *' if row.spares == answer.needed else ''}",
                f"{row.waiting:.2%}",
                f"{row.formula:.4f}",
                f"{row.exact:.4f}",
                f"{row.simulated.mean:.4f} ± {row.simulated.half_width:.4f}",
                f"{row.apart:.2%}",
                f"{row.simulated.failures:,.0f}",
            )
            for row in answer.rows
        ],
    )


def _chart(answer: SparesAnswer) -> Chart:
    spares = [float(row.spares) for row in answer.rows]
    target = [(spares[0], answer.question.target), (spares[-1], answer.question.target)]
    return Chart(
        title="ETTR by number of spares",
        x_label="spares",
        y_label="ETTR",
        series=(
            Series("formula", [(row.spares, row.formula) for row in answer.rows]),
            Series(
                "Monte Carlo",
                [(row.spares, row.simulated.mean) for row in answer.rows],
                shape="dots",
                errors=[row.simulated.half_width for row in answer.rows],
            ),
            Series("target", target, shape="dashes"),
        ),
        ceiling=1.0,
        percent=True,
        lines=() if answer.needed is None else ((float(answer.needed), f"{answer.needed} spares"),),
    )
