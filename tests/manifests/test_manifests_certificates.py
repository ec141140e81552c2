"""The certificates that the Job of the self-signed overlay makes, on a real API server."""

from __future__ import annotations

import shutil
import socket
import ssl
from base64 import b64decode, b64encode
from pathlib import Path
from threading import Thread

import pytest

from tests.e2e.harness.client import Object, home_of
from tests.e2e.harness.plane import ControlPlane
from tests.manifests.certificates_job import EXTENDER, NAMES, SCHEDULER, contents, run_job
from tests.manifests.conftest import STRICT
from tests.manifests.rendering import SYSTEM, pick, pod_template, read, render_own

HOST = "arnold-extender.arnold-system.svc"
"""The name by which the scheduler calls the extender."""

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="the script calls openssl, which is not here")


@pytest.fixture
def held(plane: ControlPlane, tmp_path: Path) -> Path:
    """What the Secrets hold, as the pods see it: a folder for each."""
    run_job(plane)
    for name in NAMES:
        (tmp_path / name).mkdir()
        for key, text in contents(plane.admin, name).items():
            (tmp_path / name / key).write_bytes(b64decode(text))
    return tmp_path


def test_script_fills_both_secrets(held: Path) -> None:
    """Each Secret holds certificate, key and authority; the authority is one, and its key is nowhere."""
    for name in NAMES:
        assert sorted(file.name for file in (held / name).iterdir()) == ["ca.crt", "tls.crt", "tls.key"]
    assert (held / EXTENDER / "ca.crt").read_bytes() == (held / SCHEDULER / "ca.crt").read_bytes()


def test_script_leaves_what_lasts(held: Path, plane: ControlPlane) -> None:
    """A second run changes nothing; one Secret lost, both are made again, as there is no authority to sign one."""
    before = {name: contents(plane.admin, name) for name in NAMES}
    assert "nothing to do" in run_job(plane)
    assert {name: contents(plane.admin, name) for name in NAMES} == before
    where = f"api/v1/namespaces/{SYSTEM}/secrets/{SCHEDULER}"
    plane.admin.request("PATCH", where, {"data": None}, content_type="application/merge-patch+json")
    run_job(plane)
    after = {name: contents(plane.admin, name) for name in NAMES}
    assert after[EXTENDER]["ca.crt"] == after[SCHEDULER]["ca.crt"]
    assert after[EXTENDER]["ca.crt"] != before[EXTENDER]["ca.crt"]


def test_webhooks_trust_the_authority(held: Path, plane: ControlPlane, tmp_path: Path) -> None:
    """With the components for old API servers the Job, which may no more than that, tells them the authority."""
    components = ("before-1.36", "before-1.36/all-gpu-pods", "before-1.36/whole-node-pods")
    rendered = render_own(tmp_path / "own", *components)
    things = [thing for thing in read("components/before-1.36/webhook.yaml") if "webhooks" not in thing]
    things += (thing for thing in rendered if "webhooks" in thing)
    for thing in things:
        plane.admin.apply(thing, query=STRICT)

    def webhooks() -> list[Object]:
        where = "apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        return [webhook for each in plane.admin.request("GET", where)["items"] for webhook in each["webhooks"]]

    try:
        before = webhooks()
        assert len(before) == len(components)
        run_job(plane, *pod_template(pick(rendered, "Job"))["spec"]["containers"][0]["args"])
        authority = b64encode((held / EXTENDER / "ca.crt").read_bytes()).decode()
        for webhook in before:
            webhook["clientConfig"]["caBundle"] = authority
        assert webhooks() == before
    finally:
        for thing in things:
            plane.admin.request("DELETE", f"{home_of(thing)}/{thing['metadata']['name']}")


def test_scheduler_and_extender_know_each_other(held: Path) -> None:
    """A TLS handshake with both certificates, each side verifying the other and the name that the scheduler calls."""
    assert shake_hands(held, client=SCHEDULER) == ""


def test_nobody_else_is_let_in(held: Path) -> None:
    """Without a certificate, or with the extender's own, which is not for clients, the handshake fails."""
    assert "certificate" in shake_hands(held, client=None)
    assert "purpose" in shake_hands(held, client=EXTENDER)


def shake_hands(held: Path, *, client: str | None) -> str:
    """Talk TLS as scheduler and extender do; answers why the server refused, empty when it did not."""
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(held / EXTENDER / "ca.crt"))
    serving.load_cert_chain(held / EXTENDER / "tls.crt", held / EXTENDER / "tls.key")
    serving.verify_mode = ssl.CERT_REQUIRED
    calling = ssl.create_default_context(cafile=str(held / SCHEDULER / "ca.crt"))
    # What newer Pythons ask of every certificate, and Go too: key identifiers, critical constraints.
    calling.verify_flags |= ssl.VERIFY_X509_STRICT
    if client is not None:
        calling.load_cert_chain(held / client / "tls.crt", held / client / "tls.key")
    refused: list[str] = []

    def serve(connection: socket.socket) -> None:
        try:
            with serving.wrap_socket(connection, server_side=True) as secured:
                secured.sendall(b"x")
        except OSError as error:
            refused.append(str(error))
            connection.close()

    here, there = socket.socketpair()
    server = Thread(target=serve, args=(there,))
    server.start()
    try:
        with calling.wrap_socket(here, server_hostname=HOST) as secured:
            secured.recv(1)
    except OSError:
        pass
    server.join()
    return "".join(refused)
