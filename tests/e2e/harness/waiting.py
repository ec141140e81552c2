"""Waiting for what happens elsewhere: as long as it takes, and not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class WaitedTooLong(AssertionError):
    """What was waited for did not happen in time."""


def wait_until(condition: Callable[[], T | None], what: str, *, seconds: float = 60.0, every: float = 0.1) -> T:
    """Ask again and again until the answer is true, and return it.

    :param what: what is waited for, as in "waited in vain for ...".
    :param seconds: the deadline bounds a failure; it says nothing about how fast anything should be.
    :raises WaitedTooLong: it is not true by then; says the last answer.
    """
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise WaitedTooLong(f"waited {seconds:g} s in vain for {what}; the last answer was {answer!r}")
        time.sleep(every)


def stays(condition: Callable[[], bool], what: str, *, seconds: float = 3.0, every: float = 0.2) -> None:
    """Check that something is so now and remains so for a while.

    :raises AssertionError: it is not, at some time.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), f"it should stay so that {what}"
        time.sleep(every)
