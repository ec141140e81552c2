"""Node labels in which clouds and tools say where a node is, and the levels that they come to.

Presets are families of labels whose order their source tells, so that it need not be guessed.  Labels of NVLink domains
belong to none: where they nest among the levels is found in the data, and where they cut across these they are a second
hierarchy (:func:`topology.build.nest`).  No table of labels is ever whole: what parts the nodes and was not used is
named.

``LABEL:1`` is the first part of a label whose values are made of several, ``RACK.PART``: what stands before the last
dot.  No label has a colon in its name.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ground.errors import InvalidInput, InvalidTopology, UnknownName, did_you_mean, few
from ground.quantities import plural
from topology.build import NodePath, Partition, filled, named_apart, nest, paths_of, same_partition
from topology.cluster import SECOND
from topology.node_gpus import without_profile

Labels = Mapping[str, str]  # of a node


@dataclass(frozen=True, slots=True)
class LabelPreset:
    """A family of labels."""

    name: str
    labels: tuple[str, ...]  # from broad to close; a cluster may lack some of them
    source: str  # where their order is told
    fallback: bool = False  # says little of the network: taken only when no other preset is present
    relative: bool = False  # a value names a domain of the one above alone, as rack 1 of each block


_TOPOGRAPH = "network.topology.nvidia.com"
_TIERS = tuple(f"fabric.topograph.run/tier-{number}" for number in reversed(range(16)))
_ACCELERATOR = ("accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain")
_GKE = "cloud.google.com/gce-topology"
_COREWEAVE = "backend.coreweave.cloud"
_OCI = "oci.oraclecloud.com"
_NEBIUS = "topology.nebius.com"
_NEBIUS_NVLINK = f"{_NEBIUS}/nvl-instance-group-id"
_ULTRASERVER = "topology.k8s.aws/ultraserver-id"
_TOPOGRAPH_DOCS = "docs.nvidia.com/topograph/reference/node-labels-and-annotations"
_OCI_SOURCE = "github.com/oracle-quickstart/oci-hpc-oke, network locality"

FIRST_PART = ":1"  # After a label: the first part of its value
CLIQUE = "nvidia.com/gpu.clique"
"""NVIDIA's GPU feature discovery: ``CLUSTERUUID.CLIQUE``, the NVLink fabric of a rack and the part of it that a node is
in."""

NVLINK = (
    *_ACCELERATOR,
    f"{_TOPOGRAPH}/accelerator",
    _ULTRASERVER,  # docs.aws.amazon.com/sagemaker, HyperPod task governance
    f"{_NEBIUS}/tier-0",  # github.com/nebius/soperator: a rack
    _NEBIUS_NVLINK,
    "ds.coreweave.com/nvlink.domain",  # docs.coreweave.com
    CLIQUE,  # docs.nvidia.com, GPU operator
    CLIQUE + FIRST_PART,
)
"""Labels with the NVLink domain of a node; last looked up in November 2026."""

_INSIDE = {_ACCELERATOR[1]: _ACCELERATOR[0]}
"""Labels whose values name a part of the domain in another label, and nothing beyond it."""

PRESETS = (
    LabelPreset("topograph", (*_TIERS, *_ACCELERATOR), f"{_TOPOGRAPH_DOCS}, v1.0 and v1.1"),
    LabelPreset(
        "topograph-0.4",
        tuple(f"{_TOPOGRAPH}/{layer}" for layer in ("core", "spine", "leaf", "accelerator")),
        f"{_TOPOGRAPH_DOCS}, v0.4",
    ),
    LabelPreset(
        "topograph-0.1",
        tuple(f"{_TOPOGRAPH}/{layer}" for layer in ("datacenter", "spine", "block", "accelerator")),
        "github.com/NVIDIA/topograph, v0.1",
    ),
    # layer 1 is the broadest; some types of instance have a fourth
    LabelPreset(
        "aws",
        (*(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3, 4)), _ULTRASERVER),
        "docs.aws.amazon.com/eks, network topology labels",
    ),
    LabelPreset(
        "gke",
        tuple(f"{_GKE}-{layer}" for layer in ("block", "subblock", "host")),
        "cloud.google.com/kubernetes-engine, topology-aware scheduling",
    ),
    # all nodes of OKE have the labels of the host, too
    LabelPreset(
        "oci", tuple(f"{_OCI}/rdma.{layer}_id" for layer in ("hpc_island", "network_block", "local_block")), _OCI_SOURCE
    ),
    LabelPreset(
        "coreweave",
        tuple(f"{_COREWEAVE}/{layer}" for layer in ("fabric", "superpod", "leafgroup")),
        "docs.coreweave.com, node labels",
    ),
    LabelPreset(
        "nebius",
        (f"{_NEBIUS}/gpu-cluster-id", *(f"{_NEBIUS}/tier-{number}" for number in reversed(range(16))), _NEBIUS_NVLINK),
        "github.com/nebius/soperator",
    ),
    LabelPreset(
        "crusoe", ("crusoe.ai/ib.partition.id", "crusoe.ai/pod.id"), "docs.nvidia.com/topograph/providers/crusoe"
    ),
    LabelPreset(
        "kueue",
        tuple(f"cloud.provider.com/topology-{layer}" for layer in ("block", "rack", "host")),
        "github.com/kubernetes-sigs/kueue, site/content/en/docs/concepts/topology.md",
        relative=True,
    ),
    LabelPreset(
        "oci-host", tuple(f"{_OCI}/host.{layer}_id" for layer in ("network_block", "rack")), _OCI_SOURCE, fallback=True
    ),
    LabelPreset("gpu-clique", NVLINK, "the sources of NVLINK", fallback=True),
    LabelPreset("zone", ("topology.kubernetes.io/zone",), "kubernetes.io, well-known labels", fallback=True),
)
"""Families of labels; each was last looked up in its source in November 2026."""

_ALONE = next(preset for preset in PRESETS if preset.labels is NVLINK)

GPU_TYPES = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "alibabacloud.com/gpu-card-model")
"""Labels with the type of a node's GPUs, set by NVIDIA's GPU feature discovery, AMD's node labeller, Alibaba Cloud."""

