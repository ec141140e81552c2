"""Connecting: which cluster, as what user (a kubeconfig or the service account of a pod), and a question from the
command line.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from extender.cluster_api.client import ClusterApi, InvalidKubeconfig
from extender.cluster_api.flow import FlowControl
from ground.errors import did_you_mean

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration

logger = logging.getLogger(__name__)

RENEW_SECONDS = 30.0  # seconds until a token that could not be renewed is tried again

_HOST = "KUBERNETES_SERVICE_HOST"
_USUAL = "~/.kube/config"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A server, and what to show it."""

    configuration: Configuration  # of the client library; what of it changes with time is renewed in place
    source: str  # where it was found, for people
    # renews a token that a plug-in hands out, for as long as it is awaited; None = nothing to renew
    renew_token: Callable[[], Awaitable[None]] | None = None
    context: str = ""  # name of the context of the kubeconfig; empty = there is none, we run in a pod of the cluster


async def find_cluster(kubeconfig: str | None, *, context: str | None = None) -> Credentials:
    """Return the cluster that a kubeconfig names, or that we run in.

    :param kubeconfig: a file; ``None`` = ``$KUBECONFIG``, then, unless a context is named, the service account of the
        pod we run in, then ``~/.kube/config``.
    :param context: which context of the file; ``None`` = its current one.
    :raises InvalidKubeconfig: the file is missing or unusable, has no such context, or there is nothing to go by.
    """
    if kubeconfig is None and context is None and not os.environ.get("KUBECONFIG") and os.environ.get(_HOST):
        from kubernetes.aio.client import Configuration
        from kubernetes.aio.config import ConfigException, load_incluster_config

        configuration = Configuration()
        try:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        except (ConfigException, OSError) as error:
            message = f"the service account of this pod cannot be used: {error}"
            fix = "set automountServiceAccountToken: true on the pod, or give --kubeconfig FILE"
            raise InvalidKubeconfig(message, where=f"${_HOST}", fix=fix) from error
        return Credentials(configuration, "the service account of this pod")
    path = kubeconfig or os.environ.get("KUBECONFIG") or _USUAL
    return await _from_file(path, context, where="--kubeconfig" if kubeconfig else path)


async def _from_file(path: str, context: str | None, *, where: str) -> Credentials:
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import load_kube_config
    from kubernetes.aio.config.kube_config import refresh_token

    files = [Path(part).expanduser() for part in path.split(os.pathsep) if part]
    if not any(file.is_file() for file in files):
        fix = (
            "name a kubeconfig in $KUBECONFIG, or by --kubeconfig FILE where the command has that; "
            "or run inside a pod with a service account"
        )
        raise InvalidKubeconfig(f"there is no file {path}", where=where, fix=fix)
    configuration = Configuration()
    try:
        _check_context(path, context, where)
        loader = await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=path, context=context, client_configuration=configuration, persist_config=False
        )
        _check(loader, configuration)
    except InvalidKubeconfig:
        raise
    except OSError as error:
        raise _unusable(path, where, f"{error.filename or path}: {error.strerror}") from error
    except Exception as error:  # The library lets out whatever the YAML makes it stumble over.
        raise _unusable(path, where, str(error) or type(error).__name__) from error
    renew_token = None
    if loader.provider == "gcp" or "exec" in (loader._user or ()):

        async def renew_token() -> None:
            while True:
                try:
                    await refresh_token(loader, configuration)  # type: ignore[no-untyped-call]
                except Exception as error:  # Whatever a plug-in comes up with; the token before may still do.
                    logger.warning("the token of %s was not renewed, trying again: %s", path, error)
                await asyncio.sleep(RENEW_SECONDS)

    return Credentials(configuration, path, renew_token, str(loader.current_context["name"]))


def _check_context(path: str, context: str | None, where: str) -> None:
    """Raise :class:`InvalidKubeconfig` for a context that the file does not have, or where it has no current one."""
    from kubernetes.aio.config.kube_config import KubeConfigMerger

    config = KubeConfigMerger(path).config.value  # type: ignore[no-untyped-call]
    contexts = [str(entry["name"]) for entry in config.get("contexts") or ()]
    wanted = context or config.get("current-context")
    listed = f"contexts of the file: {', '.join(contexts) or 'none'}"
    unusable = f"the kubeconfig {path} cannot be used"
    if not wanted:
        fix = f"name a context, or choose one: kubectl config use-context NAME; {listed}"
        raise InvalidKubeconfig(f"{unusable}: it has no current context", where=where, fix=fix)
    if wanted not in contexts:
        fix = f"{did_you_mean(str(wanted), contexts)}{listed}"
        raise InvalidKubeconfig(f"{unusable}: it has no context {wanted!r}", where=where, fix=fix)


def _check(loader: Any, configuration: Configuration) -> None:
    """Raise ``ValueError`` for what the library takes and only the first request would show."""
    import ssl

    if not getattr(loader, "host", "").startswith(("http://", "https://")):
        raise ValueError("its cluster has no server: https://ADDRESS:PORT")
    if "exec" in (loader._user or ()) and not (configuration.api_key or configuration.cert_file):
        raise ValueError("the program under `exec` of its user gave neither a token nor a certificate")
    try:
        trust = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            trust.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    except ssl.SSLError as error:
        raise ValueError(f"a certificate or key in it is not PEM, or the two do not match: {error}") from error


def _unusable(path: str, where: str, why: str) -> InvalidKubeconfig:
    fix = "try it with `kubectl --kubeconfig FILE get nodes`, and give one that works"
    return InvalidKubeconfig(f"the kubeconfig {path} cannot be used: {why}", where=where, fix=fix)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WhichCluster:
    """A cluster, as a kubeconfig has it."""

    kubeconfig: str | None = None  # a file; None = $KUBECONFIG, the pod's service account or ~/.kube/config
    context: str | None = None  # of the kubeconfig; None = its current one


def ask_cluster(which: WhichCluster, question: Callable[[ClusterApi], Awaitable[T]]) -> T:
    """Connect to a cluster, ask it, and return what came of it."""

    async def ask() -> T:
        async with await connect(which) as api:
            return await question(api)

    return asyncio.run(ask())


async def connect(which: WhichCluster) -> ClusterApi:
    """Return an API server, to be used as an asynchronous context manager; raise ``InvalidKubeconfig``."""
    credentials = await find_cluster(which.kubeconfig, context=which.context)
    flow = FlowControl(rate=500, burst=100, parallel=16)
    return ClusterApi(credentials.configuration, flow=flow, context=credentials.context)
