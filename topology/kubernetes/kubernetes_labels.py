"""Node labels in which clouds and tools say where a node is: presets, as the order of a family cannot be guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topology.build import nesting_depth
from topology.errors import InvalidInput, InvalidTopology, UnknownName, did_you_mean
from topology.node_gpus import without_profile


@dataclass(frozen=True, slots=True)
class LabelPreset:
    """A family of labels."""

    name: str
    labels: tuple[str, ...]  # from broad to close; a cluster may lack some of them
    fallback: bool = False  # says little of the network: taken only when no other preset is present


_TOPOGRAPH = "network.topology.nvidia.com"
_TIERS = tuple(f"fabric.topograph.run/tier-{number}" for number in reversed(range(16)))
_GKE = "cloud.google.com/gce-topology"
_COREWEAVE = "backend.coreweave.cloud"
_OCI = "oci.oraclecloud.com"

CLIQUES = ("nvidia.com/gpu.clique", "ds.coreweave.com/nvlink.domain")
"""Labels with the NVLink domain of a node: NVIDIA's GPU feature discovery and CoreWeave set them."""

PRESETS = (
    # docs.nvidia.com/topograph, node labels and annotations: v1.0, v0.4, v0.1
    LabelPreset("topograph", (*_TIERS, "accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain")),
    LabelPreset("topograph-0.4", tuple(f"{_TOPOGRAPH}/{layer}" for layer in ("core", "spine", "leaf", "accelerator"))),
    LabelPreset(
        "topograph-0.1", tuple(f"{_TOPOGRAPH}/{layer}" for layer in ("datacenter", "spine", "block", "accelerator"))
    ),
    # docs.aws.amazon.com/eks, network topology labels: layer 1 is the broadest; some instance types have a fourth
    LabelPreset("aws", tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3, 4))),
    LabelPreset("gke", tuple(f"{_GKE}-{layer}" for layer in ("block", "subblock", "host"))),
    # github.com/oracle-quickstart/oci-hpc-oke, network locality; all nodes of OKE have the labels of the host
    LabelPreset("oci", tuple(f"{_OCI}/rdma.{layer}_id" for layer in ("hpc_island", "network_block", "local_block"))),
    LabelPreset("coreweave", tuple(f"{_COREWEAVE}/{layer}" for layer in ("fabric", "superpod", "leafgroup"))),
    # the labels of Kueue's own documentation and tests: site/content/en/docs/concepts/topology.md
    LabelPreset("kueue", tuple(f"cloud.provider.com/topology-{layer}" for layer in ("block", "rack", "host"))),
    LabelPreset("oci-host", tuple(f"{_OCI}/host.{layer}_id" for layer in ("network_block", "rack")), fallback=True),
    LabelPreset("gpu-clique", CLIQUES[:1], fallback=True),
    LabelPreset("zone", ("topology.kubernetes.io/zone",), fallback=True),
)


GPU_TYPES = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "alibabacloud.com/gpu-card-model")
"""Labels with the type of a node's GPUs, set by NVIDIA's GPU feature discovery, AMD's node labeller, Alibaba Cloud."""


def gpu_type(labels: Mapping[str, str]) -> str:
    """Return the type of GPU in the labels of a node, without the marks that it is shared or cut; empty = not said."""
    name = next((labels[label] for label in GPU_TYPES if labels.get(label)), "")
    return without_profile(name.removesuffix("-SHARED"))


def choose_labels(nodes: Sequence[Mapping[str, str]]) -> tuple[tuple[str, ...], str]:
    """Return the labels of the preset that most nodes carry (of two on as many, the one with more labels), without
    those that no node carries, and a sentence that says so; raise InvalidTopology where no node carries any.
    """
    # a label may be there without a value, as CoreWeave leaves them on nodes without such a fabric
    said = [{label for label, value in node.items() if value} for node in nodes]
    carried = {preset.name: [sum(label in node for node in said) for label in preset.labels] for preset in PRESETS}
    bearers = {preset.name: sum(not node.isdisjoint(preset.labels) for node in said) for preset in PRESETS}
    present = [preset for preset in PRESETS if bearers[preset.name]]
    if not present:
        none = f"none of the {len(nodes)} GPU nodes carries a topology label that is known"
        raise InvalidTopology(none, fix="name the labels from broad to close: --levels LABEL,LABEL")
    best = max(present, key=lambda preset: (not preset.fallback, bearers[preset.name], sum(carried[preset.name])))
    labels = tuple(label for label, count in zip(best.labels, carried[best.name], strict=True) if count)
    labels = _with_clique(labels, nodes)
    others = [f"{preset.name} ({bearers[preset.name]})" for preset in present if preset is not best]
    rest = f"; labels of other presets, not used: {', '.join(others)}" if others else ""
    share = f"{bearers[best.name]} of {len(nodes)} GPU nodes"
    return labels, f"levels are the labels {', '.join(labels)} (preset {best.name}, on {share}){rest}"


def _with_clique(labels: tuple[str, ...], nodes: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """Return labels of levels, from broad to close, with that of the NVLink domains among them: above the first level
    whose domains are parts of one, else below the last.  As they are where one of them says the same.
    """
    clique = max(CLIQUES, key=lambda label: sum(bool(node.get(label)) for node in nodes))
    cliques = [node.get(clique, "") for node in nodes]
    if not any(cliques) or clique in labels or any("accelerator" in label for label in labels):
        return labels
    depth, same = nesting_depth([[node.get(label, "") for node in nodes] for label in labels], cliques)
    return labels if same else (*labels[:depth], clique, *labels[depth:])


def check_labels(
    labels: Sequence[str], nodes: Sequence[Mapping[str, str]], *, where: str = "--levels"
) -> tuple[str, ...]:
    """Return the labels that the user named; raise :class:`UnknownName` for one that no node carries."""
    for label in labels:
        if not any(label in node for node in nodes):
            known = sorted({key for node in nodes for key in node})
            order = ", from broad to close" if where == "--levels" else ""
            fix = f"{did_you_mean(label, known)}name labels of the nodes{order}"
            raise UnknownName(f"no GPU node carries the label {label!r}", where=where, fix=fix)
    return tuple(labels)


def parse_domains(text: str) -> dict[str, str]:
    """Return the label of each second hierarchy from ``power=LABEL,failure=LABEL``, names with their ``@``; raise
    InvalidInput for what is not written so, and for a name that stands twice.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, label = (one.strip() for one in part.partition("="))
        fix = "write power=LABEL, several with commas between them"
        if not (name and equals and label):
            raise InvalidInput(f"{part.strip()[:80]!r} is no name with a label", where="--domains", fix=fix)
        key = f"@{name.removeprefix('@')}"
        if key in found:
            raise InvalidInput(f"{key} is given twice", where="--domains", fix="keep one of the two")
        found[key] = label
    return found
