"""What users write about a gang, read with a clear word about every mistake."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast, get_args

from extender.gangs.types import Asked, InvalidGang, TopologyRequest
from extender.kubernetes_names import ALPHA, AVOID, GANG_SIZE, LEVEL, PARALLELISM
from extender.texts import LONGEST
from scheduler.job import FAMILIES, MEGATRON_ORDER, Avoid, Parallelism
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


MOST_PODS = 1_000_000  # most pods of one gang; ten times the largest cluster that is known

# Field of Asked -> the annotation that says it; members of a gang agree in each.
ANNOTATIONS = {"size": GANG_SIZE, "parallelism": PARALLELISM, "alpha": ALPHA, "level": LEVEL, "avoid": AVOID}

_WHOLE = re.compile(r"[0-9]{1,9}")
_DECIMAL = re.compile(r"[0-9]{0,3}\.?[0-9]{0,20}")


def asked_by(annotations: Mapping[str, str], requests: tuple[TopologyRequest, ...]) -> Asked:
    """Return what a pod asks for its gang, beside what peers' dialects request."""
    return Asked(**{field: annotations.get(key) for field, key in ANNOTATIONS.items()}, requests=requests)


def parse_size(text: str) -> int:
    """Read a number of pods, or raise ``InvalidGang``: not a whole number from 1 to :data:`MOST_PODS`."""
    size = parse_whole(text)
    if size is None or not 1 <= size <= MOST_PODS:
        fix = f"write the number of pods of the gang, 1 to {MOST_PODS:,}"
        raise InvalidGang(f"{text[:40]!r} is no number of pods", reason="InvalidGangSize", where=GANG_SIZE, fix=fix)
    return size


def parse_whole(text: str | None) -> int | None:
    """Read a whole number in ASCII digits; ``None`` = it is none."""
    return int(text) if text is not None and _WHOLE.fullmatch(text) else None


def parse_alpha(text: str) -> float:
    """Read a DP affinity, or raise ``InvalidGang``: not a number between 0 and 1."""
    plain = text.strip()
    alpha = float(plain) if _DECIMAL.fullmatch(plain) and plain.strip(".") else -1.0
    if not 0.0 <= alpha <= 1.0:
        fix = "write a number between 0 and 1, like 0.3"
        raise InvalidGang(f"{text[:40]!r} is no weight", reason="InvalidAlpha", where=ALPHA, fix=fix)
    return alpha


def parse_level(text: str, *, key: str = LEVEL) -> str:
    """Return a node label that may be a level of the cluster, or raise ``InvalidGang``: too long to be repeated."""
    size = len(text.encode("utf-8", "replace"))
    if size > LONGEST:
        message = f"{text[:40]!r}... is no node label: it has {size:,} bytes"
        fix = f"name a node label of at most {LONGEST} bytes"
        raise InvalidGang(message, reason="InvalidLevel", where=key, fix=fix)
    return text


def parse_avoid(text: str) -> Avoid:
    """Read what to do about slow nodes, or raise ``InvalidGang``: no such word."""
    known = get_args(Avoid)
    if text not in known:
        fix = f"{did_you_mean(text[:40], known)}write one of {', '.join(known)}"
        raise InvalidGang(f"{text[:40]!r} is not known", reason="InvalidAvoid", where=AVOID, fix=fix)
    return cast(Avoid, text)


def parse_degrees(text: str) -> Parallelism:
    """Read degrees of parallelism, or raise ``InvalidGang``: not like ``tp=8,dp=12``, or they cannot be."""
    try:
        return parse_parallelism(text)
    except InvalidJob as error:
        raise impossible_degrees(repr(text[:80]), error) from None


def impossible_degrees(what: str, error: InvalidJob) -> InvalidGang:
    """Return the error that degrees of parallelism, as written or understood, cannot be read or make no job."""
    return InvalidGang(f"{what}: {error.message}", reason="InvalidParallelism", where=PARALLELISM, fix=error.fix)
