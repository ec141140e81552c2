"""What ``arnold extender serve`` is told: the fields of :class:`ServeOptions` are its options."""

import os
import re
import socket
from collections.abc import Collection
from dataclasses import dataclass, field
from ipaddress import ip_address
from secrets import token_hex
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Interval

from extender.controller.pacing import Preemption, Timeouts
from ground.errors import InvalidInput
from ground.records import AtLeastOne, check_fields
from topology.node_gpus import GPU_CLASSES

_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

_WATTS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{0,6})?")

LogFormat = Literal["json", "text"]

SECONDS = {"metavar": "SECONDS"}


def _identity() -> str:
    """Return a name that no other replica has.

    A container that starts again in its pod has its predecessor's Lease at once: the kubelet has ended that before.
    """
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}_{token_hex(4)}"


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """All there is to set."""

    kubeconfig: str | None = field(
        default=None, metadata={"file": True, "default": "$KUBECONFIG, the pod's service account or ~/.kube/config"}
    )
    """File that names cluster and user."""
    bind: str = field(default="127.0.0.1:8888", metadata={"metavar": "HOST:PORT"})
    """Address and port to listen on."""
    levels: str = field(
        default="auto", metadata={"metavar": "LABEL,..", "default": "auto: those of a known cloud or tool"}
    )
    """Node labels that are the levels, from broad to close; LABEL:1 is the first part of RACK.PART (Kubernetes)."""
    domains: str | None = field(default=None, metadata={"metavar": "NAME=LABEL,.."})
    """Second hierarchies, by the node label of each: power=LABEL,failure=LABEL (Kubernetes)."""
    power_caps: str | None = field(default=None, metadata={"metavar": "NAME=WATTS,.."})
    """Watts that each domain of a second hierarchy may draw, as pods say by arnold.dev/peak-watts: power=600000."""
    gpu_classes: str = field(default=",".join(GPU_CLASSES), metadata={"metavar": "NAME,.."})
    """DeviceClasses whose devices are whole GPUs; claims of others are not counted."""
    tls_cert: str | None = field(default=None, metadata={"file": True})
    """Certificate of the server, PEM, read again when it changes; required unless the address is loopback."""
    tls_key: str | None = field(default=None, metadata={"file": True})
    """Key of --tls-cert, PEM."""
    client_ca: str | None = field(default=None, metadata={"file": True})
    """Certificate authority of the clients that may ask, PEM."""
    webhook: bool = False
    """Answer POST /mutate, by which API servers before 1.36 have gate and scheduler added to pods."""
    body_limit: Annotated[int, Ge(1024)] = field(default=64 * 2**20, metadata={"metavar": "BYTES", "default": "64 MiB"})
    """Bytes of the longest request.

    The default takes 1,000 nodes of 60 kB in full-node mode.
    """
    bind_timeout: Annotated[float, Gt(0)] = field(default=Timeouts.bind.total_seconds(), metadata=SECONDS)
    """Seconds after which a plan expires whose pods are not on their nodes."""
    lost_after: Annotated[float, Gt(0)] = field(default=Timeouts.lost.total_seconds(), metadata=SECONDS)
    """Seconds after which a node that is not Ready is lost to pods that do not run yet."""
    time_limit: Annotated[float, Gt(0)] = field(default=2.0, metadata=SECONDS)
    """Seconds for each placement; then the best so far counts."""
    workers: Annotated[int, Interval(ge=1, le=1024)] = field(default=2, metadata={"metavar": "N"})
    """Threads that a solver may use."""
    queue: str = field(default="priority-age", metadata={"option": "--policy", "metavar": "NAME"})
    """Queue policy, such as fifo, fifo-backfill, priority-age, fair-share or arnold; in replays also gavel or hadar."""
    preemption: Preemption = "advise"
    """Whether the first gang of the queue takes the nodes of lower priorities: off, advise (told whose) or on."""
    preemptions_per_hour: Annotated[int, Ge(0)] = field(default=10, metadata={"metavar": "N"})
    """How often an hour gangs take the nodes of others, at most."""
    rate: Annotated[float, Gt(0)] = field(default=1000.0, metadata={"option": "--write-rate", "metavar": "N/s"})
    """Writes to the API server a second, at most."""
    drain_timeout: Annotated[float, Gt(0)] = field(default=10.0, metadata=SECONDS)
    """Seconds to end what is under way after SIGTERM."""
    lease_namespace: str = field(
        default="kube-system",
        metadata={"metavar": "NAME", "envvar": "POD_NAMESPACE", "default": "$POD_NAMESPACE, else kube-system"},
    )
    """Namespace of the Lease that the leader holds."""
    lease_name: str = field(default="arnold-extender", metadata={"metavar": "NAME"})
    """Name of the Lease that the leader holds."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level of a line in the log on standard error."""
    log_format: LogFormat = "json"
    """Format of the log: one JSON object a line, or text."""
    identity: str = field(default_factory=_identity, metadata={"option": False})
    """A name that no other replica has."""
    arrive_seconds: Annotated[float, Gt(0)] = field(default=10.0, metadata={"option": False})
    """A request must be complete so long after its first byte."""
    parallel: AtLeastOne = field(default=32, metadata={"option": False})
    """Writes to the API server under way at once."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only processes of this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read ``HOST:PORT`` or ``[IPv6]:PORT``, or raise ``InvalidInput``: neither."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not host or not port.isdecimal() or not port.isascii() or int(port) > 65_535:
        fix = "write --bind 127.0.0.1:8888 or [::1]:8888"
        raise InvalidInput(f"{text!r} is not an address with a port", where="--bind", fix=fix)
    return Address(host, int(port))


def parse_levels(text: str) -> tuple[str, ...] | None:
    """Read node labels from broad to close, ``auto`` = ``None``, or raise ``InvalidInput``: no label, or one twice."""
    if text.strip() == "auto":
        return None
    labels = tuple(label.strip() for label in text.split(","))
    if not all(labels) or len(set(labels)) < len(labels):
        fix = "name labels from broad to close, --levels example.com/pod,example.com/rack, or auto"
        raise InvalidInput(f"{text!r} is no list of node labels, each once", where="--levels", fix=fix)
    return labels


def parse_power_caps(text: str | None, domains: Collection[str]) -> dict[str, float]:
    """Read watts of second hierarchies by name, or raise ``InvalidInput``: no watts, or none of the ``domains``."""
    caps = {}
    for part in filter(None, (text or "").split(",")):
        name, _, watts = map(str.strip, part.partition("="))
        key = f"@{name.removeprefix('@')}"
        if key not in domains or not _WATTS.fullmatch(watts):
            message = f"{part.strip()[:80]!r} is no name of --domains with watts"
            raise InvalidInput(message, where="--power-caps", fix="write power=600000, beside --domains power=LABEL")
        caps[key] = float(watts)
    return caps


def parse_gpu_classes(text: str) -> tuple[str, ...]:
    """Read names of DeviceClasses, or raise ``InvalidInput``: none, or one that no object can have."""
    names = tuple(name.strip() for name in text.split(","))
    if unusable := [name for name in names if not _OBJECT_NAME.fullmatch(name)]:
        fix = f"name DeviceClasses with commas between them, --gpu-classes {GPU_CLASSES[0]}"
        raise InvalidInput(f"{unusable[0][:80]!r} is no name of a DeviceClass", where="--gpu-classes", fix=fix)
    return names