HOSTNAME = "kubernetes.io/hostname"  # The label with a node's own name, of which a level would tell nothing

_OF_MACHINES = re.compile(
    r"(?:beta\.)?kubernetes\.io/(?:os|arch|hostname|instance-type)$|node\.kubernetes\.io/|(?:feature\.)?node-role\."
    r"|feature\.node\.kubernetes\.io/|nvidia\.com/(?!gpu\.clique)|amd\.com/|beta\.amd\.com/|gpu\.intel\.com/|app"
    r"|kubernetes\.io/role$|arnold\.dev/|cloud\.google\.com/(?:gke-|machine-)|.*(?:version|revision|hash|image)"
)
"""Labels that tell what a node is or runs, and not where it is."""

MOST_NAMED = 8  # labels that a note names


@dataclass(frozen=True, slots=True)
class LabelledPlaces:
    """Where nodes are by their labels."""

    levels: tuple[str, ...]  # labels, from broad to close
    paths: list[NodePath]
    beside: Mapping[str, Sequence[str]] = field(default_factory=dict)  # @LABEL -> the domain of each node
    cut: Mapping[str, str] = field(default_factory=dict)  # level -> why it has domains that are cut, a sentence
    notes: tuple[str, ...] = ()


def label_of(labels: Labels, name: str) -> str:
    """Return the value of a label of a node, or of ``LABEL:1`` its first part; empty = it has none."""
    value = labels.get(name, "")
    if not value and name.endswith(FIRST_PART):
        value = labels.get(name.removesuffix(FIRST_PART), "").rpartition(".")[0]
    return value


