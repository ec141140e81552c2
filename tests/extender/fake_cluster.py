"""An API server in memory, at the line where the extender meets the real one.

It keeps objects as dictionaries, counts versions, refuses what a real server refuses (stale versions, failed tests of a
patch), and remembers what it was asked.  Trouble is ordered beforehand: ``fail_next`` makes the next requests fail.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from extender.cluster_api.client import (
    PODS,
    ClusterError,
    Conflict,
    Document,
    Gone,
    LongAnswer,
    NotFound,
    PatchKind,
    Resource,
)

Key = tuple[str, str]


class FakeCluster:
    """See the module."""

    def __init__(self) -> None:
        self.context = "made"
        self.version = 100
        self.objects: dict[str, dict[Key, Document]] = defaultdict(dict)
        self.asked: list[tuple[str, str, str]] = []
        """What was asked: verb, plural, name."""
        self.oldest = 0
        """Versions before this one are forgotten."""
        self._history: dict[str, list[tuple[int, str, Document]]] = defaultdict(list)
        self._news = asyncio.Event()
        self._failures: list[tuple[str, Exception]] = []
        self._hung_up = 0
        self.watches = 0  # that are open

    # What tests do to it

    def fail_next(self, verb: str, *errors: Exception) -> None:
        """Let the next requests of a verb fail, one with each error."""
        self._failures += [(verb, error) for error in errors]

    def hang_up(self) -> None:
        """End all watches that are open."""
        self._hung_up += 1
        self._wake()

    def forget_history(self) -> None:
        """Forget all versions so far, as a server does after some minutes."""
        self.oldest = self.version + 1
        self.version += 1

    def say(self, resource: Resource, kind: str, document: Any) -> None:
        """Put a line into the watches of a kind, whatever it says."""
        self.version += 1
        self._history[resource.plural].append((self.version, kind, document))
        self._wake()

    def put(self, resource: Resource, document: Document) -> Document:
        """Create or change an object, as somebody else would."""
        metadata = document.setdefault("metadata", {})
        key = (metadata.get("namespace", ""), metadata["name"])
        kept = self.objects[resource.plural]
        kind = "MODIFIED" if key in kept else "ADDED"
        self._store(resource, key, document, kind)
        return document

    def remove(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Delete an object, as somebody else would."""
        gone = self.objects[resource.plural].pop((namespace, name))
        self.version += 1
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._history[resource.plural].append((self.version, "DELETED", gone))
        self._wake()

    def find(self, resource: Resource, name: str, namespace: str = "") -> Document:
        """An object as it is now."""
        return self.objects[resource.plural][namespace, name]

    # What the extender asks of it

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> bytes:
        """One object."""
        self._ask("get", resource, name)
        return _bytes(self._find(resource, name, namespace))

    async def served(self, resource: Resource) -> Resource:
        """A kind in the version that is asked for, or else in the only one."""
        return replace(resource, version=resource.version or "v1")

    async def read(self, path: str) -> bytes:
        """A document about itself, of which nobody reads more than that it is there."""
        self.asked.append(("read", path, ""))
        self._fail("read")
        return b"{}"

    async def page(
        self, resource: Resource, *, limit: int = 500, token: str = "", most_bytes: int | None = None
    ) -> bytes:
        """A page of a list; the token is the place of the next object."""
        self._ask("page", resource, token)
        everything = [one for _, one in sorted(self.objects[resource.plural].items(), key=lambda item: item[0])]
        start = int(token or 0)
        rest = str(start + limit) if start + limit < len(everything) else ""
        metadata = {"resourceVersion": str(self.version), "continue": rest}
        body = _bytes({"metadata": metadata, "items": everything[start : start + limit]})
        if most_bytes is not None and len(body) > most_bytes:
            raise LongAnswer("too large")
        return body

    async def watch(self, resource: Resource, *, version: str) -> AsyncGenerator[Sequence[bytes]]:
        """An empty list as soon as it is open, then changes after a version, until :meth:`hang_up`."""
        self._ask("watch", resource, version)
        if int(version) < self.oldest:
            raise Gone("too old", status=410, reason="Expired")
        seen, calls = int(version), self._hung_up
        self.watches += 1
        try:
            yield []
            while calls == self._hung_up:
                news = [one for one in self._history[resource.plural] if one[0] > seen]
                if news:
                    seen = news[-1][0]
                    yield [_bytes({"type": kind, "object": document}) for _, kind, document in news]
                else:
                    await self._news.wait()
        finally:
            self.watches -= 1

    async def create(self, resource: Resource, document: Document, *, namespace: str = "") -> bytes:
        """Make an object."""
        name = document["metadata"]["name"]
        self._ask("create", resource, name)
        if (namespace, name) in self.objects[resource.plural]:
            raise Conflict("exists", status=409, reason="AlreadyExists")
        made = copy.deepcopy(document)
        made["metadata"].setdefault("uid", f"uid-{self.version}")
        self._store(resource, (namespace, name), made, "ADDED")
        return _bytes(made)

    async def replace(
        self, resource: Resource, name: str, document: Document, *, namespace: str = "", subresource: str = ""
    ) -> bytes:
        """Write an object or a subresource, unless somebody was faster."""
        self._ask(f"replace{'/' * bool(subresource)}{subresource}", resource, name)
        before = self._find(resource, name, namespace)
        wanted = document["metadata"].get("resourceVersion")
        if wanted is not None and wanted != before["metadata"]["resourceVersion"]:
            raise Conflict("changed since", status=409, reason="Conflict")
        parts = [subresource] if subresource else [part for part in document if part not in ("metadata", "status")]
        after = copy.deepcopy(before) | {part: copy.deepcopy(document[part]) for part in parts if part in document}
        self._store(resource, (namespace, name), after, "MODIFIED")
        return _bytes(after)

    async def patch(
        self,
        resource: Resource,
        name: str,
        change: Document,
        *,
        kind: PatchKind,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes:
        """A merge patch, all or nothing."""
        self._ask("patch", resource, name)
        before = self._find(resource, name, namespace)
        after = merged(before, change)
        self._store(resource, (namespace, name), after, "MODIFIED")
        return _bytes(after)

    async def delete(self, resource: Resource, name: str, *, namespace: str = "", uid: str = "") -> None:
        """Delete an object."""
        self._ask("delete", resource, name)
        found = self._find(resource, name, namespace)
        if uid and found["metadata"]["uid"] != uid:
            raise Conflict("another", status=409, reason="Conflict")
        self.remove(resource, name, namespace)

    async def evict(self, name: str, *, namespace: str, uid: str, dry_run: bool = False) -> None:
        """Have a pod leave, which it has when a test removes it; or see whether that could be."""
        self._ask("evict-dry-run" if dry_run else "evict", PODS, name)
        after = copy.deepcopy(self._find(PODS, name, namespace))
        if after["metadata"]["uid"] != uid:
            raise Conflict("another", status=409, reason="Conflict")
        if not dry_run:
            after["metadata"]["deletionTimestamp"] = "2100-01-01T00:00:00Z"
            _merge(after, {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}})
            self._store(PODS, (namespace, name), after, "MODIFIED")

    def _ask(self, verb: str, resource: Resource, name: str) -> None:
        self.asked.append((verb, resource.plural, name))
        self._fail(verb)

    def _fail(self, verb: str) -> None:
        for i, (failing, error) in enumerate(self._failures):
            if failing == verb:
                del self._failures[i]
                raise error

    def _find(self, resource: Resource, name: str, namespace: str) -> Document:
        try:
            return self.objects[resource.plural][namespace, name]
        except KeyError:
            raise NotFound(f"{name} not found", status=404, reason="NotFound") from None

    def _store(self, resource: Resource, key: Key, document: Document, kind: str) -> None:
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        self.objects[resource.plural][key] = document
        self._history[resource.plural].append((self.version, kind, copy.deepcopy(document)))
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class Mirror:
    """A sink that keeps dictionaries."""

    def __init__(self) -> None:
        self.objects: dict[Key, Document] = {}
        self.replaced = 0

    def replace(self, objects: Iterable[Document]) -> None:
        """These are all."""
        self.replaced += 1
        self.objects = {_key(one): one for one in objects}

    def put(self, found: Document) -> None:
        """An object is new or has changed."""
        self.objects[_key(found)] = found

    def remove(self, namespace: str, name: str) -> None:
        """An object is gone."""
        self.objects.pop((namespace, name), None)

    def knows(self, namespace: str, name: str, version: str) -> bool:
        """Whether this version of an object is here."""
        found = self.objects.get((namespace, name))
        return found is not None and found["metadata"]["resourceVersion"] == version

    @property
    def names(self) -> list[str]:
        """Names of all objects."""
        return sorted(name for _, name in self.objects)


