"""Annotations: what users write about a gang, read with a clear word about every mistake."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import cast, get_args

from extender import kubernetes_names as keys
from extender.gangs.types import InvalidGang
from extender.texts import LONGEST_KEY, CutText, clip, size_of
from ground.errors import InvalidJob, did_you_mean
from scheduler.affinity import Model
from scheduler.job import DEGREES, FAMILIES, MEGATRON_ORDER, Avoid, Count, Hold, Parallelism
from scheduler.type_names import read_type_names
from topology.kubernetes.pods import Pod

MOST_TYPES = 32  # types of GPU that a GangPlan can hold (maxItems of the CRD)
MOST_PODS = 1_000_000  # most pods of one gang; ten times the largest cluster that is known

_DEGREE = re.compile(r"\s*([A-Za-z]{1,20})\s*=\s*([0-9]{1,9})\s*")


def parse_parallelism(text: str, *, order: str | None = None) -> Parallelism:
    """Return degrees from text, those not named 1; the order is Megatron's unless another is given.

    :raises InvalidJob: not of the form ``tp=8,pp=8,dp=12``, a degree named twice, unknown or below 1.
    """
    degrees: dict[str, int] = {}
    for part in text.split(","):
        match = _DEGREE.fullmatch(part)
        if match is None:
            raise InvalidJob(f"{part.strip()[:40]!r} is not a degree of parallelism", fix="write tp=8,pp=8,dp=12")
        name, degree = match[1].lower(), int(match[2])
        if name not in DEGREES:
            hint = did_you_mean(name, DEGREES)
            raise InvalidJob(f"{name!r} is no kind of parallelism", fix=f"{hint}name some of {', '.join(DEGREES)}")
        if name in degrees:
            raise InvalidJob(f"{name} is given twice", fix="keep one of the two")
        degrees[name] = degree
    return Parallelism(**degrees, order=order or MEGATRON_ORDER)


def format_parallelism(parallelism: Parallelism) -> str:
    """Return the degrees as text, all of them; etp where it is not that of tp."""
    return ",".join(f"{name}={parallelism.degree(name)}" for name in (FAMILIES if parallelism.etp is None else DEGREES))


# Field of GangRequest -> the annotation that says it; members of a gang agree in each.
ANNOTATIONS = {
    "size": keys.GANG_SIZE,
    "parallelism": keys.PARALLELISM,
    "order": keys.ORDER,
    "alpha": keys.ALPHA,
    "model": keys.MODEL,
    "microbatches": keys.MICROBATCHES,
    "constraints": keys.CONSTRAINTS,
    "gpu_types": keys.GPU_TYPES,
    "level": keys.LEVEL,
    "tp_level": keys.TP_LEVEL,
    "avoid": keys.AVOID,
    "peak_watts": keys.PEAK_WATTS,
}

_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_WATTS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?")
_WHOLE = re.compile(r"[0-9]{1,9}")
_DECIMAL = re.compile(r"[0-9]{0,3}\.?[0-9]{0,20}")


def parse_size(text: str) -> int:
    """Read a number of pods, or raise ``InvalidGang``: not a whole number from 1 to :data:`MOST_PODS`."""
    size = parse_whole(text)
    if size is None or not 1 <= size <= MOST_PODS:
        fix = f"write the number of pods of the gang, 1 to {MOST_PODS:,}"
        raise _unreadable(text, "is no number of pods", reason="InvalidGangSize", where=keys.GANG_SIZE, fix=fix)
    return size


def _unreadable(text: str, what: str, *, reason: str, where: str, fix: str) -> InvalidGang:
    return InvalidGang(f"{text[:40]!r} {what}", reason=reason, where=where, fix=fix)


def parse_whole(text: str | None) -> int | None:
    """Read a whole number in ASCII digits; ``None`` = it is none."""
    return int(text) if text is not None and _WHOLE.fullmatch(text) else None


def parse_alpha(text: str) -> float:
    """Read a DP affinity, or raise ``InvalidGang``: not a number between 0 and 1."""
    plain = text.strip()
    alpha = float(plain) if _DECIMAL.fullmatch(plain) and plain.strip(".") else -1.0
    if not 0.0 <= alpha <= 1.0:
        fix = "write a number between 0 and 1, like 0.3"
        raise _unreadable(text, "is no weight", reason="InvalidAlpha", where=keys.ALPHA, fix=fix)
    return alpha


def parse_level(text: str, *, key: str = keys.LEVEL) -> str:
    """Return a node label that may be a level of the cluster, or raise ``InvalidGang``: too long to be repeated."""
    size = size_of(text)
    if size > LONGEST_KEY:
        message = f"{text[:40]!r}... is no node label: it has {size:,} bytes"
        fix = f"name a node label of at most {LONGEST_KEY} bytes"
        raise InvalidGang(message, reason="InvalidLevel", where=key, fix=fix)
    return text


def parse_avoid(text: str) -> Avoid:
    """Read what to do about slow nodes, or raise ``InvalidGang``: no such word."""
    words = get_args(Avoid)
    if text not in words:
        fix = f"{did_you_mean(text[:40], words)}write one of {', '.join(words)}"
        raise _unreadable(text, "is not known", reason="InvalidAvoid", where=keys.AVOID, fix=fix)
    return cast(Avoid, text)


def parse_microbatches(text: str) -> int:
    """Read microbatches of a step, or raise ``InvalidGang``: no whole number from 1 to a billion."""
    if not (count := parse_whole(text.strip())):
        what, fix = "is no number of microbatches", "write the number of microbatches of a step, like 32"
        raise _unreadable(text, what, reason="InvalidMicrobatches", where=keys.MICROBATCHES, fix=fix)
    return count


def parse_model(text: str) -> Model:
    """Read the name or the shape of a model, or raise ``InvalidGang``: neither."""
    # not at the top: it takes pydantic, which most gangs can do without
    from scheduler.job_files.job_file import read_model

    with _reading(text, keys.MODEL, reason="InvalidModel"):
        return read_model(text)


@contextmanager
def _reading(text: str, key: str, *, reason: str) -> Iterator[None]:
    """Raise ``InvalidGang`` for what cannot be read, or would take long to, and much room in the caches of what was."""
    cut = isinstance(text, CutText)
    if cut or len(text) > keys.MOST_TEXT[key]:
        fix = f"write at most {keys.MOST_TEXT[key]:,} characters"
        size = f"{size_of(text):,} bytes" if cut else f"{len(text):,} characters"
        raise InvalidGang(f"it has {size}", reason=reason, where=key, fix=fix)
    try:
        yield
    except InvalidJob as error:
        raise InvalidGang(clip(error.message), reason=reason, where=key, fix=error.fix) from None


def parse_constraints(text: str) -> tuple[tuple[Hold, ...], tuple[Count, ...]]:
    """Read hard and soft constraints, or raise ``InvalidGang``: no list as in the job file, or levels are no labels."""
    from scheduler.job_files.job_file import read_constraints

    with _reading(text, keys.CONSTRAINTS, reason="InvalidConstraints"):
        constraints = read_constraints(text)
    for level in (*(hold.level for hold in constraints.holds), *(count.level for count in constraints.counts)):
        parse_level(level, key=keys.CONSTRAINTS)
    return constraints


def parse_gpu_types(text: str) -> tuple[str, ...] | None:
    """Read types of GPU, ``[H200, H100]`` as in the job file or ``H200,H100``; ``None`` = any, mixed or not.

    :raises InvalidGang: no type is named, or one is too long for the label of a node.
    """
    with _reading(text, keys.GPU_TYPES, reason="InvalidGpuTypes"):
        names = read_type_names(text)
    if names is not None and (len(names) > MOST_TYPES or not all(_LABEL_VALUE.fullmatch(name) for name in names)):
        fix = f"give at most {MOST_TYPES}, as the label of the nodes has them, like H200,H100"
        raise InvalidGang(
            f"{text[:80]!r} names no types of GPU", reason="InvalidGpuTypes", where=keys.GPU_TYPES, fix=fix
        )
    return names


def parse_degrees(text: str, *, order: str | None = None) -> Parallelism:
    """Read degrees of parallelism, or raise ``InvalidGang``: not like ``tp=8,dp=12``, or they cannot be."""
    try:
        return parse_parallelism(text, order=order)
    except InvalidJob as error:
        raise impossible_degrees(repr(text[:80]), error) from None


def parse_order(text: str) -> str:
    """Read the order of the dimensions, or raise ``InvalidGang``: it does not name each of them once."""
    try:
        return Parallelism(order=text.strip()).order
    except InvalidJob as error:
        message = f"{text[:80]!r} does not name tp, cp, ep, dp and pp once each"
        raise InvalidGang(message, reason="InvalidOrder", where=keys.ORDER, fix=error.fix) from None


def impossible_degrees(what: str, error: InvalidJob) -> InvalidGang:
    """Return the error that degrees of parallelism, as written or understood, cannot be read or make no job."""
    return InvalidGang(f"{what}: {error.message}", reason="InvalidParallelism", where=keys.PARALLELISM, fix=error.fix)


def parse_watts(text: str) -> float:
    """Read watts, or raise ``InvalidGang``: no number from 0 to a billion."""
    if not _WATTS.fullmatch(text.strip()):
        fix = "write what the pod draws at most, in watts, like 10200"
        raise _unreadable(text, "is no number of watts", reason="InvalidPeakWatts", where=keys.PEAK_WATTS, fix=fix)
    return float(text)


def watts_of(pod: Pod) -> float:
    """Return what a pod says that it draws at most; 0 where it says nothing, or what cannot be read."""
    try:
        return parse_watts(pod.annotations.get(keys.PEAK_WATTS, "0"))
    except InvalidGang:
        return 0.0


_UNITS = {"ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
_PLAIN = re.compile(r"[0-9]{1,12}(?:\.[0-9]{0,9})?")

_LONGEST = 80  # bytes of the longest hint that is read


@dataclass(frozen=True, slots=True)
class Hints:
    """What the pods of one gang say; ``seconds`` is how long it runs at most, ``doubts`` what cannot be read."""

    seconds: float | None = None
    preemptible: bool = False
    protected: bool = False  # whether one of them says that it may not be stopped, for whatever priority
    doubts: tuple[InvalidGang, ...] = ()


def hints_of(pods: Iterable[Pod]) -> Hints:
    """Return the hints of some pods: the longest duration that one of them says; preemptible when all of them are."""
    about = (pod.annotations for pod in pods)
    hints = keys.EXPECTED_DURATION, keys.PREEMPTIBLE
    texts = dict.fromkeys(tuple(written.get(hint, "") for hint in hints) for written in about)
    # What is longer than any hint stays as unreadable as it is.
    short = dict.fromkeys((clip(duration, _LONGEST), clip(word, _LONGEST)) for duration, word in texts)
    return _understood(tuple(short))


@lru_cache(4096)
def _understood(texts: tuple[tuple[str, str], ...]) -> Hints:
    """Return what durations and words about preemption come to; most pods say nothing, few something of their own."""
    durations = dict.fromkeys(duration for duration, _ in texts)
    preemptible = dict.fromkeys(word for _, word in texts)
    doubts = list[InvalidGang]()
    seconds = None
    for text in filter(None, durations):
        try:
            seconds = max(seconds or 0.0, parse_duration(text))
        except InvalidGang as error:
            doubts.append(error)
    fix = 'write "true" on all pods that may be stopped, "false" on those that may not, or leave it out'
    for text in (text for text in preemptible if text not in ("", "true", "false")):
        what = "is neither true nor false"
        doubts.append(_unreadable(text, what, reason="BadPreemptible", where=keys.PREEMPTIBLE, fix=fix))
    return Hints(seconds, preemptible.keys() == {"true"}, "false" in preemptible, tuple(doubts))


def parse_duration(text: str) -> float:
    """Read the seconds of a Go duration (``1h30m``) or of a number, or raise ``InvalidGang``: neither, or 0."""
    plain = text.strip()
    seconds = 0.0
    if _PLAIN.fullmatch(plain):
        seconds = float(plain)
    elif _DURATION.fullmatch(plain):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(plain))
    if seconds <= 0.0:
        fix = "write hours, minutes and seconds, like 36h or 1h30m, or seconds alone"
        raise _unreadable(text, "is no duration", reason="BadDuration", where=keys.EXPECTED_DURATION, fix=fix)
    return seconds