def gpu_type(labels: Labels) -> str:
    """Return the type of GPU in the labels of a node, without the marks that it is shared or cut; empty = not said."""
    name = next((labels[label] for label in GPU_TYPES if labels.get(label)), "")
    return without_profile(name.removesuffix("-SHARED"))


def places_by_labels(nodes: Sequence[Labels], asked: Sequence[str] | None = None, *, note: str = "") -> LabelledPlaces:
    """Return where nodes are by their labels.

    :param nodes: the labels of each, of one node or more.
    :param asked: labels that are the levels, from broad to close; ``None`` = those of the preset that most nodes carry
        (of two on as many, the one with more labels), without the labels that no node carries, and NVLink domains.
    :param note: why these were asked, a sentence.
    :raises InvalidTopology: none is asked for, and no node carries a label that is known.
    """
    if asked is not None:
        levels, repeated = named_apart([_partition(nodes, label) for label in asked])
        cut = _cut(repeated)
        return LabelledPlaces(tuple(asked), paths_of(levels), cut=cut, notes=(*([note] if note else []), *cut.values()))
    # a label may be there without a value, as CoreWeave leaves them on nodes without such a fabric
    carried = {label for node in nodes for label, value in node.items() if value}
    labels = {preset.name: [label for label in preset.labels if label in carried] for preset in PRESETS}
    bearers = {name: sum(any(node.get(label) for label in of) for node in nodes) for name, of in labels.items()}
    present = [preset for preset in PRESETS if bearers[preset.name]]
    if not present:
        none = f"none of the {len(nodes)} GPU nodes carries a topology label that is known"
        raise InvalidTopology(none, fix="name the labels from broad to close: --levels LABEL,LABEL")
    best = max(present, key=lambda preset: (not preset.fallback, bearers[preset.name], len(labels[preset.name])))
    of_fabric = [_partition(nodes, label) for label in labels[best.name] if label not in NVLINK]
    tree, repeated = named_apart(of_fabric if best.relative else filled(of_fabric))
    # NVLink domains are those of the preset's own labels, and of others that say something else
    nvlink: list[Partition] = []
    for label in NVLINK:
        if label.removesuffix(FIRST_PART) in carried:
            domains = _partition(nodes, label)
            new = not any(same_partition(domains, other) for other in (*tree, *nvlink))
            if label in labels[best.name] or (new and not (label.endswith(FIRST_PART) and len({*domains.domains}) < 2)):
                nvlink.append(domains)
    nested, beside = nest(tree, nvlink)
    levels = filled(nested)
    names, used = ([level.name for level in some] for some in (levels, (*levels, *beside)))
    rest = ", ".join(f"{preset.name} ({bearers[preset.name]})" for preset in present if preset not in (best, _ALONE))
    share = f"{bearers[best.name]} of {len(nodes)} GPU nodes"
    rest = f"; labels of other presets, not used: {rest}" if rest else ""
    notes = [f"levels are the labels {', '.join(names)} (preset {best.name}, on {share}){rest}"]
    for other in beside:
        across = ", ".join(level.name for level in levels if nest([level], [other])[1]) or "these levels"
        notes.append(
            f"{other.name} and {across} cut across each other, so it is the second hierarchy {SECOND}{other.name}, "
            "which constraints may name; --levels can make it a level"
        )
    for level in levels:
        lacking = sum(not label_of(node, level.name) for node in nodes)
        if inferred := lacking - sum(not domain for domain in level.domains):
            whose = f"without the label {level.name}, and taken to be where the others of their closer domain are"
            notes.append(f"{whose}: {inferred} of {len(nodes)} nodes")
    cut = _cut(repeated)
    notes += cut.values()
    if best.fallback or len(levels) == 1:
        notes += passed_over(nodes, used)
    second = {f"{SECOND}{other.name}": other.domains for other in beside}
    return LabelledPlaces(tuple(names), paths_of(levels), second, cut, tuple(notes))


