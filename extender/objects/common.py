"""What all objects of Kubernetes have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from topology.readers.kubernetes_gpus import GPU


class Object(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Anything of Kubernetes: camelCase names, unknown fields ignored."""


class OwnerReference(Object, frozen=True):
    """Who made an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(Object, frozen=True):
    """Who an object is."""

    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class Amounts(Object, frozen=True):
    """Of all resources, the GPUs."""

    gpu: Any = msgspec.field(default=None, name=GPU)


START_OF_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def instant(text: str | None) -> datetime:
    """A timestamp of Kubernetes, ``2026-11-21T09:30:00Z``; the start of time where there is none."""
    try:
        parsed = datetime.fromisoformat(text or "")
    except ValueError:
        return START_OF_TIME
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
