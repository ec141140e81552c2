"""What kube-scheduler sends to an extender and expects back (k8s.io/kube-scheduler/extender/v1, 1.36 and 1.37).

The Go structs have no JSON tags: outer keys are the names of Go fields (``NodeNames``), pods and nodes inside are
ordinary Kubernetes JSON.  A scheduler with ``nodeCacheCapable`` sends names and expects names; without it, it sends
whole nodes and expects those back that pass, which are kept as the bytes they came in.

Any status other than 200 and any non-empty ``Error`` fail the scheduling cycle of the pod, to be tried again; both
``Nodes`` and ``NodeNames`` null mean that no node passes.  Naming a node that was not asked about is an error too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec

from topology.errors import InvalidInput
from topology.readers.kubernetes_pods import Pod


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
        """The nodes asked about, in the order in which they came.

        :raises InvalidInput: a node without a name; nodes and names that are not the same.
        """
        if self.nodes is None:
            return self.node_names or ()
        try:
            names = [_node_name.decode(raw).metadata.name for raw in self.nodes.items or ()]
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise _refused("ExtenderArgs", error) from None
        if self.node_names is not None and self.node_names != names:
            raise InvalidInput(
                f"Nodes has {len(names)} nodes, NodeNames {len(self.node_names)}, and they are not the same",
                fix="send Nodes, or NodeNames (nodeCacheCapable: true), and null for the other",
            )
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


def decode_filter(body: bytes) -> FilterArgs:
    """Read a Filter request.

    :raises InvalidInput: not JSON, or not of the protocol's types.
    """
    try:
        return _filter_args.decode(body)
    except _UNREADABLE as error:
        raise _refused("ExtenderArgs", error) from None


def decode_preempt(body: bytes) -> PreemptArgs:
    """Read a Preempt request.

    :raises InvalidInput: not JSON, or not of the protocol's types.
    """
    try:
        return _preempt_args.decode(body)
    except _UNREADABLE as error:
        raise _refused("ExtenderPreemptionArgs", error) from None


def encode(answer: FilterResult | PreemptResult) -> bytes:
    """Return the answer as JSON."""
    return _encoder.encode(answer)


def filter_error(message: str) -> FilterResult:
    """Return an answer that fails this attempt of the pod and says why; the scheduler shows it in the pod's events."""
    return FilterResult(error=message)


_UNREADABLE = (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_filter_args = msgspec.json.Decoder(FilterArgs)
_preempt_args = msgspec.json.Decoder(PreemptArgs)
_node_name = msgspec.json.Decoder(_NodeName)
_encoder = msgspec.json.Encoder()


def _refused(what: str, error: Exception) -> InvalidInput:
    return InvalidInput(f"not an {what}: {error}", fix="send what kube-scheduler 1.36 or 1.37 sends to extenders")