def _partition(nodes: Sequence[Labels], label: str) -> Partition:
    """Return the domains that a label makes of nodes."""
    made = Partition(label, [label_of(node, label) for node in nodes], whole=label in NVLINK)
    if (broader := _INSIDE.get(label)) is None:
        return made
    return named_apart([_partition(nodes, broader), made])[0][1]


def _cut(repeated: Mapping[str, int]) -> dict[str, str]:
    """Return why levels have domains that are cut, given how many names of each stand in several places."""
    return {
        label: f"{plural(count, 'value')} of {label} below several broader domains, each place a domain of its own; if "
        f"such a value is one domain, put {label} before the levels that it spans, in --levels, or beside the tree: "
        f"--domains {label.rpartition('/')[2]}={label}"
        for label, count in repeated.items()
    }


def passed_over(nodes: Sequence[Labels], used: Collection[str]) -> list[str]:
    """Return a note about labels that are not used and part the nodes, with the options that use them: none where there
    are no such labels.

    Those count that have at least two values and fewer groups than there are nodes, a group those without the label
    among them; of labels that make the same groups the first by name.

    :param used: labels that are levels, from broad to close, or second hierarchies.
    """
    in_use = [_partition(nodes, label) for label in used]
    others: list[Partition] = []
    for label in sorted({label for node in nodes for label in node} - {*used}):
        for name in () if _OF_MACHINES.match(label) else (label, label + FIRST_PART):
            partition = _partition(nodes, name)
            values = {*partition.domains}
            parts = len(values) < len(nodes) and len(values - {""}) > 1
            if parts and not any(same_partition(partition, other) for other in (*in_use, *others)):
                others.append(partition)
    if not others:
        return []
    others.sort(key=lambda other: (len({*other.domains}), other.name))
    apart = [level for level in in_use if len({*level.domains}) > 1]
    nested, beside = nest(apart, others)
    chain = [level.name for level in nested]
    named = few((f"{other.name} ({len({*other.domains} - {''})} values)" for other in others), most=MOST_NAMED)
    ways = [f"--levels {','.join(chain)}"] if len(chain) > len(apart) else []
    if second := [f"{other.name.rpartition('/')[2]}={other.name}" for other in beside[:MOST_NAMED]]:
        ways.append(f"--domains {','.join(second)}")
    return [f"labels that part the GPU nodes and are not used: {named}; to use them: {' or '.join(ways)}"]


def check_labels(labels: Sequence[str], nodes: Sequence[Labels], *, where: str = "--levels") -> tuple[str, ...]:
    """Return the labels that the user named; raise :class:`UnknownName` for one that no node carries."""
    for label in labels:
        if not any(label in node or label_of(node, label) for node in nodes):
            carried = sorted({key for node in nodes for key in node})
            order = ", from broad to close" if where == "--levels" else ""
            fix = f"{did_you_mean(label, carried)}name labels of the nodes{order}"
            raise UnknownName(f"no GPU node carries the label {label!r}", where=where, fix=fix)
    return tuple(labels)


def parse_domains(text: str) -> dict[str, str]:
    """Return the label of each second hierarchy from ``power=LABEL,failure=LABEL``, names with their ``@``; raise
    InvalidInput for what is not written so, and for a name that stands twice.
    """
    label_by_name: dict[str, str] = {}
    for part in text.split(","):
        name, equals, label = (side.strip() for side in part.partition("="))
        fix = "write power=LABEL, several with commas between them"
        if not (name and equals and label):
            raise InvalidInput(f"{part.strip()[:80]!r} is no name with a label", where="--domains", fix=fix)
        key = f"{SECOND}{name.removeprefix(SECOND)}"
        if key in label_by_name:
            raise InvalidInput(f"{key} is given twice", where="--domains", fix="keep one of the two")
        label_by_name[key] = label
    return label_by_name
