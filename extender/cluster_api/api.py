"""The face of a cluster that the rest of the extender sees: bytes in, bytes out, errors of the house.

Objects cross this line as JSON, decoded where the few fields that matter are known.  The client library's generated
models know every field of every kind: a pod of 3 kB takes 0.5 ms and 64 kB in them, 15 microseconds and 3 kB in the
structs of :mod:`extender.objects`; and the library's informer builds on them, in threads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Protocol

from extender.cluster_api.resource import Resource

PatchKind = Literal["json-patch", "merge-patch", "strategic-merge-patch"]
"""RFC 6902 (a list of operations), RFC 7386 (a piece of the object), or that with lists merged by key, as Kubernetes
does with its own kinds."""

Document = dict[str, Any]
"""An object to be written, as it stands in JSON."""


class ClusterApi(Protocol):
    """What can be asked of a cluster.  Every method raises :class:`Unreachable` or a kind of :class:`Refused`."""

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> bytes:
        """Return one object."""

    async def page(
        self, resource: Resource, *, namespace: str = "", limit: int = 500, token: str = "", selector: str = ""
    ) -> bytes:
        """Return a page of a list.

        :param token: ``metadata.continue`` of the page before; empty = the first page.
        :param selector: labels of the objects that are wanted.
        :raises Gone: the list took so long that its snapshot is forgotten.
        """

    def watch(self, resource: Resource, *, version: str, namespace: str = "") -> AsyncIterator[Sequence[bytes]]:
        """Yield changes after a version, each a JSON object with ``type`` and ``object``; several when they come close
        together.  Ends when the server ends it, every few minutes.
        """

    async def create(self, resource: Resource, document: Document, *, namespace: str = "") -> bytes:
        """Make an object.

        :raises Conflict: it exists.
        """

    async def replace(
        self, resource: Resource, name: str, document: Document, *, namespace: str = "", subresource: str = ""
    ) -> bytes:
        """Write a whole object, or a part such as ``status``.

        :raises Conflict: it is no longer at the ``resourceVersion`` that the document names.
        """

    async def patch(
        self,
        resource: Resource,
        name: str,
        change: list[Document] | Document,
        *,
        kind: PatchKind,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes:
        """Change some fields of an object.

        :raises PatchFailed: a ``test`` does not hold.
        """

    async def delete(self, resource: Resource, name: str, *, namespace: str = "", uid: str = "") -> None:
        """Delete an object.

        :param uid: refuse unless it is this very object.
        :raises Conflict: it is another of the same name.
        """
