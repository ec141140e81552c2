"""One pod: which gang it belongs to, and where it stands in it."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.extender.gangs.types import Member
from scheduler.extender.objects import Owner, Pod

Owners = Mapping[str, Owner]
"""Makers of pods and PodGroups that are known, by UID and by ``kind/namespace/name``."""


def recognise(pod: Pod, owners: Owners) -> Member | None:
    """The gang a pod belongs to, and its place there.

    :returns: ``None`` when the pod is nobody's member.
    """
    raise NotImplementedError
