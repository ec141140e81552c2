"""The door to the Kubernetes client: list and watch, writes with flow control, leader election, events.

It knows kinds of objects by name and nothing of gangs.  Of the official client it uses the connection and the
credentials, and passes objects on as bytes; :mod:`extender.cluster_api.api` says why.
"""

from extender.cluster_api.api import ClusterApi, Document, PatchKind
from extender.cluster_api.api_errors import (
    Busy,
    ClusterError,
    Conflict,
    Gone,
    InvalidKubeconfig,
    NotFound,
    PatchFailed,
    Refused,
    Unreachable,
)
from extender.cluster_api.client import HttpApi
from extender.cluster_api.credentials import Credentials, find_cluster
from extender.cluster_api.election import Election, LeaseTimes
from extender.cluster_api.events import EventRecorder, Regarding
from extender.cluster_api.flow import FlowControl
from extender.cluster_api.reflector import Reflector, Sink
from extender.cluster_api.resource import EVENTS, LEASES, NODES, PODS, Resource

__all__ = [
    "EVENTS",
    "LEASES",
    "NODES",
    "PODS",
    "Busy",
    "ClusterApi",
    "ClusterError",
    "Conflict",
    "Credentials",
    "Document",
    "Election",
    "EventRecorder",
    "FlowControl",
    "Gone",
    "HttpApi",
    "InvalidKubeconfig",
    "LeaseTimes",
    "NotFound",
    "PatchFailed",
    "PatchKind",
    "Reflector",
    "Refused",
    "Regarding",
    "Resource",
    "Sink",
    "Unreachable",
    "find_cluster",
]
