"""What ``arnold extender serve`` is told."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from extender.service.intake import MEGABYTE
from extender.service.logs import Format
from extender.service.tls import TlsFiles
from topology.errors import InvalidInput


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


@dataclass(frozen=True, slots=True)
class Settings:
    """All there is to set.

    :param kubeconfig: a file; ``None`` = the service account, ``$KUBECONFIG`` or the usual place.
    :param levels: node labels from broad to close; ``None`` = those of the preset that most nodes carry.
    :param tls: ``None`` = plain HTTP, on loopback only.
    :param body_limit: bytes of a request.  The default takes 1,000 nodes of 60 kB in full-node mode.
    :param arrive_seconds: a request must be complete so long after its first byte.
    :param drain_seconds: after SIGTERM, requests and patches under way may take so long.
    :param lease_namespace: where the Lease of the leader is.
    :param identity: a name that no other replica has.
    :param queue: name of the queue policy, one of those for live clusters.
    :param bind_seconds: a plan whose pods are not on their nodes after so long expires.
    :param lost_seconds: a node that is not Ready for so long is lost to pods that do not run on it yet.
    :param solve_seconds: the solver's time for one gang; then its best placement so far.
    :param workers: threads of the solver.
    :param rate: writes to the API server a second, on average.
    :param parallel: writes under way at once.
    """

    identity: str
    kubeconfig: str | None = None
    bind: Address = Address("127.0.0.1", 8888)
    levels: tuple[str, ...] | None = None
    tls: TlsFiles | None = None
    body_limit: int = 64 * MEGABYTE
    arrive_seconds: float = 10.0
    drain_seconds: float = 10.0
    lease_namespace: str = "kube-system"
    lease_name: str = "arnold-extender"
    queue: str = "priority-age"
    bind_seconds: float = 300.0
    lost_seconds: float = 30.0
    solve_seconds: float = 2.0
    workers: int = 2
    rate: float = 1000.0
    parallel: int = 32
    log_level: str = "info"
    log_format: Format = "json"


def parse_address(text: str) -> Address:
    """``HOST:PORT`` or ``[IPv6]:PORT``.

    :raises InvalidInput: it is neither.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not host or not port.isdecimal() or not port.isascii() or int(port) > 65_535:
        raise InvalidInput(
            f"{text!r} is not an address with a port", where="--bind", fix="write --bind 127.0.0.1:8888 or [::1]:8888"
        )
    return Address(host, int(port))


def parse_levels(text: str) -> tuple[str, ...] | None:
    """Node labels from broad to close; ``auto`` = ``None``.

    :raises InvalidInput: no label, or one twice.
    """
    if text.strip() == "auto":
        return None
    labels = tuple(label.strip() for label in text.split(","))
    if not all(labels) or len(set(labels)) < len(labels):
        raise InvalidInput(
            f"{text!r} is no list of node labels, each once",
            where="--levels",
            fix="name labels from broad to close, --levels example.com/pod,example.com/rack, or auto",
        )
    return labels


def tls_files(bind: Address, *, certificate: str | None, key: str | None, client_ca: str | None) -> TlsFiles | None:
    """The TLS files that three options name; all or none.

    :raises InvalidInput: some are missing, or none is given for an address that others can reach.
    """
    given = {"--tls-cert": certificate, "--tls-key": key, "--client-ca": client_ca}
    missing = [option for option, file in given.items() if not file]
    if certificate and key and client_ca:
        return TlsFiles(certificate, key, client_ca)
    if len(missing) < len(given):
        raise InvalidInput(
            f"{', '.join(missing)} not given", where="--tls-cert", fix="give --tls-cert, --tls-key and --client-ca"
        )
    if not bind.loopback:
        raise InvalidInput(
            f"anybody who reaches {bind} could ask the extender, and drop the promises of others",
            where="--bind",
            fix="give --tls-cert, --tls-key and --client-ca for mutual TLS, or bind to 127.0.0.1",
        )
    return None
