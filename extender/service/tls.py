"""Mutual TLS with certificates that may change while the process runs.

A new certificate, key or client CA is taken up by the next handshake; connections that are open stay.  The listening
socket keeps its context, with an SNI callback that hands every new connection to the newest: certificate and CAs
change together, and an old CA is really forgotten.  Files that do not fit together (one is written before the other)
leave the old ones in force until they do.

A client may come without a certificate, as kubelet's probes do, and then sees its health only: the application asks
for one where it matters.  A certificate of another CA ends the handshake.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from extender.service.settings import Address
from topology.errors import InvalidInput

logger = logging.getLogger(__name__)

CHECK_SECONDS = 10.0  # how often the files are looked at

Signature = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: our certificate with its chain, its key, and the CAs of clients."""

    certificate: str
    key: str
    client_ca: str

    def signature(self) -> Signature:
        """Return what changes when a file does; a missing file has a signature too."""
        return tuple(_signature(path) for path in (self.certificate, self.key, self.client_ca))

    def context(self) -> ssl.SSLContext:
        """Return a context of what the files hold, or raise ``InvalidInput``: one is missing, not PEM, or no match."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A resumed session would skip the client's certificate.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        # A password keeps OpenSSL from asking for one at the terminal.
        self._load("--tls-cert", lambda: context.load_cert_chain(self.certificate, self.key, lambda: ""))
        self._load("--client-ca", lambda: context.load_verify_locations(self.client_ca))
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _load(self, option: str, load: Callable[[], None]) -> None:
        files = f"{self.certificate} and {self.key}" if option == "--tls-cert" else self.client_ca
        try:
            load()
        except ssl.SSLError as error:
            message = f"{files}: not PEM, or certificate and key do not match: {error.reason or error}"
            fix = "give a certificate with its own key, without password, and the CA of the clients, all PEM"
            raise InvalidInput(message, where=option, fix=fix) from error
        except OSError as error:
            missing = [path for path in (self.certificate, self.key, self.client_ca) if not Path(path).is_file()]
            message = f"{(missing or [files])[0]}: {error.strerror or error}"
            raise InvalidInput(message, where=option, fix="give files that can be read") from error


class RotatingContext:
    """The context of a listening socket, see the module, or raise ``InvalidInput``: the files are unusable."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._signature = files.signature()
        self._newest = files.context()
        self.context = files.context()
        self.context.sni_callback = self._choose

    async def watch(self) -> None:
        """Look at the files now and then, for ever."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self.check()

    def check(self) -> bool:
        """Take up what changed in the files, and return whether anything did."""
        signature = self._files.signature()
        if signature == self._signature:
            return False
        self._signature = signature
        try:
            self._newest = self._files.context()
        except InvalidInput as error:
            logger.warning("the certificates changed and cannot be used, the old ones stay: %s", error)
            return False
        logger.info("the certificates changed: new connections use the new ones")
        return True

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, _: str | None, __: ssl.SSLContext) -> None:
        connection.context = self._newest


def _signature(path: str) -> tuple[int, int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def tls_files(bind: Address, *, certificate: str | None, key: str | None, client_ca: str | None) -> TlsFiles | None:
    """Return the TLS files of three options, or raise ``InvalidInput``: some are missing, or all but off loopback."""
    given = {"--tls-cert": certificate, "--tls-key": key, "--client-ca": client_ca}
    missing = [option for option, file in given.items() if not file]
    if certificate and key and client_ca:
        return TlsFiles(certificate, key, client_ca)
    if len(missing) < len(given):
        fix = "give --tls-cert, --tls-key and --client-ca"
        raise InvalidInput(f"{', '.join(missing)} not given", where="--tls-cert", fix=fix)
    if not bind.loopback:
        message = f"anybody who reaches {bind} could ask the extender, and drop the promises of others"
        fix = "give --tls-cert, --tls-key and --client-ca for mutual TLS, or bind to 127.0.0.1"
        raise InvalidInput(message, where="--bind", fix=fix)
    return None
