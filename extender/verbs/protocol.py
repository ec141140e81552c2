"""What kube-scheduler sends to an extender and expects back (k8s.io/kube-scheduler/extender/v1, 1.36 and 1.37).

The Go structs have no JSON tags: outer keys are the names of Go fields (``NodeNames``), pods and nodes inside are
ordinary Kubernetes JSON.  A scheduler with ``nodeCacheCapable`` sends names and expects names; without it, it sends
whole nodes and expects those back that pass, which are kept as the bytes they came in.

Any status other than 200 and any non-empty ``Error`` fail the scheduling cycle of the pod, to be tried again; both
``Nodes`` and ``NodeNames`` null mean that no node passes.  Naming a node that was not asked about is an error too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TypeVar

import msgspec

from extender.kept_fields import trim
from ground.errors import InvalidInput
from topology.kubernetes.pods import Pod

T = TypeVar("T")


class _Message(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    """A message of the protocol: names of Go fields."""


class RawNodeList(msgspec.Struct, frozen=True, gc=False):
    """Whole nodes, unread; the list is written as Kubernetes writes it."""

    items: list[msgspec.Raw] | None = None
    metadata: dict[str, str] = msgspec.field(default_factory=dict)


class _Named(msgspec.Struct, frozen=True, gc=False):
    name: str


class _NodeName(msgspec.Struct, frozen=True, gc=False):
    metadata: _Named


class FilterArgs(msgspec.Struct, frozen=True, rename="pascal", dict=True):
    """``ExtenderArgs``: a pod, and the nodes that the scheduler's own plugins let pass.

    The scheduler sets one of ``nodes`` and ``node_names``, by its configuration; both null ask about no node.
    """

    pod: Pod
    nodes: RawNodeList | None = None
    node_names: list[str] | None = None

    @cached_property
    def names(self) -> Sequence[str]:
        """The nodes asked about, in the order in which they came, or raise ``InvalidInput``: they cannot be read."""
        if self.nodes is None:
            return self.node_names or ()
        names = [_decode(_node_name, raw, "ExtenderArgs").metadata.name for raw in self.nodes.items or ()]
        if self.node_names is not None and self.node_names != names:
            message = f"Nodes has {len(names)} nodes, NodeNames {len(self.node_names)}, and they are not the same"
            fix = "send Nodes, or NodeNames (nodeCacheCapable: true), and null for the other"
            raise InvalidInput(message, fix=fix)
        return names


class FilterResult(_Message, frozen=True):
    """``ExtenderFilterResult``."""

    nodes: RawNodeList | None = None
    node_names: Sequence[str] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class MetaPod(msgspec.Struct, frozen=True, gc=False, rename={"uid": "UID"}):
    """A victim, by its UID."""

    uid: str


class MetaVictims(msgspec.Struct, frozen=True, gc=False, rename={"pods": "Pods", "violations": "NumPDBViolations"}):
    """Pods that would have to leave a node, and how many disruption budgets that breaks."""

    pods: list[MetaPod] | None = None
    violations: int = 0


class Victims(msgspec.Struct, frozen=True, gc=False, rename={"pods": "Pods", "violations": "NumPDBViolations"}):
    """The same with whole pods."""

    pods: list[Pod] | None = None
    violations: int = 0

    def meta(self) -> MetaVictims:
        """Return the form in which answers name victims."""
        return MetaVictims([MetaPod(pod.uid) for pod in self.pods or ()], self.violations)


class PreemptArgs(_Message, frozen=True):
    """``ExtenderPreemptionArgs``: the nodes where pods could be preempted for a pod."""

    pod: Pod
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None

    @property
    def candidates(self) -> dict[str, MetaVictims]:
        """Victims of each node, in whichever form they came."""
        if self.node_name_to_meta_victims is not None:
            return self.node_name_to_meta_victims
        return {node: victims.meta() for node, victims in (self.node_name_to_victims or {}).items()}


class PreemptResult(_Message, frozen=True):
    """``ExtenderPreemptionResult``: always by UID, whatever was sent."""

    node_name_to_meta_victims: dict[str, MetaVictims]


_node_name = msgspec.json.Decoder(_NodeName)
encode = msgspec.json.Encoder().encode  # Return an answer as JSON


def _decode(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw, what: str) -> T:
    """Read a message, or raise ``InvalidInput``: not JSON, or not of the protocol's types."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        fix = "send what kube-scheduler 1.36 or 1.37 sends to extenders"
        raise InvalidInput(f"not an {what}: {error}", fix=fix) from None


A = TypeVar("A", FilterArgs, PreemptArgs)


def _decode_asked(decoder: msgspec.json.Decoder[A], body: bytes, what: str) -> A:
    """Read a question; of its pod stays what the cache keeps, so that both name the same gang."""
    args = _decode(decoder, body, what)
    trim(args.pod.metadata)
    return args


decode_filter = partial(_decode_asked, msgspec.json.Decoder(FilterArgs), what="ExtenderArgs")
decode_preempt = partial(_decode_asked, msgspec.json.Decoder(PreemptArgs), what="ExtenderPreemptionArgs")