def unreachable() -> ClusterError:
    """What a server that is away looks like."""
    from extender.cluster_api.client import Unreachable

    return Unreachable("the API server does not answer", fix="start it")


async def soon(turns: int = 20) -> None:
    """Let all tasks do what they can without waiting."""
    for _ in range(turns):
        await asyncio.sleep(0)


def _key(document: Document) -> Key:
    return document["metadata"].get("namespace", ""), document["metadata"]["name"]


def _bytes(document: Any) -> bytes:
    return json.dumps(document).encode()


def merged(document: Document, change: Document) -> Document:
    """A copy of an object after a merge patch (RFC 7386), all of it or nothing.

    :raises Conflict: it is another object, or another version of it.
    """
    after, known = copy.deepcopy(document), change["metadata"]
    for field in ("uid", "resourceVersion"):
        if known.get(field, there := after["metadata"].get(field)) != there:
            raise Conflict(f"{field} is {there!r}", status=409, reason="Conflict")
    _merge(after, change)
    return after


def _merge(target: Document, change: Document) -> None:
    for key, value in change.items():
        if value is None:
            target.pop(key, None)
        elif key == "conditions":
            new = {one["type"] for one in value}
            target[key] = [one for one in target.get(key, []) if one["type"] not in new] + value
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


def stand_in(api: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands find this instead of a cluster."""

    async def connect(_: object) -> Any:
        return Opened(api)

    monkeypatch.setattr("extender.cluster_api.connect.connect", connect)


class Opened:
    """What commands find instead of a cluster."""

    def __init__(self, api: FakeCluster) -> None:
        self._api = api

    async def __aenter__(self) -> FakeCluster:
        return self._api

    async def __aexit__(self, *_: object) -> None:
        return None
