"""The images of a gang's pods: which nodes have them, for the choice between equal placements, and what others pull."""

from __future__ import annotations

from extender.fleet.node_images import NodeImages, full_name
from extender.gangs.types import Gang
from scheduler.job import ContainerImage, Job
from scheduler.subproblems import cold_nodes, pulls_of
from topology.cluster import Cluster, IntArray


def images_of(gang: Gang) -> tuple[str, ...]:
    """Return the full names of the images of all containers of a gang's pods."""
    specs = (member.pod.spec for member in gang.members if member is not None)
    found = dict.fromkeys(
        box.image for spec in specs for box in (*(spec.containers or ()), *(spec.init_containers or ()))
    )
    return tuple(full_name(image) for image in found if image)


def with_images(job: Job, cluster: Cluster, gang: Gang, images: NodeImages) -> tuple[Job, Cluster]:
    """Return a gang's job with those of its images of which a node says how large they are, and the cluster
    with the nodes that have them.
    """
    known = {name: found for name in images_of(gang) if (found := images.holders(name)).gb}
    asked = tuple(ContainerImage(name, found.gb) for name, found in known.items())
    return job.replace(images=asked), cluster.replace(cached={name: found.nodes for name, found in known.items()})


def pulling(cluster: Cluster, job: Job, nodes: IntArray) -> tuple[str, ...]:
    """Return how many nodes of a placement pull images, a sentence; none where none does, as far as is known."""
    pulls = pulls_of(cluster, job)
    return () if pulls is None or not pulls[nodes].any() else (cold_nodes(pulls[nodes]),)
