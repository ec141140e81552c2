"""The Job of the self-signed overlay, run as it stands, with its own service account."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.e2e.harness.client import Client
from tests.e2e.harness.plane import ControlPlane
from tests.manifests.rendering import MANIFESTS, SYSTEM

SCRIPT = MANIFESTS / "overlays" / "self-signed" / "certificates.py"
NAMES = EXTENDER, SCHEDULER = "arnold-extender-tls", "arnold-scheduler-tls"
"""The Secrets that it fills."""


def run_job(plane: ControlPlane, *arguments: str) -> str:
    """Run the script; answers what it printed."""
    kubeconfig = plane.service_account("arnold-certificates", SYSTEM)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env={"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def contents(client: Client, name: str) -> dict[str, str]:
    """The data of a Secret, in base64."""
    found: dict[str, str] = client.request("GET", f"api/v1/namespaces/{SYSTEM}/secrets/{name}").get("data", {})
    return found
