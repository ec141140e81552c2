"""What can go wrong between us and the API server; the client library's exceptions never leave this package."""

from __future__ import annotations

import msgspec

from extender.texts import clip
from ground.errors import ArnoldError, InvalidInput

LONGEST_REASON = 1024  # bytes of what the API server says that are repeated; it may quote the object that it refuses


class InvalidKubeconfig(InvalidInput):
    """A kubeconfig that cannot be used, or no way to find a cluster at all."""


class ClusterError(ArnoldError):
    """The cluster did not do what was asked."""


class Unreachable(ClusterError):
    """The API server did not answer: away, refusing connections, or showing a certificate that we do not trust."""


class LongAnswer(ClusterError):
    """The API server answered with more than is read at once: ask for less."""


class Refused(ClusterError):
    """The API server said no, for a reason of one word, to be asked again after some seconds; 0 = it did not say."""

    def __init__(
        self, message: str, *, status: int, reason: str, retry_after: float = 0.0, where: str = "", fix: str = ""
    ) -> None:
        super().__init__(message, where=where, fix=fix)
        self.status, self.reason, self.retry_after = status, reason, retry_after


class NotFound(Refused):
    """There is no such object, or no such kind."""


class Conflict(Refused):
    """The object was written since we read it, or exists already."""


class Gone(Refused):
    """The version that a list or watch asked for is forgotten: list again."""


class PatchFailed(Refused):
    """A ``test`` of a JSON patch did not hold, or the patch leads to an object that cannot be."""


class Busy(Refused):
    """The API server has too much to do, or is starting or stopping: ask again later."""


class _Status(msgspec.Struct):
    """The Status object in which the API server says why not."""

    message: str | None = ""
    reason: str | None = ""
    code: int = 0


_KINDS: dict[int, type[Refused]] = {404: NotFound, 409: Conflict, 410: Gone, 422: PatchFailed}
_KINDS |= dict.fromkeys((429, 500, 502, 503, 504), Busy)

_FIXES = {
    401: "check the user, token or certificate of the kubeconfig; a token may have run out",
    403: "grant the role that manifests/ gives to arnold, or use a kubeconfig that may do it",
    404: "check the name; if a whole kind is unknown, apply the CRDs: kubectl apply -k manifests/",
}


def refusal(status: int | None, body: bytes, *, where: str, retry_after: float = 0.0) -> Refused:
    """Return the error for an answer that is none of 2xx.

    :param status: HTTP status; ``None`` = the body says it.
    :param body: a Status object, or whatever something between us and the API server wrote.
    """
    try:
        said = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = _Status(message=body[:200].decode("utf-8", "replace").strip())
    status = said.code or 500 if status is None else status
    message = clip(said.message or "", LONGEST_REASON) or f"HTTP {status} without a reason"
    kind, fix = _KINDS.get(status, Refused), _FIXES.get(status, "")
    message = f"the API server answered {status}: {message}"
    return kind(message, status=status, reason=said.reason or "", retry_after=retry_after, where=where, fix=fix)
