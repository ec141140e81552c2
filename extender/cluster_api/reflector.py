"""A copy in memory of all objects of a kind: list once, then watch, and list again when history is lost.

Guarantees, given an API server that comes back some time:

- The sink first gets everything there is, then every later change in order; after a gap it gets everything again.
- Nothing an object says ends the loop: one that cannot be decoded is left out, and that is said once for each version.
- A dead connection is noticed: a watch that is silent for long is started again, from where it was.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from extender.cluster_api.client import ClusterApi, ClusterError, Gone, LongAnswer, Refused, Resource, read_as, refusal
from extender.cluster_api.flow import Backoff
from ground.errors import InvalidInput

logger = logging.getLogger(__name__)

T = TypeVar("T")

REFUSED_SECONDS = 30.0  # a kind that was there is taken for absent when it was refused for so long
STARTING_SECONDS = 10.0  # a kind that gangs hang on is taken for absent when it was refused for so long at the start
HASTY_SECONDS = 1.0  # a watch that ends so soon without a word is not started again at once
PAGE = 500  # objects of a page of a list, at most
PAGE_BYTES = 2**25  # of a page that is read; pods of 10 kB make 5 MB of it, but one may have more than a megabyte
FEWER = 8  # of a page that has more, so small a part is asked for; pages of large objects then have about a quarter


def version_number(text: str) -> int:
    """Return a resourceVersion to compare (KEP-5504): a decimal number; 0 for anything else."""
    return int(text) if text.isdecimal() else 0


class Identity(NamedTuple):
    """What tells an object from others: its place (namespace and name) in the API server, its key in the cache."""

    place: tuple[str, str]
    key: Any
    uid: str
    version: int  # as :func:`version_number` has it


class ObjectStore(Generic[T]):
    """The objects of one kind in the cache: a reflector fills it, and the writer tells it of its answers."""

    def __init__(
        self, put: Callable[[T], object], drop: Callable[[Any], object], identify: Callable[[T], Identity]
    ) -> None:
        self._put, self._drop, self._identify = put, drop, identify
        self._held: dict[tuple[str, str], Identity] = {}

    def replace(self, objects: Iterable[T]) -> None:
        """Take up a new list of all objects, whatever their versions: those that are not in it are gone."""
        items = {identity.place: (identity, item) for item in objects for identity in (self._identify(item),)}
        for place in self._held.keys() - items.keys():
            self.remove(*place)
        for identity, item in items.values():
            self._set(identity, item)

    def put(self, item: T) -> None:
        """Take up an object that appeared or changed, unless a newer version of it is known."""
        new = self._identify(item)
        if (old := self._held.get(new.place)) is None or new.version >= old.version:
            self._set(new, item)

    def wrote(self, answer: T, *, new: bool = False) -> None:
        """Take up the answer to a write of ours; an object that is gone stays gone, unless it was made just now."""
        written = self._identify(answer)
        held = self._held.get(written.place)
        if new or (held is not None and held.uid == written.uid):
            self.put(answer)

    def knows(self, namespace: str, name: str, version: str) -> bool:
        """Return whether this very version of an object is known: the watch repeats what an answer has said."""
        held = self._held.get((namespace, name))
        return held is not None and held.version == version_number(version) > 0

    def pass_over(self, namespace: str, name: str, version: str) -> None:
        """Take a version of an object for known, in which nothing that is kept is another."""
        if (held := self._held.get((namespace, name))) is not None and held.version < version_number(version):
            self._held[namespace, name] = held._replace(version=version_number(version))

    def remove(self, namespace: str, name: str) -> None:
        """Forget an object."""
        if (old := self._held.pop((namespace, name), None)) is not None:
            self._drop(old.key)

    def _set(self, new: Identity, item: T) -> None:
        old = self._held.get(new.place)
        if old is not None and old.key != new.key:
            self._drop(old.key)
        self._held[new.place] = new
        self._put(item)


class _Meta(msgspec.Struct, rename={"resource_version": "resourceVersion", "token": "continue"}):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    token: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta


class ListPage(_Object):
    """A page of a list, its objects unread."""

    items: list[msgspec.Raw] | None = None


class _Change(msgspec.Struct):
    type: str
    object: msgspec.Raw


async def pages_of(api: ClusterApi, resource: Resource) -> AsyncIterator[ListPage]:
    """Yield the pages of the list of all objects of a kind; raise :class:`ClusterError` when it cannot be listed."""
    token, limit = "", PAGE
    while True:
        try:
            body = await api.page(resource, limit=limit, token=token, most_bytes=PAGE_BYTES if limit > 1 else None)
        except LongAnswer:
            limit = max(1, limit // FEWER)
            continue
        page = read_as(body, ListPage, f"listing {resource.plural}")
        limit = min(PAGE, max(1, len(page.items or ()) * PAGE_BYTES // (4 * len(body))))
        yield page
        if not (token := page.metadata.token):
            return


async def objects_of(api: ClusterApi, resource: Resource) -> AsyncIterator[bytes]:
    """Yield all objects of a kind, unread; raise as :func:`pages_of`."""
    async for page in pages_of(api, resource):
        for raw in page.items or ():
            yield bytes(raw)


@dataclass(eq=False)
class Reflector(Generic[T]):
    """Keeps a sink up to date; :meth:`run` never returns."""

    api: ClusterApi
    resource: Resource
    _: KW_ONLY
    decode: Callable[[bytes], T]  # raises InvalidInput for what is no such object
    sink: ObjectStore[T]  # all its methods return at once
    changed: Callable[[], None] = lambda: None  # called after the sink was given something
    optional: bool = False  # a kind that the cluster need not have, or let us see: then there are no objects of it
    # what is not known without an optional kind, said once; as gangs hang on it, a refusal is believed later than of
    # other kinds, and never once it was there
    missed: str = ""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    synced: bool = field(default=False, init=False)  # whether the sink has been given everything at least once
    # why the copy may be out of date; None while list or watch works
    problem: ClusterError | None = field(default=None, init=False)
    # why an optional kind is taken for absent; None = it is not
    absent: Refused | None = field(default=None, init=False)
    _served: Resource = field(init=False)  # in the version that was listed
    _version: str | None = field(default=None, init=False)
    _backoff: Backoff = field(default_factory=lambda: Backoff(first=0.2, longest=10.0), init=False)
    # between two looks whether a kind is there that was not
    _looks: Backoff = field(default_factory=lambda: Backoff(first=0.5, longest=60.0), init=False)
    # seconds of pauses for which it may still be refused; a server that has just started refuses what it will allow
    _patience: float = field(default=0.0, init=False)
    _there: bool = field(default=False, init=False)  # whether it could be listed once

    def __post_init__(self) -> None:
        """Begin with patience for what gangs hang on."""
        self._patience = STARTING_SECONDS if self.missed else 0.0

    async def run(self) -> None:
        """List, watch, and start over for ever."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                await self._watch(self._version or "")
            except Gone:
                logger.info("history of %s is gone: listing again", self.resource.plural)
                self._version = None
                await self.sleep(self._backoff.next())
            except ClusterError as error:
                refused = self.optional and isinstance(error, Refused) and error.status in (403, 404)
                refused &= not (self.missed and self._there)
                unknown = isinstance(error, Refused) and error.status == 404 and not self._there
                if isinstance(error, Refused) and refused and (self._patience <= 0 or unknown):
                    await self._do_without(error)
                    continue
                pause = self._backoff.next()
                self._patience -= pause * refused
                level = logging.DEBUG if self.problem is not None else logging.WARNING
                logger.log(level, "%s cannot be followed, trying again until they can: %s", self.resource.plural, error)
                self.problem = error
                self.changed()
                await self.sleep(pause)

    async def _do_without(self, why: Refused) -> None:
        """Take the kind for absent, and look again: soon at first, as it may be about to come."""
        level = logging.INFO if self.missed and not self.synced else logging.DEBUG
        if why.status == 403 and (self.absent is None or self.absent.status != 403):
            level = logging.WARNING  # it may be there, and gangs wait for what it says
        logger.log(level, "%s: none%s, as %s", self.resource.plural, self.missed, why.message)
        self._version, self.absent = None, why
        self.sink.replace(())
        self.synced = True
        self._works()
        self._backoff.reset()
        self._patience = 0.0
        self.changed()
        await self.sleep(self._looks.next())

    async def _list(self) -> None:
        objects: list[T] = []
        self._served = await self.api.served(self.resource)
        async for page in pages_of(self.api, self._served):
            objects.extend(item for item in (self._decoded(raw) for raw in page.items or ()) if item is not None)
            if page.metadata.token:
                # Others have their turn between two pages.
                await self.sleep(0)
        self.sink.replace(objects)
        self._version = page.metadata.resource_version
        self.synced = self._there = True
        self.absent = None
        self._works()
        self._backoff.reset()
        self._looks.reset()
        self.changed()

    async def _watch(self, version: str) -> None:
        """Take up changes, or raise ``Gone``: history is lost, ``ClusterError``: the watch cannot go on."""
        heard, started, where = False, monotonic(), f"watching {self.resource.plural}"
        async with aclosing(self.api.watch(self._served, version=version)) as watch:
            async for lines in watch:
                for line in lines:
                    change = read_as(line, _Change, where)
                    if change.type == "ERROR":
                        raise refusal(None, bytes(change.object), where=where)
                    head = self._head(change.object)
                    self._version = head.resource_version or self._version
                    if change.type == "BOOKMARK":
                        continue
                    if change.type == "MODIFIED" and self.sink.knows(head.namespace, head.name, head.resource_version):
                        continue
                    item = None if change.type == "DELETED" else self._decoded(change.object)
                    if item is None:
                        self.sink.remove(head.namespace, head.name)
                    else:
                        self.sink.put(item)
                self._works()
                if lines:
                    heard = True
                    self._backoff.reset()
                    self.changed()
        if not heard and monotonic() < started + HASTY_SECONDS:
            await self.sleep(self._backoff.next())

    def _decoded(self, raw: msgspec.Raw) -> T | None:
        try:
            return self.decode(bytes(raw))
        except InvalidInput as error:
            head = self._head(raw)
            logger.warning("%s is left out: %s", self.resource.named(head.name, head.namespace), error)
            return None

    def _head(self, raw: msgspec.Raw) -> _Meta:
        try:
            return msgspec.json.decode(raw, type=_Object).metadata
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _Meta()

    def _works(self) -> None:
        if self.problem is not None:
            logger.info("%s can be followed again", self.resource.plural)
        self.problem = None
        self._patience = REFUSED_SECONDS
