"""``arnold place`` on what the API server says: what a user would have seen before submitting the gang."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.harness.arnold import PROGRAM
from tests.e2e.harness.client import Client


def place(client: Client, folder: Path, *, levels: Sequence[str], job: dict[str, Any]) -> dict[str, Any]:
    """Place a job on the nodes and pods of a cluster as they are.

    :param folder: for the files.
    :param job: a job file.
    :return: the JSON document of ``place``.
    """
    nodes = [{"apiVersion": "v1", "kind": "Node", **thing} for thing in client.all("nodes")]
    pods = [{"apiVersion": "v1", "kind": "Pod", **thing} for thing in client.all("pods")]
    (folder / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes + pods}))
    (folder / "job.json").write_text(json.dumps(job))
    files = ["--cluster", str(folder / "cluster.json"), "--job", str(folder / "job.json")]
    limits = ["--levels", ",".join(levels), "--time-limit", "60"]
    done = subprocess.run([PROGRAM, "place", *files, *limits, "--json"], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
