"""Degrees of parallelism as users write them in an annotation: ``tp=8,pp=8,dp=12``."""

from __future__ import annotations

import re

from scheduler.job import FAMILIES, MEGATRON_ORDER, Parallelism
from topology.errors import InvalidJob, did_you_mean

_DEGREE = re.compile(r"\s*([A-Za-z]{1,20})\s*=\s*([0-9]{1,9})\s*")


def parse_parallelism(text: str, *, order: str | None = None) -> Parallelism:
    """Return degrees from text; those that are not named are 1.

    :param order: dimensions from the fastest running rank to the slowest; default Megatron's.
    :raises InvalidJob: not of the form ``tp=8,pp=8,dp=12``, a degree named twice, unknown or below 1.
    """
    degrees: dict[str, int] = {}
    for part in text.split(","):
        match = _DEGREE.fullmatch(part)
        if match is None:
            raise InvalidJob(f"{part.strip()[:40]!r} is not a degree of parallelism", fix="write tp=8,pp=8,dp=12")
        name, degree = match[1].lower(), int(match[2])
        if name not in FAMILIES:
            hint = did_you_mean(name, FAMILIES)
            raise InvalidJob(f"{name!r} is no kind of parallelism", fix=f"{hint}name some of {', '.join(FAMILIES)}")
        if name in degrees:
            raise InvalidJob(f"{name} is given twice", fix="keep one of the two")
        degrees[name] = degree
    return Parallelism(**degrees, order=order or MEGATRON_ORDER)


def format_parallelism(parallelism: Parallelism) -> str:
    """Return the degrees as text, all of them."""
    return ",".join(f"{family}={parallelism.degree(family)}" for family in FAMILIES)
