"""What the cache keeps of the texts of pods, their makers and namespaces: those that are read, cut where too long.

An annotation may have 256 kB, and so may the name in a reference to an owner; labels are short, and may be thousands.
Anybody who may make pods could fill the extender's memory with such texts.  So each is looked at once, when an object
is decoded: what nothing reads is dropped, and of what is too long to mean anything only the beginning stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice

from msgspec.structs import force_setattr

from extender.dialect_names import NAMES
from extender.kubernetes_names import ANNOTATIONS_READ, FAIR_SHARE_WEIGHT, GROUP, MOST_TEXT
from extender.texts import LONGEST_KEY, cut
from topology.kubernetes.objects import Metadata, OwnerReference
from topology.kubernetes.pods import PodSpec

READ = frozenset((*ANNOTATIONS_READ, *NAMES, FAIR_SHARE_WEIGHT))  # annotations that mean something
MOST_LABELS = 64  # labels that stay beside those of peers and ours: a reservation may select pods by any


def trim(meta: Metadata) -> None:
    """Drop from the metadata of an object just decoded, in place, what is not to be kept."""
    if meta.annotations:
        # A dictionary keeps its room when keys go: a new one.
        kept = {key: _kept(key, text) for key, text in meta.annotations.items() if key in READ}
        force_setattr(meta, "annotations", kept or None)
    if meta.labels and len(meta.labels) > MOST_LABELS:
        force_setattr(meta, "labels", _few(meta.labels))
    if meta.owner_references:
        owner = next((owner for owner in meta.owner_references if owner.controller), None)
        force_setattr(meta, "owner_references", None if owner is None else [_named_shortly(owner)])


def shorten_images(spec: PodSpec) -> None:
    """Cut the names of images of a pod just decoded, in place: of one that is too long none is listed on a node."""
    for box in (*(spec.containers or ()), *(spec.init_containers or ())):
        force_setattr(box, "image", _kept("", box.image))


def strip(meta: Metadata) -> None:
    """Drop all texts from the metadata of an object just decoded, in place, but for what tells it from others."""
    for name in ("annotations", "labels", "owner_references"):
        force_setattr(meta, name, None)


def _kept(key: str, text: str) -> str:
    return _one_copy(cut(text, MOST_TEXT.get(key, LONGEST_KEY)))


@lru_cache(256)  # the pods of a gang mostly come together
def _one_copy(text: str) -> str:
    """Return a text, the same object for all that say the same."""
    return text


def _few(labels: Mapping[str, str]) -> dict[str, str]:
    named = {key: text for key, text in labels.items() if key in NAMES or key.startswith(f"{GROUP}/")}
    others = ((key, text) for key, text in labels.items() if key not in named)
    return dict(islice(named.items(), MOST_LABELS)) | dict(islice(others, MOST_LABELS))


def _named_shortly(owner: OwnerReference) -> OwnerReference:
    kind, name, uid = (cut(text, LONGEST_KEY) for text in (owner.kind, owner.name, owner.uid))
    return OwnerReference(kind=kind, name=name, uid=uid, controller=True)
