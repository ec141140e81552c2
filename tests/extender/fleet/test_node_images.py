"""Images of nodes, as a kubelet lists them."""

from __future__ import annotations

import tracemalloc

import pytest

from extender.fleet.images import MOST_NAMES, NodeImages, full_name
from extender.objects import decode_node
from tests.extender.things import Json, node_json
from topology.kubernetes.objects import NodeObject

DIGEST = f"sha256:{'0' * 64}"


def image(*names: str, gb: float = 18.0) -> Json:
    """An image of a node's status."""
    return {"names": list(names), "sizeBytes": int(gb * 10**9)}


def node_with(name: str, *images: Json) -> NodeObject:
    """A node that says that it has these."""
    document = node_json(name)
    document["status"]["images"] = list(images)
    return decode_node(document)


@pytest.mark.parametrize(
    ("written", "full"),
    [
        ("train", "docker.io/library/train:latest"),
        ("team/train:v2", "docker.io/team/train:v2"),
        ("registry.example.com/train", "registry.example.com/train:latest"),
        ("localhost/train:v1", "localhost/train:v1"),
        ("registry:5000/train", "registry:5000/train:latest"),
        (f"registry.example.com/train@{DIGEST}", f"registry.example.com/train@{DIGEST}"),
        (f"train:v1@{DIGEST}", f"docker.io/library/train:v1@{DIGEST}"),
    ],
)
def test_names_are_those_of_container_runtimes(written: str, full: str) -> None:
    """What a pod leaves out is added, as containerd lists it, and full names stay as they are."""
    assert full_name(written) == full
    assert full_name(full) == full


def test_an_image_has_several_names() -> None:
    """Tag and digest are one image; its size is the largest that a node says; others have it not."""
    images = NodeImages()
    tag, digest = "registry.example.com/train:v1", f"registry.example.com/train@{DIGEST}"
    images.take(node_with("a", image(tag, digest, gb=18), image("docker.io/library/pause:3.9", gb=0.001)))
    images.take(node_with("b", image(digest, gb=17)))
    assert images.holders(tag) == (18.0, frozenset({"a"}))
    assert images.holders(digest) == (18.0, frozenset({"a", "b"}))
    assert images.holders("docker.io/library/other:latest") == (0.0, frozenset())


def test_what_a_node_has_changes() -> None:
    """The last list counts; a status without a list says nothing new; a node that is gone has none."""
    images = NodeImages()
    one, other = "docker.io/library/one:latest", "docker.io/library/other:latest"
    images.take(node_with("a", image(one)))
    assert images.holders(one).nodes == {"a"}
    images.take(decode_node(node_json("a")))
    assert images.holders(one).nodes == {"a"}
    images.take(node_with("a", image(other)))
    assert (images.holders(one).nodes, images.holders(other).nodes) == (frozenset(), {"a"})
    images.drop("a")
    assert images.holders(other).nodes == frozenset()


def test_nothing_else_keeps_them() -> None:
    """The node that others keep has no list any more, and a kubelet without a limit fills no memory."""
    images, many = NodeImages(), [image(f"example.com/{number}:v1") for number in range(MOST_NAMES + 1)]
    thing = node_with("a", *many)
    images.take(thing)
    assert thing.status.images is None
    assert images.holders(f"example.com/{MOST_NAMES - 1}:v1").nodes == {"a"}
    assert images.holders(f"example.com/{MOST_NAMES}:v1").nodes == frozenset()


def test_memory_is_bounded() -> None:
    """50 images of two names each take 8 bytes for a name and 4 for its size: less than 2 kB a node, whatever they are
    called, so that 5,000 nodes take less than 10 MB.
    """
    images, nodes = NodeImages(), 100
    long = "x" * 200
    tracemalloc.start()
    for number in range(nodes):
        pairs = ((f"example.com/{long}-{number}-{i}:v1", f"example.com/{number}-{i}@{DIGEST}") for i in range(50))
        images.take(node_with(f"node-{number}", *(image(*names) for names in pairs)))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2_000 * nodes
