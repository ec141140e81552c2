"""Images that nodes have: ``node.status.images``."""

from __future__ import annotations

from typing import Any

from tests.topology.readers.test_kubernetes_reader import listing, node, read


def having(name: str, *images: list[str]) -> dict[str, Any]:
    """A node as the API server writes it, with images by all their names."""
    made = node(name)
    made["status"]["images"] = [{"names": names, "sizeBytes": 18_000_000_000} for names in images]
    return made


def test_images_are_known_by_all_their_names() -> None:
    """A tag and a digest name the same image; names that no table can hold are left out, as is an image without any."""
    digest = "reg/train@sha256:0123"
    cluster = read(listing(having("a", ["reg/train:1", digest], []), having("b", [digest], ["odd name"]))).cluster
    assert cluster.cached == {"reg/train:1": frozenset({"a"}), digest: frozenset({"a", "b"})}
    assert read(listing(node("a"))).cluster.cached == {}
