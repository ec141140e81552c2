"""Objects of Kubernetes as typed structs, decoded straight from JSON: nodes, events, and what all objects have.

Only the fields that matter are read, everything else is skipped while parsing: a pod keeps some 1 kB instead of 10.
The structs are frozen; a changed object is a new one.  Field names are those of Kubernetes, in Python's case.  The live
cluster and the files that ``kubectl`` prints are read with the same structs.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ground.documents import Document
from ground.errors import InvalidInput
from topology.kubernetes.labels import gpu_type
from topology.node_gpus import GPUS
from topology.taints import Taint

ALLOCATION_API = "resource.k8s.io/v1"
LONGEST_NAME = 253  # characters of the name of an object, and of a domain: longer ones are cut in sentences
_STEP = re.compile(r"\.(?P<field>\w+)|\[(?P<index>\d+)\]|\[\.\.\.\]")

HYPER_NODES_ALONE = re.compile(r"(?s)\A(?!.*\bkind[\"']?\s*:\s*[\"']?Node\b)(?=.*\bkind[\"']?\s*:\s*[\"']?HyperNode\b)")
COMPUTE_ENGINE = re.compile(r"\bphysicalHost(?:Topology)?[\"']?\s*:")
KIND_CLUSTER = re.compile(r"\bapiVersion[\"']?\s*:\s*[\"']?kind\.x-k8s\.io/")
"""What tells files of other readers from lists of nodes, which begin alike."""

_WHOLE = re.compile(r"[0-9]{1,9}")


class Object(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Anything of Kubernetes: camelCase names, unknown fields ignored."""


class OwnerReference(Object, frozen=True):
    """What made an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(Object, frozen=True):
    """Identity of an object."""

    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


Amounts = dict[str, Any]
"""Resource -> how much of it, as Kubernetes writes quantities; unread, as each has readers of its own."""


def gpus_among(amounts: Amounts | None, names: Sequence[str] = GPUS) -> int | None:
    """Return the GPUs among resources, those of all names; ``None`` = not said.  Raises ValueError for no number."""
    gpus = [quantity(amounts[name]) for name in names if amounts is not None and amounts.get(name) is not None]
    return sum(gpus) if gpus else None


class NodeSpec(Object, frozen=True):
    """What an administrator wants of a node."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeCondition(Object, frozen=True):
    """A finding of the kubelet or of others about a node."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class NodeImage(Object, frozen=True):
    """An image that a node has, by all its names."""

    names: list[str] | None = None
    size_bytes: int = 0


class NodeStatus(Object, frozen=True):
    """How a node is."""

    capacity: Amounts | None = None
    allocatable: Amounts | None = None
    conditions: list[NodeCondition] | None = None
    images: list[NodeImage] | None = None  # the largest that it has, 50 unless the kubelet says another number
    # of the GPUs in its ResourceSlices; names that no object of Kubernetes has, as they are added here
    gpu_product: str = msgspec.field(default="", name="arnold.dev/gpu-product")
    gpu_sharing: str = msgspec.field(default="", name="arnold.dev/gpu-sharing")  # how its ResourceSlices offer parts


class NamedObject(Object, frozen=True):
    """An object with a name, labels and annotations."""

    metadata: Metadata = Metadata()

    @property
    def name(self) -> str:
        """Name, unique within the namespace."""
        return self.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        """All labels."""
        return self.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        """All annotations."""
        return self.metadata.annotations or {}


class AllocationObject(NamedObject, frozen=True):
    """An object of dynamic resource allocation; versions of the API before this one have other fields."""

    api_version: str = ALLOCATION_API


class NodeObject(NamedObject, frozen=True):
    """A node, as far as scheduling goes."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def gpu_type(self) -> str:
        """Type of its GPUs by its labels, or else by its ResourceSlices, shared or not; empty = not said."""
        return gpu_type(self.labels) or self.status.gpu_product


class InvolvedObject(Object, frozen=True):
    """What an event is about."""

    kind: str | None = None
    name: str | None = None


class NodeEvent(Object, frozen=True):
    """An event about an object."""

    metadata: Metadata = Metadata()
    involved_object: InvolvedObject | None = None
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    event_time: str | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None


