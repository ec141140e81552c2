"""Images: which nodes have those of a gang's pods, for the choice between equal placements, and what others pull.

Known as far as kubelets say: the largest that each node has, 50 unless it is told another number, each by several
names.  A cluster of 5,000 nodes lists a million bytes of such names many times over, and gangs ask for a few of them.
So of a name its hash stays, which may be that of another one day: nothing but a choice between equal placements hangs
on it.
"""

from array import array
from bisect import bisect_left
from itertools import islice
from typing import NamedTuple

from msgspec.structs import force_setattr

from extender.gangs.types import Gang
from scheduler.job import ContainerImage, Job
from scheduler.subproblems import cold_nodes, pulls_of
from topology.cluster import Cluster, IntArray
from topology.kubernetes.objects import NodeObject

MOST_NAMES = 256  # of the images of a node that are kept: 50 images have 5 names each at most
_BYTES = 10**9  # of a GB


def full_name(image: str) -> str:
    """Return the name of an image as container runtimes list it: with its registry, and its tag where it says no
    digest.

    Rules of the reference grammar of distribution: what stands before the first slash is a registry if it has a dot or
    a colon, or is localhost.
    """
    first, slash, _ = image.partition("/")
    if not slash:
        image = f"docker.io/library/{image}"
    elif not ({".", ":"} & {*first} or first == "localhost"):
        image = f"docker.io/{image}"
    last = image.rpartition("/")[2]
    return image if ":" in last or "@" in last else f"{image}:latest"


class Holders(NamedTuple):
    """An image, and the nodes that have it."""

    gb: float  # that the image takes on a node; 0 = not said
    nodes: frozenset[str]


class NodeImages:
    """The images of all nodes: hashes of their names, and what each takes on the node."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[array[int], array[float]]] = {}  # by node; hashes ascending, GB
        self._asked: dict[str, Holders] = {}

    def take(self, node: NodeObject) -> None:
        """Take the images out of a node that appeared or changed: nothing else is to keep them."""
        if (images := node.status.images) is None:
            return
        force_setattr(node.status, "images", None)
        sizes = ((hash(full_name(name)), image.size_bytes / _BYTES) for image in images for name in image.names or ())
        ordered = sorted(islice(sizes, MOST_NAMES))
        new = array("q", (name for name, _ in ordered)), array("f", (gb for _, gb in ordered))
        if self._of.get(node.name) != new:
            self._of[node.name] = new
            self._asked.clear()

    def drop(self, name: str) -> None:
        """Forget a node."""
        if self._of.pop(name, None) is not None:
            self._asked.clear()

    def holders(self, image: str) -> Holders:
        """Return which nodes have an image, by its full name."""
        if (holders := self._asked.get(image)) is None:
            wanted, most, nodes = hash(image), 0.0, list[str]()
            for node, (names, gb) in self._of.items():
                at = bisect_left(names, wanted)
                if at < len(names) and names[at] == wanted:
                    nodes.append(node)
                    most = max(most, gb[at])
            holders = self._asked[image] = Holders(most, frozenset(nodes))
        return holders


def with_images(job: Job, cluster: Cluster, gang: Gang, images: NodeImages) -> tuple[Job, Cluster]:
    """Return a gang's job with those of its images of which a node says how large they are, and the cluster
    with the nodes that have them.
    """
    specs = [member.pod.spec for member in gang.members if member is not None]
    boxes = (box for spec in specs for box in (*(spec.containers or ()), *(spec.init_containers or ())))
    names = dict.fromkeys(full_name(box.image) for box in boxes if box.image)
    holders = {name: held for name in names if (held := images.holders(name)).gb}
    needed = tuple(ContainerImage(name, held.gb) for name, held in holders.items())
    return job.replace(images=needed), cluster.replace(cached={name: held.nodes for name, held in holders.items()})


def pulling(cluster: Cluster, job: Job, nodes: IntArray) -> tuple[str, ...]:
    """Return how many nodes of a placement pull images, a sentence; none where none does, as far as is known."""
    pulls = pulls_of(cluster, job)
    return () if pulls is None or not pulls[nodes].any() else (cold_nodes(pulls[nodes]),)
