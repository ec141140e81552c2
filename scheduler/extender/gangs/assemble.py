"""The members of one gang, put together: ranks, size, job, and what is missing or wrong."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.extender.gangs.types import Gang, GangKey, Member


def assemble(key: GangKey, members: Iterable[Member]) -> Gang:
    """All that is known of a gang."""
    raise NotImplementedError
