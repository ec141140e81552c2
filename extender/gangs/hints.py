"""What pods say about themselves for queue policies: how long they will run, and whether they may be stopped.

Hints place nothing: one that cannot be read is a warning, and the policy does without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from extender.gangs.types import InvalidGang
from extender.kubernetes_names import EXPECTED_DURATION, PREEMPTIBLE
from extender.texts import clip
from topology.readers.kubernetes_pods import Pod

_UNITS = {"ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
_PLAIN = re.compile(r"[0-9]{1,12}(?:\.[0-9]{0,9})?")

_LONGEST = 80  # bytes of the longest hint that is read


@dataclass(frozen=True, slots=True)
class Hints:
    """What the pods of one gang say; ``seconds`` is how long it runs at most, ``doubts`` what cannot be read."""

    seconds: float | None = None
    preemptible: bool = False
    doubts: tuple[InvalidGang, ...] = ()


def hints_of(pods: Iterable[Pod]) -> Hints:
    """Return the hints of some pods: the longest duration that one of them says; preemptible when all of them are."""
    texts = ((pod.annotations.get(EXPECTED_DURATION, ""), pod.annotations.get(PREEMPTIBLE, "")) for pod in pods)
    # What is longer than any hint stays as unreadable as it is.
    said = dict.fromkeys((clip(duration, _LONGEST), clip(word, _LONGEST)) for duration, word in texts)
    return _understood(tuple(said))


@lru_cache(4096)
def _understood(said: tuple[tuple[str, str], ...]) -> Hints:
    """Return what durations and words about preemption come to; most pods say nothing, few something of their own."""
    durations = dict.fromkeys(duration for duration, _ in said)
    preemptible = dict.fromkeys(word for _, word in said)
    doubts = list[InvalidGang]()
    seconds = None
    for text in filter(None, durations):
        try:
            seconds = max(seconds or 0.0, parse_duration(text))
        except InvalidGang as error:
            doubts.append(error)
    fix = 'write "true" on all pods that may be stopped, or leave it out'
    for text in (text for text in preemptible if text not in ("", "true", "false")):
        message = f"{text[:40]!r} is neither true nor false"
        doubts.append(InvalidGang(message, reason="BadPreemptible", where=PREEMPTIBLE, fix=fix))
    return Hints(seconds, preemptible.keys() == {"true"}, tuple(doubts))


def parse_duration(text: str) -> float:
    """Read the seconds of a Go duration (``1h30m``) or of a number, or raise ``InvalidGang``: neither, or 0."""
    plain = text.strip()
    seconds = 0.0
    if _PLAIN.fullmatch(plain):
        seconds = float(plain)
    elif _WHOLE.fullmatch(plain):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(plain))
    if seconds <= 0.0:
        fix = "write hours, minutes and seconds, like 36h or 1h30m, or seconds alone"
        raise InvalidGang(f"{text[:40]!r} is no duration", reason="BadDuration", where=EXPECTED_DURATION, fix=fix)
    return seconds
