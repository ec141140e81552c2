"""Certificates of a certificate authority that lives as long as a test, and the kubeconfig files that name them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import trustme

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate with its key, as files."""

    certificate: Path
    key: Path


class Certificates:
    """A certificate authority and what it issued, in one folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._authority = trustme.CA()
        self.authority = folder / "ca.crt"
        self._authority.cert_pem.write_to_path(self.authority)

    def server(self, name: str) -> KeyPair:
        """For a server on the loopback address."""
        return self._write(name, self._authority.issue_cert(LOOPBACK, "localhost"))

    def client(self, user: str, group: str | None = None) -> KeyPair:
        """For a client: Kubernetes takes the common name for the user, the organization for the user's group."""
        # The name of the host says nothing here; without one, trustme makes an empty extension that Go refuses.
        issued = self._authority.issue_cert("localhost", common_name=user, organization_name=group)
        return self._write(f"client-{user.replace(':', '-')}", issued)

    def _write(self, name: str, issued: trustme.LeafCert) -> KeyPair:
        pair = KeyPair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        issued.private_key_pem.write_to_path(pair.key)
        pair.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        return pair


def write_kubeconfig(file: Path, server: str, authority: Path, identity: KeyPair | str) -> Path:
    """A kubeconfig (JSON, which is YAML) for one identity: a client certificate, or a token.

    :param server: address of the API server.
    :param authority: certificate that the server's is checked against.
    """
    if isinstance(identity, str):
        user = {"token": identity}
    else:
        user = {"client-certificate": str(identity.certificate), "client-key": str(identity.key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    file.write_text(json.dumps(config), encoding="utf-8")
    return file
