"""``--at`` and other options that name a time, as people write times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from arnold.options.shared_options import AT_HELP
from ground.errors import InvalidInput

F = TypeVar("F", bound=Callable[..., Any])


def at_option(function: F) -> F:
    """Give a command ``--at``, the present by default."""
    option = click.option("--at", metavar="TIME", help=f"{AT_HELP}  [default: now]")
    return option(function)


def present(at: str | None) -> datetime:
    """Return the time at which something was found: that of ``--at``, or now.

    :raises InvalidInput: it is no time with a time zone, or lies in the future.
    """
    now = datetime.now(UTC)
    if at is None:
        return now
    found = parse_time(at, option="--at")[0]
    if found > now:
        raise InvalidInput(
            f"{at} lies in the future: nothing would be taken in before",
            where="--at",
            fix="give the time at which it was found; a flag that is to begin later says so itself (since)",
        )
    return found


def parse_time(text: str, *, option: str) -> tuple[datetime, datetime]:
    """Return the first and last instant of what is named: a time with a time zone, or a day in UTC (``2026-11-17``).

    :raises InvalidInput: neither.
    """
    try:
        parsed = datetime.fromisoformat(text)
        if len(text) == len("2026-11-17"):
            first = parsed.replace(tzinfo=UTC)
            return first, first + timedelta(days=1) - timedelta(microseconds=1)
        if parsed.tzinfo is not None:
            parsed = parsed.astimezone(UTC)
            return parsed, parsed
    except (ValueError, OverflowError):
        pass
    raise InvalidInput(
        f"{text[:40]!r} is no time with a time zone and no day",
        where=option,
        fix="write a time such as 2026-11-17T14:00:00Z, or a day such as 2026-11-17 (in UTC)",
    )
