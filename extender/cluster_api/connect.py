"""A question to a cluster from the command line: connect, ask, and hang up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from extender.cluster_api.client import ClusterApi
from extender.cluster_api.credentials import find_cluster
from extender.cluster_api.flow import FlowControl

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
