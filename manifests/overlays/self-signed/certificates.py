"""Make the certificates of Arnold and put them into the two Secrets that its pods wait for.

Runs as a Job from Arnold's own image: openssl makes the keys, the Kubernetes client fills the Secrets.  A certificate
authority signs one certificate for the extender and one for its only client, the scheduler, and is thrown away: nobody
can ever sign a third.  Certificates that last for another month are left alone, so that it may run any number of times.
Its arguments name MutatingWebhookConfigurations by which the API server asks the extender: they are told the authority.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path

from kubernetes import client, config

NAMESPACE = "arnold-system"
EXTENDER, SCHEDULER = "arnold-extender-tls", "arnold-scheduler-tls"
DAYS = 5 * 365
MONTH = str(30 * 24 * 3600)

PROFILES = """
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[arnold-extender-tls]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:arnold-extender.arnold-system.svc, DNS:arnold-extender.arnold-system.svc.cluster.local
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[arnold-scheduler-tls]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""

Files = dict[str, bytes]
"""What a Secret holds: tls.crt, tls.key and ca.crt."""


def openssl(*arguments: str, cwd: Path, check: bool = True) -> bool:
    """Whether openssl says yes."""
    done = subprocess.run(["openssl", *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise SystemExit(f"openssl {' '.join(arguments)} failed: {done.stderr}")
    return done.returncode == 0


def request(profile: str, subject: str, *signer: str, cwd: Path) -> None:
    """A new key, PROFILE.key, and its certificate, PROFILE.crt."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{profile}.key")
    what = ("-config", "profiles", "-extensions", profile, "-subj", f"/CN={subject}", "-days", str(DAYS))
    openssl("req", "-x509", *key, *what, "-out", f"{profile}.crt", *signer, cwd=cwd)


def make(folder: Path) -> dict[str, Files]:
    """What each Secret should hold."""
    (folder / "profiles").write_text(PROFILES)
    request("authority", "Arnold", cwd=folder)
    signer = ("-CA", "authority.crt", "-CAkey", "authority.key")
    request(EXTENDER, "arnold-extender", *signer, cwd=folder)
    request(SCHEDULER, "arnold-scheduler", *signer, cwd=folder)
    authority = (folder / "authority.crt").read_bytes()
    return {
        name: {
            "tls.crt": (folder / f"{name}.crt").read_bytes(),
            "tls.key": (folder / f"{name}.key").read_bytes(),
            "ca.crt": authority,
        }
        for name in (EXTENDER, SCHEDULER)
    }


def last(held: dict[str, Files], folder: Path) -> bool:
    """Whether the Secrets hold certificates of one authority that are good for another month."""
    if any(set(files) < {"tls.crt", "tls.key", "ca.crt"} for files in held.values()):
        return False
    if held[EXTENDER]["ca.crt"] != held[SCHEDULER]["ca.crt"]:
        return False
    (folder / "ca.crt").write_bytes(held[EXTENDER]["ca.crt"])
    for name, files in held.items():
        (folder / f"{name}.crt").write_bytes(files["tls.crt"])
        if not openssl("verify", "-CAfile", "ca.crt", f"{name}.crt", cwd=folder, check=False):
            return False
        if not openssl("x509", "-checkend", MONTH, "-noout", "-in", f"{name}.crt", cwd=folder, check=False):
            return False
    return True


def contents(data: Mapping[str, str | bytes] | None) -> Files:
    """What the data of a Secret says."""
    return {key: b64decode(text) for key, text in (data or {}).items()}


def fill() -> dict[str, Files]:
    """What the Secrets hold, filled unless that lasts."""
    secrets = client.CoreV1Api()
    held = {name: contents(secrets.read_namespaced_secret(name, NAMESPACE).data) for name in (EXTENDER, SCHEDULER)}
    with tempfile.TemporaryDirectory() as folder:
        if last(held, Path(folder)):
            print("the certificates last for another month: nothing to do")
            return held
    with tempfile.TemporaryDirectory() as folder:
        made = make(Path(folder))
    for name, files in made.items():
        data = {key: b64encode(content).decode() for key, content in files.items()}
        secrets.patch_namespaced_secret(name, NAMESPACE, {"data": data})
        print(f"filled Secret {NAMESPACE}/{name}; its certificate lasts {DAYS} days")
    return made


def main(*configurations: str) -> None:
    """Fill the Secrets, and have the API server trust the extender."""
    config.load_config()  # type: ignore[no-untyped-call]
    trusted = {"caBundle": b64encode(fill()[EXTENDER]["ca.crt"]).decode()}
    webhooks = client.AdmissionregistrationV1Api()
    for name in configurations:
        webhook = f"{name.removeprefix('arnold-')}.arnold.dev"
        change = {"webhooks": [{"name": webhook, "clientConfig": trusted}]}
        webhooks.patch_mutating_webhook_configuration(name, change)
        print(f"{webhook} trusts it")


if __name__ == "__main__":
    main(*sys.argv[1:])
