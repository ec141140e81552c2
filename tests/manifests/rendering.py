"""Kustomizations rendered as a user would, by kustomize itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import yaml

from tests.e2e.harness.client import Object
from tests.e2e.harness.programs import Command, from_module

MANIFESTS = Path(__file__).parents[2] / "manifests"
OVERLAYS = ("overlays/self-signed", "overlays/cert-manager")
KUSTOMIZE = ("sigs.k8s.io/kustomize/kustomize/v5", "v5.8.1")
SYSTEM = "arnold-system"
"""Namespace of Arnold."""


@cache
def kustomize() -> Command:
    """How to call kustomize: the user's, kubectl's, or one built from its Go module.

    :raises Unavailable: there is none, and no Go toolchain.
    """
    if found := shutil.which("kustomize"):
        return (found, "build")
    if found := shutil.which("kubectl"):
        return (found, "kustomize")
    return (str(from_module(*KUSTOMIZE, lambda message: print(message, file=sys.stderr))), "build")


def render(folder: Path | str) -> list[Object]:
    """The objects of a kustomization, in the order in which they would be applied.

    :param folder: below ``manifests``, or any other.
    """
    done = subprocess.run([*kustomize(), str(MANIFESTS / folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def render_own(folder: Path, *components: str) -> list[Object]:
    """The objects of a user's own kustomization, which takes everything and these components.

    :param folder: for that kustomization; must not exist yet.
    """
    folder.mkdir()
    (folder / "manifests").symlink_to(MANIFESTS)
    (folder / "deploy").mkdir()
    words = {"resources": ["../manifests"], "components": [f"../manifests/components/{name}" for name in components]}
    (folder / "deploy" / "kustomization.yaml").write_text(yaml.safe_dump(words), encoding="utf-8")
    return render(folder / "deploy")


def read(file: Path | str) -> list[Object]:
    """The objects of a file, below ``manifests`` or any other."""
    return list(yaml.safe_load_all((MANIFESTS / file).read_text(encoding="utf-8")))


def pick(objects: Iterable[Object], kind: str, name: str = "") -> Object:
    """The one object of a kind, of those whose name begins so."""
    (found,) = [one for one in objects if one["kind"] == kind and one["metadata"]["name"].startswith(name)]
    return found


def pod_template(thing: Object) -> Object:
    """The pods that a Deployment or a Job makes."""
    template: Object = thing["spec"]["template"]
    return template