def quantity(value: Any) -> int:
    """Read a number of GPUs as Kubernetes writes it, ``"8"`` or ``8``; raise ValueError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9:
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise ValueError(f"{str(value)[:40]!r} is not a number of GPUs")


def pod_gpus(containers: Iterable[int], init_containers: Iterable[tuple[int, bool]]) -> int:
    """Return the GPUs a pod holds: of what runs together, or of its largest moment before.

    Init containers (GPUs, whether a sidecar) run one after the other; sidecars, which restart always, go on running
    beside what follows (KEP-753, the formula of ``resourcehelper.PodRequests``).
    """
    before = sidecars = 0
    for gpus, sidecar in init_containers:
        before = max(before, sidecars + gpus)
        if sidecar:
            sidecars += gpus
    return max(before, sidecars + sum(containers))


START_OF_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def instant(text: str | None) -> datetime:
    """Return a timestamp of Kubernetes, ``2026-11-21T09:30:00Z``; the start of time where there is none."""
    try:
        parsed = datetime.fromisoformat(text or "")
    except ValueError:
        return START_OF_TIME
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


Place = tuple[str | int, ...]  # Where an object stands in a document, a path of keys and list entries


Kinds = Mapping[str, type[Object]]  # Kind -> the struct that its objects are read as


def read_items(document: Document, kinds: Kinds, *, command: str) -> Iterator[tuple[Place, Object]]:
    """Yield the objects of a list as a command of ``kubectl`` prints it, of one object alone, or of several such
    documents, each with its place.  ``kinds`` has the struct of each kind that matters; an object that does not name
    its kind is a node.
    """
    several = isinstance(document.data, list)
    parts: dict[Place, Any] = {(i,): part for i, part in enumerate(document.data)} if several else {(): document.data}
    fix = f"give what `{command}` prints"
    for above, part in parts.items():
        is_list = isinstance(part, dict) and "items" in part
        matters = not isinstance(part, dict) or is_list or part.get("kind") in kinds
        if part is None or (len(parts) > 1 and not matters):
            continue
        if not matters:
            raise InvalidInput("holds no items", where=document.where(*above), fix=fix)
        if not isinstance(part, dict) or (is_list and not isinstance(part["items"], list)):
            where = document.where(*above, "items")
            raise InvalidInput("items: a list of objects is expected here", where=where, fix=fix)
        items = [((*above, "items", number), raw) for number, raw in enumerate(part["items"])] if is_list else []
        for place, raw in items if is_list else [(above, part)]:
            name = raw.get("kind", "Node") if isinstance(raw, dict) else "Node"
            if (kind := kinds.get(str(name))) is None:
                continue
            try:
                item = msgspec.convert(raw, kind)
            except msgspec.ValidationError as error:
                raise _located(document, raw, place, str(error)) from None
            for owner, key in ((raw, "metadata"), (raw.get("metadata", {}), "name")):
                if key not in owner:
                    missing, where = f"the key {key!r} is missing in {_dotted(place)}", document.where(*place)
                    raise InvalidInput(missing, where=where, fix=f"add {key!r}")
            yield place, item


def _dotted(path: Place) -> str:
    """Return a place for people: ``items[3].metadata``; the number of a document is left to the line."""
    keys = path[1:] if path and isinstance(path[0], int) else path
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key[:60]}" for key in keys).lstrip(".") or "the object"


def _located(document: Document, raw: Any, place: Place, complaint: str) -> InvalidInput:
    """Return msgspec's complaint about an object, with its line."""
    what, _, tail = complaint.partition(" - at `$")
    path, value = [*place], raw
    for step in _STEP.finditer(tail):
        key: str | int
        if step["index"]:
            key = int(step["index"])
        else:
            # msgspec does not name the keys of a mapping; the values of all our mappings are texts.
            key = step["field"] or next(key for key, text in value.items() if not isinstance(text, str))
        path.append(key)
        value = value[key]
    dotted = _dotted(tuple(path))
    wants_text = what.startswith("Expected `str") and isinstance(value, int | float)
    fix = "put the value in quotes" if wants_text else f"correct {dotted}"
    plain = what.replace("`", "").replace(" | null", "").replace("array", "list").replace("object", "mapping")
    message = f"{dotted}: {plain[:1].lower()}{plain[1:]}"
    return InvalidInput(message, where=document.where(*path), fix=fix)


_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")


class Requirement(Object, frozen=True):
    """What a label must be: an expression of a selector, a node selector or an affinity."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether it holds where these labels are; an unknown operator never does."""
        value, values = labels.get(self.key), self.values or ()
        match self.operator:
            case "In":
                return value is not None and value in values
            case "NotIn":
                return value is None or value not in values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                bound = values[0] if len(values) == 1 else ""
                if value is None or not _INTEGER.fullmatch(value) or not _INTEGER.fullmatch(bound):
                    return False
                return int(value) > int(bound) if self.operator == "Gt" else int(value) < int(bound)
        return False
