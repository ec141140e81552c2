"""What a fault costs a job: how long a restart takes, and how many machines to keep warm for it.

A requeue gives the job new pods; a hot update keeps the pods and restarts the training process alone (ByteRobust, arXiv
2509.16293, measured on machines of 16 GPUs).

Enough machines are kept warm for the failures of all but one day in a hundred.  Failures of a day ~ Binomial(machines,
rate); the pool is a quantile of it (P99 gives 2, 2, 3 and 4 machines for jobs of 128, 256, 512 and 1,024).  Decimals of
50 digits keep the quantile exact where a float would not: on a rate typed as ``0.0012``, and where (1 - rate)^machines
is smaller than any float.
"""

from decimal import Context, Decimal, localcontext
from typing import Annotated, Literal, NamedTuple

from annotated_types import Ge

from ground.errors import InvalidInput
from ground.records import checked

RestartKind = Literal["requeue", "hot-update"]


class RestartCost(NamedTuple):
    """One measurement: machines of the job, 16 GPUs each, and seconds of both kinds of restart."""

    machines: int
    requeue: float
    hot_update: float


RESTART_COSTS = (
    RestartCost(128, requeue=454.0, hot_update=46.0),
    RestartCost(256, requeue=545.0, hot_update=51.0),
    RestartCost(512, requeue=635.0, hot_update=54.0),
    RestartCost(1024, requeue=768.0, hot_update=65.0),
)


@checked
def restart_seconds(machines: Annotated[float, Ge(1)], kind: RestartKind) -> float:
    """Return the seconds of a restart of so many machines, linear in the logarithm of the size between measurements."""
    import numpy as np

    sizes, requeue, hot_update = zip(*RESTART_COSTS, strict=True)
    return float(np.interp(np.log2(machines), np.log2(sizes), requeue if kind == "requeue" else hot_update))


RATE = 1.2e-3  # Failures of a machine in a day, in the middle of what the published pools allow
QUANTILE = 0.99

MAX_MACHINES = 1_000_000

_EXTREME = 1e-12  # No quantile is nearer to 0 or 1
_EXACT = Context(prec=50, Emin=-(10**15), Emax=10**15)
_NOTHING = Decimal("1e-48")
_SLACK = Decimal("1e-40")  # Less than this is rounding: a quantile that is met to the digit is met


@checked
def standby_pool(machines: int, *, rate: float = RATE, quantile: float = QUANTILE) -> int:
    """Return the fewest machines that cover, in ``quantile`` of all days, failures at a ``rate`` a machine and day."""
    if not 1 <= machines <= MAX_MACHINES:
        problem = f"{machines:,} machines"
        raise InvalidInput(problem, fix=f"give a number from 1 to {MAX_MACHINES:,}")
    if not 0.0 <= rate <= 1.0:
        raise InvalidInput(f"the rate is {rate}", fix="a rate is a probability, such as 0.0012")
    if not _EXTREME <= quantile <= 1.0 - _EXTREME:
        problem = f"the quantile is {quantile}"
        raise InvalidInput(problem, fix="give a share of days between 0 and 1, such as 0.99")
    with localcontext(_EXACT):
        first, terms = _terms(machines, Decimal(str(rate)))
        below, enough = Decimal(0), Decimal(str(quantile)) * sum(terms) * (1 - _SLACK)
        for failures, term in enumerate(terms, first):
            below += term
            if below >= enough:
                return failures
        return first + len(terms) - 1


def _terms(machines: int, rate: Decimal) -> tuple[int, list[Decimal]]:
    """Return probabilities of so many failures relative to the likeliest number, as far as 50 digits can tell them from
    nothing (some dozen deviations, whatever the number of machines), and the number of the first.
    """
    if rate in (0, 1):
        return machines * int(rate), [Decimal(1)]
    odds = rate / (1 - rate)
    likeliest = min(machines, int((machines + 1) * rate))
    fewer = [Decimal(1)]
    while fewer[-1] > _NOTHING and (k := likeliest - len(fewer)) >= 0:
        fewer.append(fewer[-1] * (k + 1) / (machines - k) / odds)
    more = [Decimal(1)]
    while more[-1] > _NOTHING and (k := likeliest + len(more)) <= machines:
        more.append(more[-1] * (machines - k + 1) / k * odds)
    return likeliest - len(fewer) + 1, [*reversed(fewer), *more[1:]]
