"""From JSON to structs."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from extender.objects.common import Object
from extender.objects.nodes import Node
from extender.objects.owners import Owner
from extender.objects.pods import Pod
from topology.errors import InvalidInput

_Kind = TypeVar("_Kind", bound=Object)
_decoders: dict[type, msgspec.json.Decoder[Any]] = {kind: msgspec.json.Decoder(kind) for kind in (Pod, Node, Owner)}


def decode_pod(raw: bytes | dict[str, Any]) -> Pod:
    """A pod from JSON, or from what a JSON parser made of it.

    :raises InvalidInput: not a pod.
    """
    return _decode(raw, Pod)


def decode_node(raw: bytes | dict[str, Any]) -> Node:
    """A node from JSON, or from what a JSON parser made of it.

    :raises InvalidInput: not a node.
    """
    return _decode(raw, Node)


def decode_owner(raw: bytes | dict[str, Any]) -> Owner:
    """A Job, JobSet, StatefulSet or PodGroup.

    :raises InvalidInput: none of them.
    """
    return _decode(raw, Owner)


def _decode(raw: bytes | dict[str, Any], kind: type[_Kind]) -> _Kind:
    try:
        return _decoders[kind].decode(raw) if isinstance(raw, bytes) else msgspec.convert(raw, kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(
            f"not a {kind.__name__} of Kubernetes: {error}", fix="send the object as the API server writes it"
        ) from None
