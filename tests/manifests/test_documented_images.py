"""The how-to page names every image that the manifests use: none is left that only its author has."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from tests.e2e.harness.client import Object
from tests.manifests.rendering import MANIFESTS, render
from tests.page_blocks import blocks_of, run_commands

PAGE = MANIFESTS.parent / "docs" / "how-to" / "kubernetes.md"


def test_images_are_those_that_the_page_names(rendered: list[Object], tmp_path: Path) -> None:
    """After the kustomization of the page, called in a clone, all images are those of the reader's registry."""
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    blocks = [block for block in blocks_of(PAGE.read_text(encoding="utf-8")) if "kustomization.yaml" in block.text]
    run_commands(blocks, tmp_path, {})
    images = set(re.findall(r'"image": "([^":]+)', json.dumps(render(tmp_path / "deploy"))))
    assert images == {"registry.example.com/arnold", "registry.example.com/kube-scheduler"}
    assert images.isdisjoint(re.findall(r'"image": "([^":]+)', json.dumps(rendered)))
